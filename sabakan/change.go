package sabakan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cke"
)

// Change is one change of a cluster file. It moves one member at most, except that a bootstrap declares all of them.
type Change struct {
	// Cluster is the new cluster file.
	Cluster cke.Cluster        `json:"cluster"`
	Cause   cke.InventoryCause `json:"cause"`
	// Old is the serial of the machine that has to go, New that of the one in its place; empty: there is none.
	Old string `json:"old,omitempty"`
	New string `json:"new,omitempty"`
	// Hash is the same as long as the change, its cause, the revision that it starts from and what has to be confirmed are.
	Hash string `json:"hash"`
	// Confirm are the reasons for which the operator has to confirm it in every mode; Auto: it may be applied without.
	Confirm []string `json:"confirm,omitempty"`
	Auto    bool     `json:"auto,omitempty"`
	// Forget are addresses whose pinned host keys belong to other machines: they have to go before the change is stored.
	Forget []string `json:"forget,omitempty"`
	// Simulated is how it would end; nil: it moves no member and restarts none.
	Simulated *Simulated `json:"simulated,omitempty"`
}

// draft is a change before it passed the outcome gate.
type draft struct {
	Change
	reason string
	// needs are the kinds of what has to be confirmed, which stay the same while the texts, which may have ages, do not.
	needs []string
	// ungated: neither members nor their options change, or there are none yet.
	ungated bool
	// fewer: there are fewer members afterward, so the tolerance may fall.
	fewer bool
}

// confirm notes what the operator has to confirm in every mode, and its kind.
func (d *draft) confirm(kind, format string, args ...any) {
	d.needs, d.Confirm = append(d.needs, kind), append(d.Confirm, fmt.Sprintf(format, args...))
}

// override notes a stop that the operator has to override.
func (d *draft) override(s Stop, why string) { d.confirm(string(s), "it overrides: %s", why) }

// finish passes a draft through the outcome gate, and finds who has to confirm it.
func (c *chooser) finish(d draft) verdict {
	if why := c.perDay(); d.Cause.Moves() && why != "" {
		if !c.Override {
			return verdict{reason: d.reason + ", and waits: " + why, stop: StopPerDay, overridable: true}
		}
		d.override(StopPerDay, why)
	}
	if why := c.undone(d); why != "" {
		if !c.Override {
			return verdict{reason: d.reason + ", and waits: " + why, stop: StopNode, overridable: true}
		}
		d.override(StopNode, why)
	}
	c.overridden(&d)
	for _, s := range c.dues {
		if s.serial == d.Old && s.held != "" {
			d.override(StopNode, s.held)
		}
	}
	if !d.ungated {
		if v := c.gate(&d); v.decided() {
			return v
		}
	}
	was, is := c.fatalOf(c.Spec.Cluster), c.fatalOf(d.Cluster)
	if c.formed() && is > was {
		d.confirm("zones", "%s could not be lost afterward, %d now", cke.Count(is, "zone"), was)
	}
	for _, address := range d.Forget {
		d.confirm("forget "+address, "%s belonged to machine %s before: the host key that is pinned for it is forgotten", address, c.Past.Serials[address])
	}
	slices.Sort(d.needs)
	d.Hash = hashOf(struct {
		Generation int64
		Cause      cke.InventoryCause
		Cluster    cke.Cluster
		Needs      []string
	}{c.Spec.Generation, d.Cause, d.Cluster, d.needs})
	d.Auto = c.o.Mode == cke.InventoryAuto && len(d.Confirm) == 0
	return verdict{change: &d.Change, reason: d.reason}
}

// gate simulates a draft: the tolerance afterward must not be lower than now, and work must not wait without end for something that
// the change does not cure.
func (c *chooser) gate(d *draft) verdict {
	no := func(format string, args ...any) verdict {
		return verdict{reason: d.reason + ", and is not done: " + fmt.Sprintf(format, args...), stop: StopSimulated}
	}
	s, err := c.Simulate(d.Cluster)
	now := c.Status.Tolerance
	switch {
	case err != nil:
		return no("its outcome cannot be simulated: %v", err)
	case s.Blocked != "" && s.Tolerance <= now:
		return no("it would not complete: %s", s.Blocked)
	case s.Tolerance < now && !d.fewer:
		return no("%s could be lost afterward, %d now", cke.Count(max(s.Tolerance, 0), "member"), now)
	case s.Least < 0:
		d.confirm("gap", "the cluster would not serve for a moment")
	}
	d.Simulated = &s
	return verdict{}
}

// fatalOf counts the zones whose loss would end the quorum. While the cluster grows, of as many members as it grows to.
func (c *chooser) fatalOf(cluster cke.Cluster) int {
	return spreadOf(cluster).fatal(max(len(cluster.ControlPlane()), c.o.ControlPlane))
}

// edited returns the cluster file, with nodes that may be changed.
func (c *chooser) edited() cke.Cluster {
	cluster := c.Spec.Cluster
	cluster.Nodes = slices.Clone(cluster.Nodes)
	for i := range cluster.Nodes {
		n := &cluster.Nodes[i]
		n.Labels, n.Annotations = maps.Clone(n.Labels), maps.Clone(n.Annotations)
	}
	return cluster
}

// place declares a candidate as the template's pattern says, in the place of node i, or behind all others if i is negative.
func (c *chooser) place(d *draft, i int, k candidate, controlPlane bool) {
	pattern, nodes := c.Template.Pattern(controlPlane), d.Cluster.Nodes
	d.New = k.host.ID
	if k.spare >= 0 {
		followPattern(&nodes[k.spare], pattern)
		if i >= 0 {
			d.Cluster.Nodes = slices.Delete(nodes, i, i+1)
		}
		return
	}
	n := nodeOf(*k.host, pattern)
	n.Zone = k.zone
	followHost(&n, k.host, pattern)
	if before := c.Past.Serials[n.Address]; before != "" && before != k.host.ID {
		d.Forget = append(d.Forget, n.Address)
	}
	if i < 0 {
		d.Cluster.Nodes = append(nodes, n)
	} else {
		nodes[i] = n
	}
}

// NodeOf returns the control-plane node that a machine would be, as it is reached.
func NodeOf(t cke.Template, h cke.Host) cke.Node { return nodeOf(h, t.Pattern(true)) }

func nodeOf(h cke.Host, pattern cke.Node) cke.Node {
	n := cke.Node{Address: addressOf(h), Hostname: h.ID}
	followPattern(&n, pattern)
	return n
}

// followPattern gives a node what the template says of it.
func followPattern(n *cke.Node, pattern cke.Node) {
	n.User, n.SSH.Port, n.ControlPlane = pattern.User, pattern.SSH.Port, pattern.ControlPlane
	n.Labels, n.Annotations = merged(n.Labels, pattern.Labels), merged(n.Annotations, pattern.Annotations)
}

// followHost gives a node what the inventory says of its machine. What the template says is stronger, and what the operator says
// besides stays.
func followHost(n *cke.Node, h *cke.Host, pattern cke.Node) {
	labels := map[string]string{}
	for key, value := range h.Labels {
		if cke.ValidLabelKey(key) {
			labels[key] = value
		}
	}
	if h.Role != "" {
		labels[cke.LabelRole] = h.Role
	}
	maps.DeleteFunc(labels, func(key, _ string) bool { _, says := pattern.Labels[key]; return says })
	n.Labels = merged(n.Labels, labels)
	n.Annotations = merged(n.Annotations, map[string]string{cke.AnnotationSerial: h.ID})
}

// merged adds entries to a map that may be nil, and keeps nil if there are none.
func merged(to, from map[string]string) map[string]string {
	if len(from) == 0 {
		return to
	}
	all := maps.Clone(to)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, from)
	return all
}

// indexOf returns where the node of a machine is in the cluster file.
func (c *chooser) indexOf(s *standing) int {
	return slices.IndexFunc(c.Spec.Cluster.Nodes, func(n cke.Node) bool { return n.Address == s.Address })
}

// same reports whether two cluster files are written alike.
func same(a, b cke.Cluster) bool { return hashOf(a) == hashOf(b) }

// hashOf distinguishes values by how they are written: 16 hexadecimal digits.
func hashOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("plain data cannot be written: %v", err))
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// inZone names the zone of a machine in a reason.
func inZone(zone string) string {
	if zone == "" {
		return ""
	}
	return " in " + zone
}

// String names the candidate in a reason.
func (k candidate) String() string { return strings.TrimSpace(k.host.ID + inZone(k.zone)) }
