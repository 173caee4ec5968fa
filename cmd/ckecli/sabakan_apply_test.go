package main

import (
	"encoding/json"
	"net"
	"strings"
	"testing"
	"time"

	"cke"
)

func TestSabakan_SettingsAreCheckedAndShown(t *testing.T) {
	h := newHouse(t)
	refused := func(code int, says string, args ...string) {
		t.Helper()
		if _, stderr := h.run(code, append([]string{"sabakan"}, args...)...); !strings.Contains(stderr, says) {
			t.Errorf("%q: %s, want %q", args, stderr, says)
		}
	}
	shows := func(want string, args ...string) {
		t.Helper()
		if stdout, _ := h.run(exitDone, append([]string{"sabakan"}, args...)...); !strings.Contains(stdout, want) {
			t.Errorf("%q: %s, want %q", args, stdout, want)
		}
	}
	refused(exitFailed, "there is no cluster yet", "set-url", "http://10.0.0.1:10080")
	refused(exitRefused, "no inventory", "enable", "--cluster", "prod")
	refused(exitRefused, "bad.yml:5: reboot", "set-template", h.write("bad.yml", templateFile+"reboot: {}\n"))
	refused(exitFailed, "describes cluster prod", "set-template", h.write("template.yml", templateFile), "--cluster", "test")
	shows("prod: the template is set", "set-template", h.write("template.yml", templateFile))
	refused(exitRefused, "no URL of an inventory", "get-url")
	refused(exitRefused, "set-url URL", "enable")
	refused(exitRefused, "want an absolute path", "set-url", "hosts.yml")
	refused(exitRefused, "invalid URL of an inventory file", "set-url", "http://10.0.0.1:10080")
	hosts := h.write("hosts.yml", hostsFile("healthy"))
	shows("nothing follows from it before", "set-url", hosts)
	shows(hosts, "get-url")
	shows("false", "is-enabled")
	shows("prod: the inventory is used", "enable")
	shows("true", "is-enabled")
	shows("inventory: {source: file, spares: 1}", "get-template")
	refused(exitRefused, `bad.json:1: having.stats`, "set-variables", h.write("bad.json", `{"having": {"stats": ["HEALTHY"]}}`))
	refused(exitRefused, `having.states[0]: unknown state "DEAD"`, "set-variables", h.write("bad.json", `{"having": {"states": ["DEAD"]}}`))
	shows("the variables are set", "set-variables", h.write("variables.json", `{"having": {"labels": [{"name": "disk", "value": "nvme"}], "minDaysBeforeRetire": 90}}`))
	shows("minDaysBeforeRetire", "get-variables")
	shows("those of the template", "set-variables", h.write("empty.json", ""))
	refused(exitRefused, "has no query variables", "get-variables")
	var i inventorySetting
	stdout, _ := h.run(exitDone, "sabakan", "disable", "-o", "json")
	if err := json.Unmarshal([]byte(stdout), &i); err != nil || i.Enabled || i.URL != hosts || i.Cluster != "prod" {
		t.Errorf("%v, %+v", err, i)
	}
	shows(`"title": "Template of a cluster file of cke"`, "schema")
}

// proposed has a leader that shows a change.
func proposed(t *testing.T, s cke.InventoryStatus) (*house, *leader) {
	t.Helper()
	h := declared(t)
	l := h.lead("prod")
	l.status(cke.Status{Generation: 1, ObservedGeneration: 1, Health: cke.HealthReady, Reason: "as declared", Inventory: &s})
	return h, l
}

var aChange = cke.InventoryStatus{Source: "sabakan at http://10.0.0.1:10080", ReadAt: time.Now(), Hosts: map[cke.HostState]int{cke.HostHealthy: 5},
	Reason: "machine cp2 is retired: m4 takes the place of cp2", Change: &cke.InventoryProposal{Hash: "abc", Cause: cke.CauseRetired, Reason: "machine cp2 is retired: m4 takes the place of cp2"}}

func TestSabakanApply_OrdersTheChangeThatTheLeaderShows(t *testing.T) {
	h, l := proposed(t, aChange)
	stdout, _ := h.run(exitDone, "status")
	if !strings.Contains(stdout, "machine cp2 is retired") || !strings.Contains(stdout, "`ckecli sabakan apply abc`") {
		t.Error(stdout)
	}
	if _, stderr := h.run(exitRefused, "sabakan", "apply", "def"); !strings.Contains(stderr, "is abc now, not def") {
		t.Error(stderr)
	}
	answer := func(do func(o cke.InventoryOrder) cke.InventoryAnswer) {
		for state := range h.store.WatchCluster(h.ctx(), "prod") {
			if o := state.Order(); o != nil {
				a := do(*o)
				i := aChange
				i.Log.Answer = &a
				l.status(cke.Status{Generation: 1, Health: cke.HealthReady, Reason: "as declared", Inventory: &i})
				return
			}
		}
	}
	c := h.start("sabakan", "apply", "abc", "--no-wait")
	answer(func(o cke.InventoryOrder) cke.InventoryAnswer {
		spec := h.stored()
		spec.Cluster.Nodes[0].Labels = map[string]string{"a": "b"}
		next, _, err := l.term.EditSpec(h.ctx(), cke.InventoryEdit{Generation: 1, Cluster: spec.Cluster, Source: []byte(spec.Source), By: "inventory, confirmed by me", Cause: cke.CauseRetired, Order: &o})
		if err != nil {
			t.Error(err)
		}
		return cke.InventoryAnswer{Order: o, At: time.Now(), Generation: next.Generation}
	})
	if c.must(exitDone); c.stdout.String() != "2\n" {
		t.Errorf("%q %s", c.stdout.String(), c.stderr.String())
	}
	if stdout, _ := h.run(exitDone, "cluster", "log"); !strings.Contains(stdout, "inventory, confirmed by me (retired)") {
		t.Error(stdout)
	}
	c = h.start("sabakan", "apply")
	answer(func(o cke.InventoryOrder) cke.InventoryAnswer {
		a := cke.InventoryAnswer{Order: o, At: time.Now(), Refused: "the cluster file was changed meanwhile", Code: cke.CodeConflict}
		if err := l.term.PutInventoryLog(h.ctx(), cke.InventoryLog{Answer: &a}, true); err != nil {
			t.Error(err)
		}
		return a
	})
	if c.must(exitRefused); !strings.Contains(c.stderr.String(), "changed meanwhile") {
		t.Error(c.stderr.String())
	}
}

func TestSabakanApply_AsksWhatNeedsConfirmation(t *testing.T) {
	s := cke.InventoryStatus{Source: "inventory file /hosts.yml", ReadAt: time.Now(), Reason: "the last change was 5m ago, and 30m have to pass", Stop: "settle",
		Override: &cke.InventoryProposal{Hash: "def", Reason: "machine cp2 is retired: m4 takes the place of cp2", Confirm: []string{"it overrides: the last change was 5m ago"}}}
	h, _ := proposed(t, s)
	for _, tc := range []struct {
		args []string
		says string
	}{
		{[]string{"sabakan", "apply"}, "sabakan apply def, which overrides that"},
		{[]string{"sabakan", "apply", "def"}, "it overrides: the last change was 5m ago"},
		{[]string{"sabakan", "apply", "def"}, "ckecli sabakan apply def --yes"},
	} {
		if _, stderr := h.run(exitRefused, tc.args...); !strings.Contains(stderr, tc.says) {
			t.Errorf("%q: %s, want %q", tc.args, stderr, tc.says)
		}
	}
	if state := <-h.store.WatchCluster(h.ctx(), "prod"); state.Order() != nil {
		t.Errorf("%+v", state.Order())
	}
}

// Machines that cannot be reached do not become members of a cluster that does not exist yet.
func TestSabakanApply_BootstrapsOnlyOnMachinesThatFit(t *testing.T) {
	h := newHouse(t)
	h.run(exitDone, "sabakan", "set-template", h.write("template.yml", strings.Replace(templateFile, "user: cke", "user: cke, ssh: {port: 1}", 1)))
	h.run(exitDone, "sabakan", "set-url", h.write("hosts.yml", "hosts: [{id: a, address: 127.0.0.1}, {id: b, address: 127.0.0.2}, {id: c, address: 127.0.0.3}]\n"))
	if stdout, _ := h.run(exitDone, "sabakan", "preview"); !strings.Contains(stdout, "it would be bootstrapped on a, b, c") {
		t.Error(stdout)
	}
	_, stderr := h.run(exitRefused, "sabakan", "apply", "--yes")
	if !strings.Contains(stderr, "a does not fit: ssh: ") || !strings.Contains(stderr, "3 that failed the check") {
		t.Error(stderr)
	}
	if names, err := h.store.Clusters(h.ctx()); err != nil || len(names) > 0 {
		t.Errorf("%v, %v", names, err)
	}
}

// A machine that refuses cke's login is named before a change declares it, with the command that lets cke in.
func TestSabakan_NamesHowToLetCkeIn(t *testing.T) {
	h, _, _, operator := letIn(t)
	d := newDoor(t, "127.0.0.1", operator)
	_, port, _ := net.SplitHostPort(d.address)
	h.run(exitDone, "sabakan", "set-template", h.write("template.yml", strings.Replace(templateFile, "user: cke", "user: cke, ssh: {port: "+port+"}", 1)))
	h.run(exitDone, "sabakan", "set-url", h.write("hosts.yml", "hosts: [{id: a, address: 127.0.0.1}, {id: b, address: 127.0.0.2}, {id: c, address: 127.0.0.3}]\n"))
	stdout, _ := h.run(exitDone, "sabakan", "preview")
	for _, want := range []string{"a does not fit now: ssh: a refused the SSH login of user cke; ", "`ckecli node authorize cke@" + d.address + "`", "b does not fit now: ssh: "} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	if strings.Contains(stdout, string(cke.CodeConfirm)) {
		t.Errorf("what is to be confirmed has the code of an error:\n%s", stdout)
	}
	if _, stderr := h.run(exitRefused, "sabakan", "apply", "--yes"); !strings.HasSuffix(stderr, "Try: ckecli node authorize cke@"+d.address+"\n") {
		t.Error(stderr)
	}
}
