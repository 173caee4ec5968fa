package preflight

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/internal/golden"
	"cke/preflight/probe"
)

// world is what a scenario changes.
type world struct {
	c      cke.Cluster
	seen   cke.Observation
	visits map[string]Visit
}

// nodes are the indexes that a word names: a number from 1, or all.
func (w *world) nodes(word string) (all []int) {
	for i := range w.seen.Nodes {
		if word == "all" || word == strconv.Itoa(i+1) {
			all = append(all, i)
		}
	}
	return all
}

// unseen is a node that does not answer.
func (w *world) unseen(i int, code cke.Code, message, remedy string) {
	st := &w.seen.Nodes[i]
	st.Problem = &cke.Problem{Code: code, Message: fmt.Sprintf(message, st.Node.Name()), Remedy: fmt.Sprintf(remedy, st.Node.Name())}
	delete(w.visits, st.Node.Address)
}

// cut lets a node reach a port of another one no more; port 0: none of them.
func (w *world) cut(from, to, port int, why string) {
	o := w.c.Options.Etcd
	for i, address := range portsOf(o, w.c.Nodes[to]) {
		if v := w.visits[w.c.Nodes[from].Address]; v.Dialled != nil && (port == 0 || port == []int{o.ClientPort, o.PeerPort}[i]) {
			v.Dialled[address] = why
		}
	}
}

// verbs are the words that a scenario consists of.
var verbs = map[string]func(w *world, args []string){
	"unreachable": func(w *world, args []string) {
		for _, i := range w.nodes(args[0]) {
			w.unseen(i, cke.CodeUnreachable, "sshd at %s:22 cannot be reached: no answer in 3s", "check power, network and sshd of %s")
			for k := range w.c.Nodes {
				w.cut(k, i, 0, probe.NoAnswer)
			}
		}
	},
	"refused": func(w *world, args []string) {
		for _, i := range w.nodes(args[0]) {
			w.unseen(i, cke.CodeSSHAuth, "%s refuses the login", "put the key on %s: `ckecli node authorize`")
		}
	},
	"engine": func(w *world, args []string) {
		for _, i := range w.nodes(args[0]) {
			w.unseen(i, cke.CodeEngine, "the Docker engine on %s does not answer", "check the engine of %s")
		}
	},
	"clock": func(w *world, args []string) {
		by, _ := time.ParseDuration(args[1])
		for _, i := range w.nodes(args[0]) {
			w.seen.Nodes[i].Clock = w.seen.Nodes[i].Clock.Add(by + time.Duration(i)*300*time.Millisecond)
		}
	},
	"no-image": func(w *world, args []string) {
		for _, i := range w.nodes(args[0]) {
			n := w.c.Nodes[i]
			w.visits[n.Address] = Visit{Err: &cke.Error{Code: cke.CodeImage, What: "image etcd:v3 is not on " + n.Name()}}
			for k := range w.c.Nodes {
				w.cut(k, i, 0, probe.Refused)
			}
		}
	},
	"no-directory": func(w *world, args []string) {
		w.c.Options.Etcd.VolumeRoot = "/srv/etcd"
		for _, i := range w.nodes(args[0]) {
			v := w.visits[w.c.Nodes[i].Address]
			v.NoDir = true
			w.visits[w.c.Nodes[i].Address] = v
		}
	},
	"taken": func(w *world, args []string) {
		for _, i := range w.nodes(args[0]) {
			ports := []int{2379, 2380}
			if len(args) > 1 {
				ports = slices.DeleteFunc(ports, func(p int) bool { return strconv.Itoa(p) != args[1] })
			}
			w.seen.Nodes[i].Neighbors = []cke.Neighbor{{Cluster: "test", Ports: ports}}
		}
	},
	// A member of ours that listens at other ports, and an address that is not the node's.
	"other-ports": func(w *world, args []string) {
		for _, i := range w.nodes(args[0]) {
			w.seen.Nodes[i].Containers = []cke.Container{{Name: "etcd-cke.1", Cluster: "prod", State: cke.ContainerRunning}}
			clear(w.visits[w.c.Nodes[i].Address].Listened)
			for k := range w.c.Nodes {
				w.cut(k, i, 0, probe.Refused)
			}
		}
	},
	"other-address": func(w *world, args []string) {
		for _, i := range w.nodes(args[0]) {
			for _, address := range portsOf(w.c.Options.Etcd, w.c.Nodes[i]) {
				w.visits[w.c.Nodes[i].Address].Listened[address] = "cannot assign requested address"
			}
			for k := range w.c.Nodes {
				w.cut(k, i, 0, probe.Refused)
			}
		}
	},
	"listens": func(w *world, args []string) {
		for _, i := range w.nodes(args[0]) {
			w.seen.Nodes[i].ClientPort, w.seen.Nodes[i].PeerPort = cke.PortOpen, cke.PortOpen
		}
	},
	// from A, or from all others, to B, or to all others.
	"cut": func(w *world, args []string) {
		port := 0
		if len(args) > 2 {
			port, _ = strconv.Atoi(args[2])
		}
		for _, from := range w.nodes(args[0]) {
			for _, to := range w.nodes(args[1]) {
				if from != to {
					w.cut(from, to, port, probe.NoAnswer)
				}
			}
		}
	},
}

// Each line of the scenarios that is not indented says what is wrong; what follows it is written with -update: each cause with
// the nodes that it touches, in braces how many checks follow from it, and what to do.
func TestCauses_Scenarios(t *testing.T) {
	const file = "testdata/causes.txt"
	var b strings.Builder
	for line := range strings.Lines(golden.Read(t, file)) {
		text := strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(text, " ") {
			continue
		}
		fmt.Fprintln(&b, text)
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		w := &world{}
		var keys Keys
		w.c, w.seen, keys, w.visits = lookedAt(t)
		for part := range strings.SplitSeq(text, "; ") {
			words := strings.Fields(part)
			verb := verbs[words[0]]
			if verb == nil {
				t.Fatalf("%s: there is no %q", file, words[0])
			}
			verb(w, words[1:])
		}
		all := Judge(w.c, Members{Cluster: w.c.Name}, w.seen, keys, w.visits)
		wrong, accounted := 0, 0
		for _, c := range all {
			switch {
			case c.ways != nil && c.Because == "":
			case c.Result != OK:
				wrong++
			}
		}
		for _, c := range Causes(all) {
			fmt.Fprintf(&b, "  %s: %s %s: %s", c.Touched(), strings.Join(c.Checks, ", "), c.Result, c.Detail)
			if c.Follow > 0 {
				fmt.Fprintf(&b, " {%d}", c.Follow)
			}
			fmt.Fprintln(&b)
			if c.Remedy != "" {
				fmt.Fprintf(&b, "    → %s\n", c.Remedy)
			}
			if c.Checks[0] != checkReach {
				accounted += len(c.Checks) * len(c.Nodes)
			}
			accounted += c.Follow
		}
		if wrong != accounted {
			t.Errorf("%s: the causes account for %d checks of %d", text, accounted, wrong)
		}
	}
	golden.Compare(t, file, b.String())
}
