package preflight

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cke"
)

// Cause is one thing that is wrong, with all nodes that it touches. Each check that is not ok is of one, or follows from one.
type Cause struct {
	Nodes  []string `json:"nodes"`
	Checks []string `json:"checks"`
	Result Verdict  `json:"result"`
	Detail string   `json:"detail"`
	// Code and Remedy are those of the problem, where it has one.
	Code   cke.Code `json:"code,omitempty"`
	Remedy string   `json:"remedy,omitempty"`
	// Follow is how many other checks were not made, or failed, because of it.
	Follow int `json:"follow"`
	// At is the index of its first check.
	At int `json:"-"`

	first Check
	ports []int
}

// Causes finds which checks that are not ok have one cause: the same on several nodes, at both ports of a node, or on the way
// between nodes. What has nothing in common with others is a cause of its own.
func Causes(all []Check) []Cause {
	causes := []Cause{}
	of := map[string]int{} // by check, as NODE/CHECK
	for _, c := range onNodes(all) {
		i := slices.IndexFunc(causes, c.same)
		if i < 0 {
			i, causes = len(causes), append(causes, c)
		} else {
			causes[i].Nodes = append(causes[i].Nodes, c.Nodes...)
			causes[i].remedy(c.Remedy)
		}
		for _, check := range c.Checks {
			of[c.first.Node+"/"+check] = i
		}
	}
	for _, c := range all {
		if i, known := of[c.Because]; known {
			causes[i].Follow++
		}
	}
	for i := range causes {
		causes[i].describe(all)
	}
	causes = append(causes, betweenNodes(all)...)
	slices.SortStableFunc(causes, func(a, b Cause) int { return cmp.Compare(a.At, b.At) })
	return causes
}

// onNodes returns what is wrong on each node, once for both ports.
func onNodes(all []Check) (causes []Cause) {
	for at, c := range all {
		if c.Result == OK || c.Because != "" || c.ways != nil {
			continue
		}
		i := slices.IndexFunc(causes, func(o Cause) bool { return o.first.Node == c.Node && c.port != 0 && o.first.key() == c.key() })
		if i < 0 {
			i, causes = len(causes), append(causes, Cause{Nodes: []string{c.Node}, Result: c.Result, Detail: c.Detail, Code: c.Code, Remedy: c.Remedy, At: at, first: c})
		}
		causes[i].Checks, causes[i].ports = append(causes[i].Checks, c.Check), append(causes[i].ports, c.port)
		causes[i].remedy(c.Remedy)
	}
	return causes
}

// remedy adds a remedy that is a command of its own.
func (c *Cause) remedy(also string) {
	if strings.Contains(also, "`") && !strings.Contains(c.Remedy, also) {
		c.Remedy += "; " + also
	}
}

// same reports whether two nodes have one cause.
func (c Cause) same(o Cause) bool {
	return c.first.key() == o.first.key() && slices.Equal(c.ports, o.ports) && (c.first.off-o.first.off).Abs() <= clockWarn
}

// Touched names the nodes, in a text.
func (c Cause) Touched() string { return named(c.Nodes) }

// named names nodes; of many it counts the last ones.
func named(nodes []string) string {
	const most = 6
	if more := len(nodes) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(nodes[:most], ", "), more)
	}
	return strings.Join(nodes, ", ")
}

func (c Check) name() string { return c.Node + "/" + c.Check }

// key is equal where only the node differs, or only its port.
func (c Check) key() string {
	check, text := c.Check, c.Detail+"\n"+c.Remedy
	switch {
	case check == checkClock && c.off != 0:
		text = "" // the difference itself is compared
	case c.port != 0:
		check, text = "port", strings.ReplaceAll(text, strconv.Itoa(c.port), "PORT")
	}
	text = strings.NewReplacer(cmp.Or(c.address, c.Node), "NODE", c.Node, "NODE").Replace(text)
	return strings.Join([]string{check, string(c.Result), string(c.Code), text}, "\n")
}

// describe completes the texts of a cause that was found more than once.
func (c *Cause) describe(all []Check) {
	also := []string{}
	if len(c.ports) > 1 {
		also = append(also, fmt.Sprintf("at %d", c.ports[1]))
	}
	if len(c.Nodes) > 1 {
		also = append(also, "on "+named(c.Nodes[1:]))
		if !strings.Contains(c.Remedy, "`") {
			c.Remedy = strings.ReplaceAll(c.Remedy, c.first.Node, named(c.Nodes))
		}
	}
	if len(also) == 0 {
		return
	}
	c.Detail += "; the same " + strings.Join(also, " and ")
	asked := func(o Check) bool {
		return o.Check == checkClock && o.Because == "" && !slices.Contains(c.Nodes, o.Node)
	}
	if c.Checks[0] == checkClock && !slices.ContainsFunc(all, asked) {
		c.Detail = c.first.Detail + ", as on every node that answered: the clock of this host is probably wrong"
	}
}

// way is from one node to a port of another one that it does not reach.
type way struct {
	from, to string
	port     int
	why      string
}

// pair is two nodes of which the first does not reach the second.
type pair struct{ from, to string }

// betweenNodes finds what is wrong on the ways between nodes: those on which the same ports are not reached, and which have
// nodes in common, are one cause if that can be said of them all.
func betweenNodes(all []Check) (causes []Cause) {
	ports, whys, order := map[pair]string{}, map[pair][]string{}, []pair{}
	at := map[string]int{} // the first such check of a node
	for i, c := range all {
		for _, w := range c.ways {
			p := pair{w.from, w.to}
			if ports[p] == "" {
				order = append(order, p)
			} else {
				ports[p] += ", "
			}
			ports[p] += strconv.Itoa(w.port)
			whys[p] = append(whys[p], w.why)
			if _, known := at[c.Node]; !known {
				at[c.Node] = i
			}
		}
	}
	for len(order) > 0 {
		together := order[:1:1]
		touches := func(p pair) bool {
			return ports[p] == ports[order[0]] && !slices.Contains(together, p) && slices.ContainsFunc(together, p.touches)
		}
		for i := slices.IndexFunc(order, touches); i >= 0; i = slices.IndexFunc(order, touches) {
			together = append(together, order[i])
		}
		for _, s := range sentences(together) {
			c := Cause{Nodes: s.nodes, Checks: []string{checkReach}, Result: Fail, Detail: s.text + " at " + ports[order[0]], At: len(all)}
			var why []string
			for _, p := range s.pairs {
				why, c.At = append(why, whys[p]...), min(c.At, at[p.to])
			}
			slices.Sort(why)
			c.Detail += ": " + strings.Join(slices.Compact(why), ", ")
			causes = append(causes, c)
		}
		order = slices.DeleteFunc(order, func(p pair) bool { return slices.Contains(together, p) })
	}
	return causes
}

func (p pair) touches(o pair) bool {
	return p.from == o.from || p.from == o.to || p.to == o.from || p.to == o.to
}

// sentence is what can be said of some pairs.
type sentence struct {
	nodes []string
	text  string
	pairs []pair
}

// sentences describes pairs that have nodes in common: in one sentence if there is one, or else in one for each node that is
// not reached.
func sentences(pairs []pair) []sentence {
	var from, to, both []string
	for _, p := range pairs {
		from, to = add(from, p.from), add(to, p.to)
		both = add(add(both, p.to), p.from)
	}
	mutual := !slices.ContainsFunc(pairs, func(p pair) bool { return !slices.Contains(pairs, pair{p.to, p.from}) })
	hub := slices.IndexFunc(both, func(n string) bool {
		return !slices.ContainsFunc(pairs, func(p pair) bool { return p.from != n && p.to != n })
	})
	switch {
	case len(to) == 1:
		return []sentence{{to, to[0] + " is not reached from " + named(from), pairs}}
	case len(from) == 1:
		return []sentence{{from, from[0] + " does not reach " + named(to), pairs}}
	case mutual && hub >= 0:
		others := slices.Delete(slices.Clone(both), hub, hub+1)
		return []sentence{{append([]string{both[hub]}, others...), both[hub] + " and " + named(others) + " do not reach each other", pairs}}
	case len(pairs) == len(both)*(len(both)-1):
		return []sentence{{both, named(both) + " do not reach each other", pairs}}
	}
	var all []sentence
	for _, n := range to {
		all = append(all, sentences(slices.DeleteFunc(slices.Clone(pairs), func(p pair) bool { return p.to != n }))...)
	}
	return all
}

func add(names []string, n string) []string {
	if slices.Contains(names, n) {
		return names
	}
	return append(names, n)
}
