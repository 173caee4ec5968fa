package sabakan_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cke"
	"cke/clusterfile"
	sources "cke/internal/source"
	"cke/sabakan"
)

// The same input gives the same choice: nothing is dialed, read, logged or drawn, in the files that choose.
func TestChoose_IsPure(t *testing.T) {
	for name, f := range sources.Files(t) {
		if slices.Contains([]string{"choose.go", "standing.go", "stops.go", "rules.go", "candidates.go", "change.go", "past.go", "zones.go", "machines.go", "filter.go"}, name) {
			sources.NeedPure(t, name, f, "context", "log", "log/slog", "math/rand", "math/rand/v2", "net", "net/http", "os", "sync")
		}
	}
}

// Of two stops that apply the first one of the page is reported; the simulation is asked last.
func TestChoose_TheFirstStopIsReported(t *testing.T) {
	stops := []struct{ name, verbs string }{
		{"off", "mode off"},
		{"read", "fails no answer"},
		{"state", "health FROZEN"},
		{"status", "status 1h"},
		{"quorum", "lost"},
		{"in-flight", "unobserved"},
		{"others", "others no answer"},
		{"many", "now 1 unreachable 1m; now 3 unreachable 1m"},
		{"settle", "changed 9 1m"},
		{"per-day", "changed 8 2h; changed 9 1h"},
		{"node", "flaps 2"},
		{"simulated", "blocked no end"},
	}
	names := names(t)
	for i, s := range stops {
		if names[i] != s.name {
			t.Fatalf("stop %d is %s, want %s", i, names[i], s.name)
		}
		scene := "formed 3 8; host 2 retired 1h; " + s.verbs
		if got := sabakan.Choose(read(t, scene).Input); string(got.Stop) != s.name {
			t.Errorf("%s: %q, want %s", scene, got.Stop, s.name)
		}
		for _, later := range stops[i+1:] {
			both := "formed 3 8; host 2 retired 1h; " + later.verbs + "; " + s.verbs
			want := s.name
			if s.name == "per-day" && later.name == "node" {
				want = later.name // a machine that is held back has no change that could wait for the daily limit
			}
			if got := sabakan.Choose(read(t, both).Input); string(got.Stop) != want {
				t.Errorf("%s: %q, want %s", both, got.Stop, want)
			}
		}
	}
}

// What the operator confirms is the change that was shown: its hash changes with the change and with what
// has to be confirmed, and with nothing else.
func TestChoose_TheHashIsThatOfTheChange(t *testing.T) {
	hash := func(w *world) string {
		t.Helper()
		c := sabakan.Choose(w.Input)
		if c.Change == nil {
			t.Fatalf("no change: %s", c.Reason)
		}
		return c.Change.Hash
	}
	want := hash(formed(3, 8).lasts(2, cke.HostRetired, time.Hour))
	later := formed(3, 8).lasts(2, cke.HostRetired, 2*time.Hour)
	later.Now, later.Read.ReadAt, later.Status.ObservedAt = noon.Add(time.Minute), noon.Add(time.Minute), noon.Add(time.Minute)
	later.Status.Members[0].Revision = 4711
	edited := formed(3, 8).lasts(2, cke.HostRetired, time.Hour)
	edited.Spec.Generation, edited.Status.Generation, edited.Status.ObservedGeneration = 8, 8, 8
	overriding := func(ago time.Duration) *world {
		w := formed(3, 8).changed(9, ago).lasts(2, cke.HostRetired, time.Hour)
		w.Override = true
		return w
	}
	gap := formed(3, 8).lasts(2, cke.HostRetired, time.Hour)
	gap.ends = &sabakan.Simulated{Tolerance: 1, Least: -1}
	if a, b := hash(overriding(time.Minute)), hash(overriding(5*time.Minute)); a != b {
		t.Errorf("an override, and again minutes later: %s, %s", a, b)
	}
	for _, c := range []struct {
		name string
		w    *world
		same bool
	}{
		{"in spite of a stop", overriding(time.Minute), false},
		{"with a gap in the service", gap, false},
		{"again a minute later", later, true},
		{"by another revision of the file", edited, false},
		{"for another cause", formed(3, 8).lasts(2, cke.HostRetiring, time.Hour), false},
		{"to another machine", formed(3, 8).without(4).lasts(2, cke.HostRetired, time.Hour), false},
	} {
		if got := hash(c.w); (got == want) != c.same {
			t.Errorf("%s: %s, was %s", c.name, got, want)
		}
	}
}

// A new node has what the template and the inventory say of it, and a spare that becomes a control-plane node keeps what is its own.
func TestChoose_DeclaresNodesAsTheTemplateSays(t *testing.T) {
	w := formed(3, 8).lasts(2, cke.HostRetired, time.Hour)
	w.Template.Nodes = []cke.Node{
		{ControlPlane: true, User: "cke", SSH: cke.SSH{Port: 2222}, Labels: map[string]string{"team": "storage", "disk": "any"}, Annotations: map[string]string{"by": "us"}},
		{User: "spare"},
	}
	w.host(4).Labels = map[string]string{"disk": "nvme", "row": "7", "not a key": "x"}
	w.Past.Template = sabakan.TemplateHash(w.Template)
	want := cke.Node{Address: "10.0.0.4", Hostname: "s4", User: "cke", ControlPlane: true, Zone: "rack4", SSH: cke.SSH{Port: 2222},
		Labels:      map[string]string{"team": "storage", "disk": "any", "row": "7", cke.LabelRole: "cs"},
		Annotations: map[string]string{"by": "us", cke.AnnotationSerial: "s4"}}
	place := func(w *world) cke.Node {
		t.Helper()
		c := sabakan.Choose(w.Input)
		if c.Change == nil {
			t.Fatal(c.Reason)
		}
		if _, err := clusterfileCheck(c.Change.Cluster); err != nil {
			t.Error(err)
		}
		n, _ := c.Change.Cluster.Node("s4")
		return n
	}
	if diff := cmp.Diff(want, place(w)); diff != "" {
		t.Error(diff)
	}
	w.declare(4, false)
	spare := &w.Spec.Cluster.Nodes[3]
	spare.User, spare.SSH.HostKey, spare.Labels["row"] = "spare", "ssh-ed25519 AAAA", "8"
	want.SSH.HostKey, want.Labels["row"] = "ssh-ed25519 AAAA", "8"
	if diff := cmp.Diff(want, place(w)); diff != "" {
		t.Error(diff)
	}
}

// clusterfileCheck reads a cluster file as an operator would store it.
func clusterfileCheck(c cke.Cluster) ([]clusterfile.Warning, error) {
	for i := range c.Nodes {
		c.Nodes = slices.Clone(c.Nodes)
		c.Nodes[i].SSH.HostKey = "" // those of these tests are none
	}
	text, err := cke.MarshalCluster(c)
	if err != nil {
		return nil, err
	}
	_, warnings, err := clusterfile.ParseCluster("cluster.yml", text)
	return warnings, err
}

// An operator edits the cluster file: that stays until another template is set.
func TestChoose_TheTemplateIsFollowedOnce(t *testing.T) {
	w := formed(3, 8)
	c := sabakan.Choose(w.Input)
	if c.Change != nil || c.Template == "" {
		t.Fatalf("%+v", c)
	}
	w.Past.Template = c.Template
	w.Spec.Cluster.Options.Etcd.Resources.Memory = 4 << 30
	if c := sabakan.Choose(w.Input); c.Change != nil {
		t.Fatalf("an edit is undone: %+v", c)
	}
	w.Template.Options.Etcd.ExtraArgs = []string{"--pre-vote=true"}
	c = sabakan.Choose(w.Input)
	if c.Change == nil || c.Change.Cause != cke.CauseTemplate || !cmp.Equal(c.Change.Cluster.Options, w.Template.Options) {
		t.Fatalf("%+v", c)
	}
	w.Spec.Cluster = c.Change.Cluster
	if c := sabakan.Choose(w.Input); c.Change != nil || c.Template == w.Past.Template {
		t.Errorf("a template that is followed: %+v", c)
	}
}

func TestChoose_TheOrderOfMachinesDoesNotMatter(t *testing.T) {
	for _, scene := range []string{"formed 5 40; host 2 retired 1h", "blank 40", "formed 3 40; wanted 5", "formed 3 40; spares 3", "formed 3 40; role 9 ss; host 2 retired 1h; having 3"} {
		w := read(t, scene)
		want := written(t, sabakan.Choose(w.Input))
		for seed := range uint64(20) {
			rand.New(rand.NewPCG(seed, 1)).Shuffle(len(w.Read.Hosts), func(i, j int) { w.Read.Hosts[i], w.Read.Hosts[j] = w.Read.Hosts[j], w.Read.Hosts[i] })
			if got := written(t, sabakan.Choose(w.Input)); got != want {
				t.Fatalf("%s: %s", scene, cmp.Diff(want, got))
			}
		}
	}
}

func written(t interface{ Fatal(...any) }, v any) string {
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestMachines_SayWhatEachIsFor(t *testing.T) {
	w := formed(3, 9)
	w.declare(4, false)
	w.lasts(5, cke.HostUnhealthy, time.Hour)
	w.Checks["s6"] = sabakan.Check{At: noon, Address: "10.0.0.6", Problem: "port 2379 is taken"}
	w.host(7).Role = "ss"
	w.Taken = map[string]string{"10.0.0.8": "other"}
	var got []string
	for _, m := range sabakan.Machines(w.Input) {
		got = append(got, strings.Join(strings.Fields(strings.Join([]string{m.ID, m.Zone, m.Use, m.Node, m.Unfit}, " ")), " "))
	}
	want := []string{"s1 rack1 member s1", "s2 rack2 member s2", "s3 rack3 member s3", "s4 rack4 spare s4", "s5 rack1 not healthy",
		"s6 rack2 that failed the check", "s7 rack3 of another role", "s8 rack4 in another cluster", "s9 rack1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
