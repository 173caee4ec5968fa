package sabakan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cke"
)

// rules are asked in this order, once there is a cluster.
var rules = []func(*chooser) verdict{
	(*chooser).template, (*chooser).exchange, (*chooser).more, (*chooser).fewer, (*chooser).moved, (*chooser).described, (*chooser).spare, (*chooser).advise,
}

// bootstrap: there is no cluster yet. Its members are spread over the zones; spares follow once it serves.
func (c *chooser) bootstrap() verdict {
	d := draft{Change: Change{Cause: cke.CauseBootstrap, Cluster: c.Template.Cluster(nil)}, ungated: true}
	want, chosen, all := c.o.ControlPlane, spread{}, []candidate(nil)
	for range want {
		left := slices.DeleteFunc(c.candidates(chosen, want, false), func(k candidate) bool {
			return slices.ContainsFunc(all, func(o candidate) bool { return o.host.ID == k.host.ID })
		})
		if len(left) == 0 {
			return unfit("the cluster needs %s, and %d fit: %s", cke.Count(want, "machine"), len(all), c.unfitText(false))
		}
		all = append(all, left[0])
		chosen = chosen.with(left[0].zone)
	}
	if c.check(all); len(c.out.Check) > 0 {
		return wait(WaitCheck, "the bootstrap on %s waits: %s to be checked first", names(all), cke.Plural(len(c.out.Check), "machine is", "machines are"))
	}
	for _, k := range all {
		c.place(&d, -1, k, true)
	}
	d.New, d.reason = "", "there is no cluster yet: it would be bootstrapped on "+names(all)
	d.confirm("bootstrap", "a bootstrap is always confirmed")
	return c.finish(d)
}

func names(all []candidate) string {
	var texts []string
	for _, k := range all {
		texts = append(texts, k.String())
	}
	return strings.Join(texts, ", ")
}

// TemplateHash distinguishes templates by what they declare besides machines: see Past.Template.
func TemplateHash(t cke.Template) string { return hashOf(t.Cluster(t.Nodes)) }

// template: the operator set a template that the cluster file did not follow before. What the operator edits in the cluster file
// afterward stays.
func (c *chooser) template() verdict {
	hash := TemplateHash(c.Template)
	if c.Past.Template == hash {
		return verdict{}
	}
	d := draft{Change: Change{Cause: cke.CauseTemplate, Cluster: c.Template.Cluster(c.edited().Nodes)}, reason: "the template was changed"}
	for i := range c.nodes {
		n := &d.Cluster.Nodes[c.indexOf(&c.nodes[i])]
		followPattern(n, c.Template.Pattern(n.ControlPlane))
	}
	if same(d.Cluster, c.Spec.Cluster) {
		c.out.Template = hash
		return verdict{}
	}
	return c.finish(d)
}

// exchange: a machine with a member has to go. Another one takes its place. Of several, the first whose exchange does good: that of
// a machine that is retired does none while another member is down that has to go, too.
func (c *chooser) exchange() verdict {
	var first verdict
	for _, s := range c.dues {
		v := c.exchangeOf(s)
		if v.stop != StopSimulated {
			return v
		}
		if !first.decided() {
			first = v
		}
	}
	return first
}

func (c *chooser) exchangeOf(s *standing) verdict {
	d := draft{Change: Change{Cause: s.cause, Old: s.serial, Cluster: c.edited()}}
	i := c.indexOf(s)
	others := c.edited()
	others.Nodes = slices.Delete(others.Nodes, i, i+1)
	all := c.candidates(spreadOf(others), max(len(c.Spec.Cluster.ControlPlane()), c.o.ControlPlane), true)
	if len(all) == 0 && s.cause == cke.CauseSuccessor && len(others.ControlPlane()) > 0 {
		d.Cluster, d.fewer, d.reason = others, true, s.words()+", and only that one is left: the member of "+s.Name()+" ends first"
		d.confirm("fewer", "there is one member fewer until the machine at %s is declared", s.Address)
		return c.finish(d)
	}
	k, v := c.pick(all, s.words())
	if v.decided() {
		return v
	}
	c.place(&d, i, k, true)
	d.reason = fmt.Sprintf("%s: %s takes the place of %s", s.words(), k, s.Name())
	return c.finish(d)
}

// more: more members are wanted. They come one by one.
func (c *chooser) more() verdict {
	has, want := len(c.Spec.Cluster.ControlPlane()), c.o.ControlPlane
	if has >= want {
		return verdict{}
	}
	what := wanted(want, has)
	k, v := c.pick(c.candidates(spreadOf(c.Spec.Cluster), want, true), what)
	if v.decided() {
		return v
	}
	d := draft{Change: Change{Cause: cke.CauseMore, Cluster: c.edited()}, reason: fmt.Sprintf("%s: %s becomes one", what, k)}
	c.place(&d, -1, k, true)
	return c.finish(d)
}

// wanted says how many control-plane nodes there should be, and are.
func wanted(want, has int) string {
	return fmt.Sprintf("%s wanted, and there are %d", cke.Plural(want, "control-plane node is", "control-plane nodes are"), has)
}

// urgency is how urgent it is to leave a machine in a state.
var urgency = map[cke.HostState]int{cke.HostRetired: 6, missing: 5, cke.HostUnreachable: 4, cke.HostRetiring: 3, cke.HostUnhealthy: 2, cke.HostMaintenance: 1}

// fewer: fewer members are wanted. The one that does least good goes first.
func (c *chooser) fewer() verdict {
	has, want := len(c.Spec.Cluster.ControlPlane()), c.o.ControlPlane
	if has <= want {
		return verdict{}
	}
	what := wanted(want, has)
	zones := spreadOf(c.Spec.Cluster)
	var last *standing
	for i := range c.nodes {
		if s := &c.nodes[i]; s.ControlPlane && (last == nil || s.before(last, zones) < 0) {
			last = s
		}
	}
	if last == nil {
		return wait(WaitUndeclared, "%s, but none of them comes from the inventory", what)
	}
	d := draft{Change: Change{Cause: cke.CauseFewer, Old: last.serial, Cluster: c.edited()}, fewer: true,
		reason: fmt.Sprintf("%s: %s is one no longer", what, last.Name())}
	d.confirm("fewer", "there is one member fewer")
	if i := c.indexOf(last); last.state == cke.HostHealthy && last.serves && c.goodSpares() < c.o.Spares {
		followPattern(&d.Cluster.Nodes[i], c.Template.Pattern(false))
	} else {
		d.Cluster.Nodes = slices.Delete(d.Cluster.Nodes, i, i+1)
	}
	return c.finish(d)
}

// before orders nodes by which member goes first.
func (s *standing) before(o *standing, zones spread) int {
	leads := func(s *standing) bool { return s.member != nil && s.member.Role == "leader" }
	return cmp.Or(cke.CompareBools(s.serves, o.serves), cmp.Compare(urgency[o.state], urgency[s.state]), cmp.Compare(zones[o.Zone], zones[s.Zone]),
		cke.CompareBools(leads(s), leads(o)), strings.Compare(o.serial, s.serial))
}

// moved: a machine has another address. It is believed if two reads say so, the node does not answer at the old one, and the
// machine passes its check at the new one.
func (c *chooser) moved() verdict {
	for i := range c.nodes {
		s := &c.nodes[i]
		if s.host == nil || slices.Contains(s.host.Addresses, s.Address) || s.state != cke.HostHealthy || !c.lasting(s) {
			continue
		}
		to := addressOf(*s.host)
		if to == "" || s.past.Address != to {
			continue
		}
		says := fmt.Sprintf("machine %s moved from %s to %s", s.serial, s.Address, to)
		check, checked := c.checkOf(s.host, to)
		answers, silent := c.answers(s.Address, s.past)
		other, at := c.usedBy(s.host)
		switch taken := c.takenBy(s.host); {
		case other != "":
			c.note(Note{Node: s.Name(), Code: cke.CodeHostDisagrees, Text: fmt.Sprintf("%s, and %s is the address of %s", says, at, other)})
			continue
		case taken != "":
			c.note(Note{Node: s.Name(), Code: cke.CodeHostDisagrees, Text: fmt.Sprintf("%s, and is a node of cluster %s", says, taken)})
			continue
		case s.serves || answers:
			c.note(Note{Node: s.Name(), Code: cke.CodeHostDisagrees, Text: fmt.Sprintf("%s, by the inventory, and it answers at the old address", says)})
			continue
		case silent < healthyFor:
			c.note(Note{Node: s.Name(), Text: says, Until: c.Now.Add(healthyFor - silent)})
			continue
		case !checked:
			c.out.Check = append(c.out.Check, s.serial)
			c.note(Note{Node: s.Name(), Text: says + "; it is to be checked there first"})
			continue
		case check.Problem != "":
			c.note(Note{Node: s.Name(), Text: says + ", and no member can be there: " + check.Problem})
			continue
		}
		d := draft{Change: Change{Cause: cke.CauseMoved, Old: s.serial, New: s.serial, Cluster: c.edited()}, reason: says, ungated: !s.ControlPlane}
		d.Cluster.Nodes[c.indexOf(s)].Address = to
		if before := c.Past.Serials[to]; before != "" && before != s.serial {
			d.Forget = []string{to}
		}
		return c.finish(d)
	}
	return verdict{}
}

// usedBy names a node or member that has an address of a machine, with that address; empty: none has.
func (c *chooser) usedBy(h *cke.Host) (name, address string) {
	for _, address := range h.Addresses {
		if n, declared := c.Spec.Cluster.Node(address); declared {
			return n.Name(), address
		}
		for _, m := range c.Status.Members {
			if m.Address == address {
				return m.Name, address
			}
		}
	}
	return "", ""
}

// described: the inventory says something else about the zone, the labels or the serial of nodes than the cluster file.
func (c *chooser) described() verdict {
	d := draft{Change: Change{Cause: cke.CauseDescribed, Cluster: c.edited()}, ungated: true}
	var changed []string
	for i := range d.Cluster.Nodes {
		n := &d.Cluster.Nodes[i]
		was := *n
		h := c.hosts[serialOf(*n, func(serial string) bool { return c.hosts[serial] != nil })]
		if h == nil && n.Annotations[cke.AnnotationSerial] == "" {
			if h = c.at[n.Address]; h != nil {
				d.confirm("undeclared", "%s was not declared from the inventory, which has machine %s at its address", n.Name(), h.ID)
			}
		}
		if h == nil {
			continue
		}
		followHost(n, h, c.Template.Pattern(n.ControlPlane))
		n.Zone = cmp.Or(c.zoneOf(h), n.Zone)
		if n.Zone != was.Zone || !maps.Equal(n.Labels, was.Labels) || !maps.Equal(n.Annotations, was.Annotations) {
			changed = append(changed, n.Name())
		}
	}
	if changed == nil {
		return verdict{}
	}
	d.reason = "the inventory describes otherwise than the cluster file: " + strings.Join(changed, ", ")
	return c.finish(d)
}

// goodSpares counts the declared nodes without member whose machines do not have to go.
func (c *chooser) goodSpares() int {
	n := 0
	for _, s := range c.nodes {
		if !s.ControlPlane && s.cause == "" {
			n++
		}
	}
	return n
}

// spare: there are fewer spares than wanted, or one has to go. A declared spare proves that its machine can be reached before it is
// needed.
func (c *chooser) spare() verdict {
	d := draft{Change: Change{Cause: cke.CauseSpare, Cluster: c.edited()}, ungated: true}
	old := -1
	for i := range c.nodes {
		if s := &c.nodes[i]; !s.ControlPlane && s.cause != "" && s.held == "" && old < 0 {
			old, d.Old, d.reason = c.indexOf(s), s.serial, fmt.Sprintf("%s: %s is a spare no longer", s.words(), s.Name())
		}
	}
	lacks := c.goodSpares() < c.o.Spares
	if !lacks && old < 0 {
		return verdict{}
	}
	all := c.candidates(spreadOf(c.Spec.Cluster), max(len(c.Spec.Cluster.ControlPlane()), c.o.ControlPlane), false)
	switch {
	case lacks && len(all) > 0:
		d.reason = strings.TrimPrefix(d.reason+"; ", "; ") + fmt.Sprintf("%s wanted: %s becomes one", cke.Plural(c.o.Spares, "spare is", "spares are"), all[0])
		c.place(&d, old, all[0], false)
	case old >= 0:
		d.Cluster.Nodes = slices.Delete(d.Cluster.Nodes, old, old+1)
	default:
		return unfit("%s wanted, and no machine fits: %s", cke.Plural(c.o.Spares, "spare is", "spares are"), c.unfitText(false))
	}
	return c.finish(d)
}

// advise: the members could be spread better. Nothing is changed for that.
func (c *chooser) advise() verdict {
	now, voters := spreadOf(c.Spec.Cluster), max(len(c.Spec.Cluster.ControlPlane()), c.o.ControlPlane)
	together := len(now) == 1 && len(c.Spec.Cluster.ControlPlane()) > 1
	least, from, to, gain := now.fatal(voters), "", candidate{}, ""
	if least == 0 && !together {
		return verdict{}
	}
	for i := range c.nodes {
		s := &c.nodes[i]
		if !s.ControlPlane || !s.serves {
			continue
		}
		all := c.candidates(now.without(s.Zone), voters, true)
		switch {
		case len(all) == 0:
		case all[0].fatal < least:
			gain = fmt.Sprintf("%s could not be lost, %d now", cke.Count(all[0].fatal, "zone"), now.fatal(voters))
			least, from, to = all[0].fatal, s.Name(), all[0]
		case from == "" && together && !all[0].together:
			from, to, gain = s.Name(), all[0], "not all members would be in one zone"
		}
	}
	if from != "" {
		c.note(Note{Node: from, Text: fmt.Sprintf("with its member on %s, %s: %s", to, gain, advice(from, to))})
	}
	return verdict{}
}

// advice is the command that follows an advice.
func advice(from string, to candidate) string {
	if to.spare >= 0 {
		return fmt.Sprintf("`ckecli replace %s %s`", from, to.host.ID)
	}
	return fmt.Sprintf("declare it, then `ckecli replace %s %s`", from, to.host.ID)
}
