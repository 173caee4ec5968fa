package cke

import (
	"cmp"
	"strings"
	"time"
	"unicode"
)

// AnnotationSerial is the annotation of a node with the serial of its machine, as the inventory has it.
const AnnotationSerial = "cke/serial"

// AnnotationAgent is the annotation of a node with the id that its agent gives when it asks for a reboot; default: the node's name.
const AnnotationAgent = "cke/fleet-lock-id"

// AgentID is the id with which the agent of the node asks for reboots.
func (n Node) AgentID() string { return cmp.Or(n.Annotations[AnnotationAgent], n.Name()) }

// SameSerial reports whether both nodes are known to be one machine.
func (n Node) SameSerial(other Node) bool {
	serial := n.Annotations[AnnotationSerial]
	return serial != "" && serial == other.Annotations[AnnotationSerial]
}

// LabelRole is CKE's label of a node with the role that its machine has in the inventory.
const LabelRole = "cke.cybozu.com/role"

// Template is a cluster file whose nodes have no addresses: an inventory gives the machines. ParseTemplate leaves out what the
// file leaves out; Filled fills it in.
type Template struct {
	Name string `yaml:"name" json:"name"`
	// Nodes are patterns: exactly one of a control-plane node, and at most one of a spare.
	Nodes     []Node           `yaml:"nodes" json:"nodes"`
	Options   Options          `yaml:"options,omitempty" json:"options,omitzero"`
	Policies  Policies         `yaml:"policies,omitempty" json:"policies,omitzero"`
	Backup    Backup           `yaml:"backup,omitempty" json:"backup,omitzero"`
	Reboot    RebootOptions    `yaml:"reboot,omitempty" json:"reboot,omitzero"`
	Repair    RepairOptions    `yaml:"repair,omitempty" json:"repair,omitzero"`
	Prefer    []string         `yaml:"prefer,omitempty" json:"prefer,omitempty"`
	Inventory InventoryOptions `yaml:"inventory" json:"inventory"`
}

// InventorySource is the kind of an inventory.
type InventorySource string

// Sources of inventories.
const (
	SourceSabakan InventorySource = "sabakan"
	SourceFile    InventorySource = "file"
)

// InventoryMode is what follows from a change that an inventory suggests.
type InventoryMode string

// Inventory modes. In auto the leader daemon applies a change that needs no confirmation.
const (
	InventoryOff     InventoryMode = "off"
	InventoryPropose InventoryMode = "propose"
	InventoryAuto    InventoryMode = "auto"
)

// ZoneRack makes the number of a rack the zone of its machines; ZoneLabel, before the name of a label, the label's value.
const (
	ZoneRack  = "rack"
	ZoneLabel = "label:"
)

// InventoryOptions say which machines of an inventory may carry members, and when one is exchanged.
type InventoryOptions struct {
	Source InventorySource `yaml:"source,omitempty" json:"source,omitempty"`
	Mode   InventoryMode   `yaml:"mode,omitempty" json:"mode,omitempty"`
	// ControlPlane is how many control-plane nodes there should be, Spares how many declared nodes besides.
	ControlPlane int `yaml:"control_plane,omitempty" json:"controlPlane,omitempty"`
	Spares       int `yaml:"spares,omitempty" json:"spares,omitempty"`
	// Roles are those of the machines; empty: any.
	Roles     []string   `yaml:"roles,omitempty" json:"roles,omitempty"`
	Having    HostFilter `yaml:"having,omitempty" json:"having,omitzero"`
	NotHaving HostFilter `yaml:"not_having,omitempty" json:"notHaving,omitzero"`
	// Zone is ZoneRack, or ZoneLabel and a name; empty: the zone that the inventory names.
	Zone string `yaml:"zone,omitempty" json:"zone,omitempty"`
	// Interval is how often the inventory is read.
	Interval Duration `yaml:"interval,omitempty" json:"interval,omitempty"`
	Grace    Grace    `yaml:"grace,omitempty" json:"grace,omitzero"`
	Limits   Limits   `yaml:"limits,omitempty" json:"limits,omitzero"`
}

// Grace is how long a machine has to be in a state before its member goes elsewhere.
type Grace struct {
	Retiring    Duration `yaml:"retiring,omitempty" json:"retiring,omitempty"`
	Unreachable Duration `yaml:"unreachable,omitempty" json:"unreachable,omitempty"`
	Unhealthy   Duration `yaml:"unhealthy,omitempty" json:"unhealthy,omitempty"`
	Missing     Duration `yaml:"missing,omitempty" json:"missing,omitempty"`
	Maintenance Duration `yaml:"maintenance,omitempty" json:"maintenance,omitempty"`
}

// Limits bound how often an inventory changes a cluster.
type Limits struct {
	// ChangesPerDay is how many changes may move members in 24 hours.
	ChangesPerDay int `yaml:"changes_per_day,omitempty" json:"changesPerDay,omitempty"`
	// Settle is the time from the end of one change to the next.
	Settle Duration `yaml:"settle,omitempty" json:"settle,omitempty"`
}

// Filled returns a copy of t with the defaults of its inventory section filled in. It is idempotent.
func (t Template) Filled() Template {
	o := &t.Inventory
	o.Source = cmp.Or(o.Source, SourceSabakan)
	o.Mode = cmp.Or(o.Mode, InventoryPropose)
	o.ControlPlane = cmp.Or(o.ControlPlane, 3)
	if role := t.Pattern(true).Labels[LabelRole]; len(o.Roles) == 0 && role != "" {
		o.Roles = []string{role}
	}
	if o.Source == SourceSabakan {
		o.Zone = cmp.Or(o.Zone, ZoneRack)
	}
	o.Interval = cmp.Or(o.Interval, Duration(30*time.Second))
	o.Grace = Grace{
		Retiring:    cmp.Or(o.Grace.Retiring, Duration(5*time.Minute)),
		Unreachable: cmp.Or(o.Grace.Unreachable, Duration(30*time.Minute)),
		Unhealthy:   cmp.Or(o.Grace.Unhealthy, Duration(time.Hour)),
		Missing:     cmp.Or(o.Grace.Missing, Duration(time.Hour)),
		Maintenance: cmp.Or(o.Grace.Maintenance, Duration(2*time.Hour)),
	}
	o.Limits.ChangesPerDay = cmp.Or(o.Limits.ChangesPerDay, 2)
	o.Limits.Settle = cmp.Or(o.Limits.Settle, Duration(30*time.Minute))
	return t
}

// Pattern returns the pattern of control-plane nodes or of spares. Without one of its own, a spare is reached as a control-plane
// node is.
func (t Template) Pattern(controlPlane bool) Node {
	var pattern Node
	for _, n := range t.Nodes {
		if n.ControlPlane == controlPlane {
			return n
		}
		pattern = n
	}
	pattern.ControlPlane = controlPlane
	return pattern
}

// Cluster returns what the template declares, with these nodes.
func (t Template) Cluster(nodes []Node) Cluster {
	return Cluster{Name: t.Name, Nodes: nodes, Options: t.Options, Policies: t.Policies, Backup: t.Backup, Reboot: t.Reboot, Repair: t.Repair, Prefer: t.Prefer}
}

// ValidHostname reports whether a node may have this name, which is also its member's name in etcd.
func ValidHostname(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
		case i == 0 || i == len(s)-1 || c != '.' && c != '_' && c != '-':
			return false
		}
	}
	return s != "" && len(s) <= 253
}

// ValidLabelKey reports whether this may be the key of a node's label or annotation.
func ValidLabelKey(s string) bool {
	return s != "" && s != "<<" && !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
}
