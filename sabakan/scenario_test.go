package sabakan_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/internal/golden"
	"cke/sabakan"
)

// words are those of one part of a scene, as "host 2 unreachable 40m".
type words []string

func (w words) number(i int) int {
	n, err := strconv.Atoi(w[i])
	if err != nil {
		panic(fmt.Sprintf("%q: %v", w, err))
	}
	return n
}

func (w words) numbers() (all []int) {
	for i := range w {
		all = append(all, w.number(i))
	}
	return all
}

func (w words) time(i int) time.Duration {
	d, err := time.ParseDuration(w[i])
	if err != nil {
		panic(fmt.Sprintf("%q: %v", w, err))
	}
	return d
}

// verbs change a world.
var verbs = map[string]func(w *world, a words){
	// the inventory
	"host":        func(w *world, a words) { w.lasts(a.number(0), cke.HostState(a[1]), a.time(2)) },
	"now":         func(w *world, a words) { w.now(a.number(0), cke.HostState(a[1]), a.time(2)) },
	"gone":        func(w *world, a words) { w.gone(a.number(0), a.time(1)) },
	"lacks":       func(w *world, a words) { w.lacks(a.number(0)) },
	"asked":       func(w *world, a words) { w.Unregistered = append(w.Unregistered, "s"+a[0]) },
	"successor":   func(w *world, a words) { w.successor(a.number(0)) },
	"address":     func(w *world, a words) { w.addressed(a.number(0), a[1]) },
	"addressless": func(w *world, a words) { w.host(a.number(0)).Addresses = nil },
	"second":      func(w *world, a words) { w.host(a.number(0)).Addresses = append(w.host(a.number(0)).Addresses, a[1]) },
	"rack":        func(w *world, a words) { w.host(a.number(0)).Rack = a.number(1) },
	"role":        func(w *world, a words) { w.host(a.number(0)).Role = a[1] },
	"label":       func(w *world, a words) { w.host(a.number(0)).Labels = map[string]string{a[1]: a[2]} },
	"racked": func(w *world, a words) {
		w.host(a.number(0)).Rack = a.number(1)
		w.Spec.Cluster.Nodes[a.number(0)-1].Zone = "rack" + a[1]
	},
	"retires": func(w *world, a words) { w.host(a.number(0)).RetireDate = noon.Add(a.time(1)) },
	"without": func(w *world, a words) { w.without(a.numbers()...) },
	"read":    func(w *world, a words) { w.Read.ReadAt = noon.Add(-a.time(0)) },
	"fails":   func(w *world, a words) { w.Problem = strings.Join(a, " ") },
	"unread":  func(w *world, _ words) { w.Read = cke.HostList{} },
	"again":   func(w *world, _ words) { w.Past.ReadAt = w.Read.ReadAt },
	"flaps":   func(w *world, a words) { w.flaps(a.number(0)) },
	"first":   func(w *world, _ words) { w.Past = sabakan.Past{} },
	// the template
	"wanted":   func(w *world, a words) { w.Template.Inventory.ControlPlane = a.number(0) },
	"spares":   func(w *world, a words) { w.Template.Inventory.Spares = a.number(0) },
	"mode":     func(w *world, a words) { w.Template.Inventory.Mode = cke.InventoryMode(a[0]) },
	"unset":    func(w *world, _ words) { w.Template = cke.Template{} },
	"memory":   func(w *world, _ words) { w.Template.Options.Etcd.Resources.Memory = 8 << 30 },
	"having":   func(w *world, a words) { w.Template.Inventory.Having.Racks = a.numbers() },
	"template": func(w *world, a words) { w.Template.Name = a[0] },
	// the cluster
	"spare":  func(w *world, a words) { w.declare(a.number(0), false) },
	"silent": func(w *world, a words) { w.silent(a.number(0), a.time(1)) },
	"health": func(w *world, a words) { w.Status.Health, w.Status.Summary = cke.Health(a[0]), "as it says" },
	"paused": func(w *world, _ words) {
		w.Status.Conditions = []cke.Condition{{Type: cke.CondPaused, Status: cke.True, Message: "power works"}}
	},
	"hibernated": func(w *world, _ words) { w.Status.Hibernation = &cke.Hibernation{} },
	"deleting":   func(w *world, _ words) { w.Spec.DeleteRequestedAt = noon },
	"status":     func(w *world, a words) { w.Status.ObservedAt = noon.Add(-a.time(0)) },
	"answers":    func(w *world, a words) { w.Status.Nodes[a.number(0)-1].Problem = nil },
	"lost":       func(w *world, _ words) { w.Status.Tolerance, w.Status.Etcd.Quorate = -1, false },
	"unobserved": func(w *world, _ words) { w.Status.Generation-- },
	"unapplied":  func(w *world, _ words) { w.Status.ObservedGeneration-- },
	"learner":    func(w *world, a words) { w.member(a.number(0)).Role = "learner"; w.member(a.number(0)).Ready = false },
	"unjoined":   func(w *world, a words) { w.member(a.number(0)).Join = "" },
	"stranger":   func(w *world, a words) { w.byHand(a.number(0)); w.without(a.number(0)) },
	"lease":      func(w *world, a words) { w.Status.Drains = []cke.Drain{{Node: "s" + a[0], Until: noon.Add(time.Hour)}} },
	"runs": func(w *world, a words) {
		w.Status.Operation = &cke.OperationStatus{Type: a[0], Targets: a[1:], State: cke.RecordRunning}
	},
	"electing": func(w *world, _ words) { w.Status.Electing = &cke.Electing{} },
	"leads":    func(w *world, a words) { w.member(1).Role, w.member(a.number(0)).Role = "follower", "leader" },
	"byhand":   func(w *world, a words) { w.byHand(a.number(0)) },
	"at":       func(w *world, a words) { w.at(a.number(0), a[1]) },
	"leaves": func(w *world, a words) {
		w.Status.Members = append(w.Status.Members, cke.MemberStatus{Name: "s" + a[0], Address: a[1], Ready: true})
	},
	"clocks": func(w *world, a words) { w.clocks(cke.Truth(a[0]), a[1]) },
	"ahead":  func(w *world, a words) { w.ahead(a.time(0)) },
	// candidates
	"unchecked": func(w *world, a words) {
		for _, i := range a {
			delete(w.Checks, "s"+i)
		}
	},
	"failed":  func(w *world, a words) { w.check(a.number(0), "port 2379 is taken") },
	"checked": func(w *world, a words) { w.check(a.number(0), "") },
	"taken":   func(w *world, a words) { w.Taken = map[string]string{w.host(a.number(0)).Addresses[0]: "other"} },
	"theirs":  func(w *world, a words) { w.Taken = map[string]string{a[0]: "other"} },
	"others":  func(w *world, a words) { w.TakenProblem = strings.Join(a, " ") },
	"repaired": func(w *world, a words) {
		w.Status.Repairs = &cke.QueueStatus{Entries: []cke.EntryStatus{{Entry: cke.Entry{Address: w.host(a.number(0)).Addresses[0]}}}}
	},
	"repairing": func(w *world, a words) {
		w.Status.Repairs = &cke.QueueStatus{Entries: []cke.EntryStatus{{Entry: cke.Entry{Address: a[0]}}}}
	},
	// changes
	"changed": func(w *world, a words) { w.changed(a.number(0), a.time(1)) },
	"rolledback": func(w *world, a words) {
		w.changed(a.number(0), 25*time.Hour)
		w.Past.Changes[len(w.Past.Changes)-1].RolledBackAt = noon.Add(-a.time(1))
	},
	"undid": func(w *world, a words) {
		w.changed(a.number(0), 25*time.Hour)
		c := &w.Past.Changes[len(w.Past.Changes)-1]
		c.Cause, c.Old, c.New, c.RolledBackAt = cke.InventoryCause(a[2]), "", "s"+a[0], noon.Add(-a.time(1))
	},
	"override": func(w *world, _ words) { w.Override = true },
	"blocked": func(w *world, a words) {
		w.ends = &sabakan.Simulated{Blocked: strings.Join(a, " "), Tolerance: w.Status.Tolerance}
	},
	"lower":   func(w *world, _ words) { w.ends = &sabakan.Simulated{Tolerance: w.Status.Tolerance - 1} },
	"gap":     func(w *world, _ words) { w.ends = &sabakan.Simulated{Tolerance: w.Status.Tolerance, Least: -1} },
	"unknown": func(w *world, _ words) { w.err = errSimulation },
}

// flaps lets machine i change its state four times in a day.
func (w *world) flaps(i int) {
	p := w.Past.Hosts[w.host(i).ID]
	for h := range 4 {
		p.Turned = append(p.Turned, noon.Add(-time.Duration(10-h)*time.Hour))
	}
	w.Past.Hosts[w.host(i).ID] = p
}

// byHand declares node i as an operator would who knows no inventory.
func (w *world) byHand(i int) {
	n := &w.Spec.Cluster.Nodes[i-1]
	n.Hostname, n.Zone, n.Labels, n.Annotations = fmt.Sprintf("cp%d", i), "", nil, nil
	w.member(i).Name = n.Hostname
}

// read makes the world of a scene, as "formed 3 8; host 2 unreachable 40m".
func read(t *testing.T, text string) *world {
	t.Helper()
	var w *world
	for _, part := range strings.Split(text, ";") {
		a := words(strings.Fields(part))
		change := verbs[a[0]]
		switch {
		case a[0] == "blank":
			w = blank(a.number(1))
		case a[0] == "formed":
			w = formed(a.number(1), a.number(2))
		case change != nil && w != nil:
			change(w, a[1:])
		default:
			t.Fatalf("%q: %q is not understood", text, part)
		}
	}
	return w
}

// told is a choice in lines.
func told(w *world, c sabakan.Choice) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, "  "+format+"\n", args...) }
	for _, n := range c.Notes {
		until := ""
		if !n.Until.IsZero() {
			until = " (in " + cke.Duration(n.Until.Sub(noon)).Short() + ")"
		}
		line("note %s", strings.Join(strings.Fields(fmt.Sprintf("%s %s: %s%s", n.Code, n.Node, n.Text, until)), " "))
	}
	if c.Ask != nil {
		line("ask for %s", strings.Join(c.Ask, " "))
	}
	if c.Check != nil {
		line("check %s", strings.Join(c.Check, " "))
	}
	if c.Acceptance != sabakan.Accepted {
		line("the read is %s", c.Acceptance)
	}
	switch {
	case c.Change != nil:
		line("=> %s", strings.TrimSpace(fmt.Sprintf("%s: %s %s", c.Change.Cause, c.Reason, c.Code)))
	case c.Stop != "" && c.Overridable:
		line("=> stop %s, which can be overridden: %s", c.Stop, strings.TrimSpace(c.Reason+" "+string(c.Code)))
	case c.Stop != "":
		line("=> stop %s: %s", c.Stop, strings.TrimSpace(c.Reason+" "+string(c.Code)))
	default:
		line("=> nothing: %s", strings.TrimSpace(c.Reason+" "+string(c.Code)))
	}
	if c.Change == nil {
		return b.String()
	}
	for _, l := range nodesChanged(w.Spec.Cluster, c.Change.Cluster) {
		line("   %s", l)
	}
	for _, l := range c.Change.Confirm {
		line("   confirm: %s", l)
	}
	if c.Change.Forget != nil {
		line("   forget the host keys of %s", strings.Join(c.Change.Forget, " "))
	}
	if c.Change.Auto {
		line("   applied by the leader daemon")
	}
	return b.String()
}

// nodesChanged is what differs between the nodes of two cluster files.
func nodesChanged(was, is cke.Cluster) (all []string) {
	text := func(n cke.Node) string {
		s := fmt.Sprintf("%s %s %s", n.Name(), n.Address, n.Zone)
		if n.ControlPlane {
			s += " control_plane"
		}
		for _, m := range []map[string]string{n.Labels, n.Annotations} {
			for _, key := range slices.Sorted(maps.Keys(m)) {
				if key != cke.LabelRole && (key != cke.AnnotationSerial || m[key] != n.Hostname) {
					s += fmt.Sprintf(" %s=%s", key, m[key])
				}
			}
		}
		return strings.Join(strings.Fields(s), " ")
	}
	for _, n := range was.Nodes {
		if !slices.ContainsFunc(is.Nodes, func(o cke.Node) bool { return text(o) == text(n) }) {
			all = append(all, "- "+text(n))
		}
	}
	for _, n := range is.Nodes {
		if !slices.ContainsFunc(was.Nodes, func(o cke.Node) bool { return text(o) == text(n) }) {
			all = append(all, "+ "+text(n))
		}
	}
	return all
}

// Each line of the scenarios that is not indented is a scene; what follows it is written with -update.
func TestChoose_Scenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/choose/*.txt")
	if err != nil || files == nil {
		t.Fatal(err, files)
	}
	used := map[string]bool{}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			var b strings.Builder
			for line := range strings.Lines(golden.Read(t, file)) {
				switch text := strings.TrimSuffix(line, "\n"); {
				case strings.HasPrefix(text, " "):
				case text == "" || strings.HasPrefix(text, "#"):
					fmt.Fprintln(&b, text)
				default:
					w := read(t, text)
					c := sabakan.Choose(w.Input)
					fmt.Fprintf(&b, "%s\n%s", text, told(w, c))
					used[c.Outcome()] = true
				}
			}
			golden.Compare(t, file, b.String())
		})
	}
	for _, name := range outcomes(t) {
		if !used[name] && t.Run(name, func(*testing.T) {}) { // a run of one file alone reaches few of them
			t.Errorf("no scene of testdata/choose ends with %s", name)
		}
	}
}
