package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/internal/golden"
)

const templateFile = `name: prod
nodes:
  - {control_plane: true, user: cke}
inventory: {source: file, spares: 1}
`

// hostsFile are the machines of clusterFile, the second one in a state, and further ones.
func hostsFile(state string, further ...string) string {
	text := "hosts:\n"
	for _, h := range append([]string{"{id: cp1, address: 10.0.0.11, zone: a}", "{id: cp2, address: 10.0.0.12, zone: b, state: " + state + "}", "{id: cp3, address: 10.0.0.13, zone: c}"}, further...) {
		text += "  - " + h + "\n"
	}
	return text
}

// The outcome of a change is that of the plan which the leader daemon would carry out.
func TestSabakanPreview_ShowsTheOneChange(t *testing.T) {
	file := "name: prod\nnodes:\n"
	for i, zone := range []string{"a", "b", "c"} {
		file += fmt.Sprintf("  - {address: 10.0.0.1%[1]d, hostname: cp%[1]d, user: cke, control_plane: true, zone: %s, annotations: {cke/serial: cp%[1]d}}\n", i+1, zone)
	}
	o := servingIn(newHouse(t), file)
	for i := range o.in.Seen.Nodes {
		o.in.Seen.Nodes[i].Clock = o.in.Seen.ObservedAt
	}
	o.tell()
	template := o.write("template.yml", templateFile)
	for _, tc := range []struct {
		name, template, hosts string
	}{
		{"retired", templateFile, hostsFile("retired", "{id: m4, address: 10.0.0.14, zone: d}", "{id: m5, address: 10.0.0.15, zone: a}")},
		{"none-fits", templateFile, hostsFile("retired", "{id: m4, address: 10.0.0.14, zone: d, state: unhealthy}")},
		{"unreachable-and-serves", templateFile, hostsFile("unreachable")},
		{"described", templateFile, hostsFile("healthy, labels: {disk: nvme}")},
		{"fewer", strings.Replace(templateFile, "spares: 1", "control_plane: 1", 1), hostsFile("healthy")},
		{"options", templateFile + "options: {etcd: {resources: {cpus: 2}}}\n", hostsFile("healthy")},
	} {
		stdout, _ := o.run(exitDone, "sabakan", "preview", "--template", o.write("template.yml", tc.template), "--file", o.write("hosts.yml", tc.hosts), "-o", "wide")
		golden.Compare(t, "testdata/sabakan/"+tc.name+".txt", stdout)
	}
	var p preview
	o.write("template.yml", templateFile)
	args := []string{"sabakan", "preview", "--template", template, "--file", o.write("hosts.yml", hostsFile("retiring", "{id: m4, address: 10.0.0.14}"))}
	stdout, _ := o.run(exitDone, append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(stdout), &p); err != nil || p.Revision != 1 || p.Change == nil || p.Change.Cause != cke.CauseRetiring || p.Change.Simulated == nil || len(p.Machines) != 4 {
		t.Errorf("%v, %+v", err, p)
	}
	if stdout, _ := o.run(exitDone, append(args, "-o", "name")...); stdout != p.Change.Hash+"\n" {
		t.Errorf("%q, want %s", stdout, p.Change.Hash)
	}
}

func TestSabakanPreview_ShowsABootstrapWhereThereIsNoCluster(t *testing.T) {
	h := declared(t) // prod has its nodes
	stdout, _ := h.run(exitDone, "sabakan", "preview", "--template", h.write("template.yml", strings.Replace(templateFile, "prod", "test", 1)),
		"--file", h.write("hosts.yml", hostsFile("healthy", "{id: m4, address: 10.0.0.14}", "{id: m5, address: 10.0.0.15}", "{id: m6, address: 10.0.0.16}")))
	golden.Compare(t, "testdata/sabakan/bootstrap.txt", stdout)
}

// followed is a cluster whose inventory a leader has read for minutes, the last time long before.
func followed(t *testing.T, long time.Duration, hosts string) (o *observed, past cke.InventoryPast) {
	file := "name: prod\nnodes:\n"
	for i, zone := range []string{"a", "b", "c"} {
		file += fmt.Sprintf("  - {address: 10.0.0.1%[1]d, hostname: cp%[1]d, user: cke, control_plane: true, zone: %[2]s, annotations: {cke/serial: cp%[1]d}}\n", i+1, zone)
	}
	o = servingIn(newHouse(t), file)
	for i := range o.in.Seen.Nodes {
		o.in.Seen.Nodes[i].Clock = o.in.Seen.ObservedAt
	}
	o.run(exitDone, "sabakan", "set-template", o.write("template.yml", templateFile))
	o.run(exitDone, "sabakan", "set-url", o.write("hosts.yml", hosts))
	past = cke.InventoryPast{ReadAt: noon.Add(-long), Hosts: map[string]cke.HostPast{}}
	for i, serial := range []string{"cp1", "cp2", "cp3", "m4"} {
		past.Hosts[serial] = cke.HostPast{State: cke.HostHealthy, Accepted: cke.HostHealthy, Address: fmt.Sprintf("10.0.0.1%d", i+1), Reads: 2, Watched: cke.Duration(5 * time.Minute)}
	}
	return o, past
}

// remembers stores what a leader knows, and shows a preview.
func (o *observed) remembers(past cke.InventoryPast, readAt time.Time) string {
	o.house.t.Helper()
	if err := o.term.PutInventoryPast(o.ctx(), past); err != nil {
		o.house.t.Fatal(err)
	}
	o.in.Inventory = &cke.InventoryStatus{ReadAt: readAt, Reason: "-"}
	o.tell()
	stdout, _ := o.run(exitDone, "sabakan", "preview", "-o", "wide")
	return stdout
}

// turned gives a machine another state in what a leader knows, which it has had for some time.
func turned(past cke.InventoryPast, serial string, state cke.HostState, d time.Duration) {
	h := past.Hosts[serial]
	h.State, h.Watched = state, cke.Duration(d)
	past.Hosts[serial] = h
}

// A leader stores what it knows of an inventory some minutes late: a preview knows as much as the status.
func TestSabakanPreview_KnowsAsMuchAsTheStatus(t *testing.T) {
	o, past := followed(t, 9*time.Minute, hostsFile("retired", "{id: m4, address: 10.0.0.14}"))
	turned(past, "cp2", cke.HostRetired, 5*time.Minute)
	if stdout := o.remembers(past, past.ReadAt); !strings.Contains(stdout, "1 healthy for less than 10m (m4 can be taken in 4m)") {
		t.Error(stdout)
	}
	if stdout := o.remembers(past, noon); !strings.Contains(stdout, "m4 takes the place of cp2") {
		t.Error(stdout)
	}
}

// How old the last read is, how long each machine is in its state, until when is waited, and what stops a change.
func TestSabakanPreview_ShowsWhatIsWaitedFor(t *testing.T) {
	for _, tc := range []struct{ name, second, third string }{
		{"grace", "retiring", "healthy"}, {"many", "unreachable", "unreachable"},
	} {
		hosts := strings.Replace(hostsFile(tc.second, "{id: m4, address: 10.0.0.14, zone: d}"), "zone: c}", "zone: c, state: "+tc.third+"}", 1)
		o, past := followed(t, 12*time.Second, hosts)
		turned(past, "cp2", cke.HostState(tc.second), 2*time.Minute)
		turned(past, "cp3", cke.HostState(tc.third), 2*time.Minute)
		turned(past, "m4", cke.HostHealthy, time.Hour)
		golden.Compare(t, "testdata/sabakan/"+tc.name+".txt", o.remembers(past, past.ReadAt))
	}
}

func TestSabakanPreview_SaysHowOldTheLastReadIs(t *testing.T) {
	o, past := followed(t, time.Hour, hostsFile("healthy"))
	o.remembers(past, past.ReadAt)
	o.write("hosts.yml", hostsFile("sick"))
	if _, stderr := o.run(exitRefused, "sabakan", "preview"); !strings.Contains(stderr, "hosts[1].state") || !strings.Contains(stderr, "last read the inventory well 1h ago") {
		t.Error(stderr)
	}
}

func TestSabakanPreview_RefusesWhatItCannotRead(t *testing.T) {
	h := declared(t)
	template, hosts := h.write("template.yml", templateFile), h.write("hosts.yml", hostsFile("healthy"))
	for _, tc := range []struct {
		args []string
		exit int
		says string
	}{
		{[]string{"--file", hosts}, exitUsage, "--template"},
		{[]string{"--template", template}, exitUsage, "name one inventory"},
		{[]string{"--template", template, "--file", h.write("bad.yml", hostsFile("sick"))}, exitRefused, "bad.yml:3: hosts[1].state"},
		{[]string{"--template", h.write("bad-template.yml", templateFile+"reboot: {}\n"), "--file", hosts}, exitRefused, "bad-template.yml:5: reboot"},
	} {
		if _, stderr := h.run(tc.exit, append([]string{"sabakan", "preview"}, tc.args...)...); !strings.Contains(stderr, tc.says) {
			t.Errorf("%q: %s, want %q", tc.args, stderr, tc.says)
		}
	}
}
