package clusterfile

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"
	"time"

	"cke"
)

// Bounds of an inventory section.
const (
	maxSpares = 20
	// maxChanges is how many changes a day may move members: an inventory that is wrong must not get further.
	maxChanges  = 2
	minInterval = 5 * time.Second
	maxInterval = time.Hour
	minGrace    = time.Minute
)

// ParseTemplate reads one template and checks it in full: a cluster file whose nodes are patterns without addresses, and an
// inventory section. Defaults, warnings and the error are as in ParseCluster.
func ParseTemplate(file string, data []byte) (cke.Template, []Warning, error) {
	var t cke.Template
	f := newFindings(file)
	if parse(f, data, &t, unknownTemplateKey, "Start from a cluster file, and write patterns without addresses in place of its nodes.") {
		checkTemplate(f, t)
	}
	if err := f.err(); err != nil {
		return cke.Template{}, f.sortedWarnings(), err
	}
	return t, f.sortedWarnings(), nil
}

// unknownTemplateKey reports a key that a template does not have.
func unknownTemplateKey(d *decoder, at place, path, key string, t reflect.Type) {
	like := t
	if t == reflect.TypeFor[cke.Template]() {
		like = reflect.TypeFor[cke.Cluster]()
		if key == "sabakan" {
			d.faultAt(at, childPath(path, key), "is not a key of a template", "Write inventory: with source: sabakan.")
			return
		}
	}
	if what, remedy, ok := keyOfCKE(like, key); ok {
		d.faultAt(at, childPath(path, key), what, remedy)
		return
	}
	unknownKey(d, at, path, key, t, reflect.TypeFor[cke.Template]())
}

// checkTemplate puts everything that is wrong with t into f.
func checkTemplate(f *findings, t cke.Template) {
	c := t.Cluster(t.Nodes)
	checkName(f, t.Name)
	checkPatterns(f, "nodes", t)
	checkEtcd(f, "options.etcd", c)
	checkPolicies(f, "policies", t.Policies)
	checkBackup(f, "backup", t.Backup)
	checkReboot(f, "reboot", t.Reboot)
	checkRepair(f, "repair", t.Repair)
	checkPrefer(f, "prefer", t.Prefer)
	checkRemoval(f, c)
	checkInventory(f, "inventory", t)
}

// checkPatterns checks that there is one pattern of a control-plane node and at most one other, and that both leave to the inventory
// what it says.
func checkPatterns(f *findings, path string, t cke.Template) {
	const remedy = "Declare one pattern with control_plane: true, and one without if spares are reached in another way."
	first := map[bool]string{}
	for i, n := range t.Nodes {
		p := itemPath(path, i)
		for _, key := range []string{"address", "hostname", "zone", "ssh.host_key"} {
			if f.given(p + "." + key) {
				f.fault(p+"."+key, "is not part of a pattern: a node gets it from its machine", "Remove it.")
			}
		}
		if f.given(childPath(p+".annotations", cke.AnnotationSerial)) {
			f.fault(childPath(p+".annotations", cke.AnnotationSerial), "is not part of a pattern: a node gets it from its machine", "Remove it.")
		}
		checkUser(f, p+".user", n.User)
		checkPort(f, p+".ssh.port", n.SSH.Port)
		checkLabels(f, p+".labels", n.Labels)
		checkLabels(f, p+".annotations", n.Annotations)
		if n.ControlPlane {
			checkSSHPortFree(f, p, cmp.Or(n.SSH.Port, cke.DefaultSSHPort), t.Options.Etcd)
		}
		if was, twice := first[n.ControlPlane]; twice && !f.isFaulty(p+".control_plane") && !f.isFaulty(was+".control_plane") {
			f.fault(p, fmt.Sprintf("is a second pattern of the same kind, the first is %s", at(f, was)), remedy)
		} else if !twice {
			first[n.ControlPlane] = p
		}
	}
	if _, ok := first[true]; !ok && !f.isFaulty(path) && !faultyBelow(f, path, ".control_plane") {
		f.fault(path, "no pattern of a control-plane node", remedy)
	}
}

// faultyBelow reports whether an item of the list at path, or this key of one, has a fault.
func faultyBelow(f *findings, path, key string) bool {
	for p := range f.faulty {
		if strings.HasPrefix(p, path+"[") && (strings.HasSuffix(p, "]") || strings.HasSuffix(p, key)) {
			return true
		}
	}
	return false
}

// checkInventory checks the inventory section.
func checkInventory(f *findings, p string, t cke.Template) {
	o := t.Inventory
	if !f.given(p) {
		f.fault(p, "is missing: a template says which machines it takes", "Write one, as inventory: {source: sabakan, control_plane: 3, spares: 1}.")
		return
	}
	enum(f, p+".source", o.Source, cke.SourceSabakan, cke.SourceFile)
	enum(f, p+".mode", o.Mode, cke.InventoryOff, cke.InventoryPropose, cke.InventoryAuto)
	if o.ControlPlane == 0 && f.given(p+".control_plane") {
		f.fault(p+".control_plane", "0 control-plane nodes: there would be no member", "Write 3 or 5.")
	} else if o.ControlPlane < 0 {
		f.fault(p+".control_plane", fmt.Sprintf("%d is negative", o.ControlPlane), "Write 3 or 5.")
	} else {
		checkControlPlane(f, p+".control_plane", cmp.Or(o.ControlPlane, t.Filled().Inventory.ControlPlane))
	}
	if o.Spares < 0 || o.Spares > maxSpares {
		f.fault(p+".spares", fmt.Sprintf("invalid number %d", o.Spares), fmt.Sprintf("Write a number from 0 to %d; 1 is usual.", maxSpares))
	}
	checkRoles(f, p, t)
	checkFilter(f, p+".having", o.Having)
	checkFilter(f, p+".not_having", o.NotHaving)
	checkZoneOf(f, p+".zone", o)
	checkSpan(f, p+".interval", o.Interval, minInterval, maxInterval, "30s is usual.")
	for _, g := range []struct {
		key   string
		value cke.Duration
		usual string
	}{
		{"retiring", o.Grace.Retiring, "5m"}, {"unreachable", o.Grace.Unreachable, "30m"}, {"unhealthy", o.Grace.Unhealthy, "1h"},
		{"missing", o.Grace.Missing, "1h"}, {"maintenance", o.Grace.Maintenance, "2h"},
	} {
		checkSpan(f, p+".grace."+g.key, g.value, minGrace, 0, g.usual+" is usual.")
	}
	if n := o.Limits.ChangesPerDay; n < 0 || n > maxChanges || n == 0 && f.given(p+".limits.changes_per_day") {
		f.fault(p+".limits.changes_per_day", fmt.Sprintf("invalid number %d", n),
			fmt.Sprintf("Write a number from 1 to %d; for no changes, write mode: off. `ckecli` applies more, one by one.", maxChanges))
	}
	checkSpan(f, p+".limits.settle", o.Limits.Settle, minGrace, 0, "30m is usual.")
}

// checkRoles checks that the roles are those of the label that CKE's templates have.
func checkRoles(f *findings, p string, t cke.Template) {
	checkWords(f, p+".roles", t.Inventory.Roles)
	for i, n := range t.Nodes {
		role, at := n.Labels[cke.LabelRole], childPath(itemPath("nodes", i)+".labels", cke.LabelRole)
		if roles := t.Filled().Inventory.Roles; role != "" && (len(roles) != 1 || roles[0] != role) {
			f.fault(at, fmt.Sprintf("says role %q, and the machines have the roles %s", shorten(role), strings.Join(roles, ", ")),
				"Write one role, in roles of the inventory section or here.")
		}
	}
}

// checkFilter checks what machines are compared with.
func checkFilter(f *findings, p string, h cke.HostFilter) {
	checkWords(f, p+".roles", h.Roles)
	checkLabels(f, p+".labels", h.Labels)
	for i, rack := range h.Racks {
		if rack < 0 {
			f.fault(itemPath(p+".racks", i), fmt.Sprintf("%d is negative", rack), "Write the number of a rack.")
		}
	}
	for i, s := range h.States {
		enum(f, itemPath(p+".states", i), s, cke.HostStates()...)
	}
	if d := h.MinDaysBeforeRetire; d != nil && *d < 0 {
		f.fault(p+".min_days_before_retire", fmt.Sprintf("%d is negative", *d), "Write a number of days.")
	}
}

func checkWords(f *findings, p string, words []string) {
	for i, w := range words {
		if strings.TrimSpace(w) == "" {
			f.fault(itemPath(p, i), "is empty", "Give it a value, or remove the line.")
		}
	}
}

// checkZoneOf checks where the zone of a machine comes from.
func checkZoneOf(f *findings, p string, o cke.InventoryOptions) {
	label, isLabel := strings.CutPrefix(o.Zone, cke.ZoneLabel)
	switch {
	case o.Zone == "", o.Zone == cke.ZoneRack, isLabel && cke.ValidLabelKey(label):
	default:
		f.fault(p, fmt.Sprintf("invalid zone %q", shorten(o.Zone)), "Write rack, or label:NAME for the value of a label.")
	}
}

// checkSpan checks a duration that the file gives; most 0: no upper bound.
func checkSpan(f *findings, p string, d cke.Duration, least, most time.Duration, usual string) {
	switch {
	case d == 0 && !f.given(p):
	case time.Duration(d) < least:
		f.fault(p, fmt.Sprintf("%s is too short", d.Short()), fmt.Sprintf("Write %s or more; %s", cke.Duration(least).Short(), usual))
	case most > 0 && time.Duration(d) > most:
		f.fault(p, fmt.Sprintf("%s is too long", d.Short()), fmt.Sprintf("Write %s or less; %s", cke.Duration(most).Short(), usual))
	}
}
