package clusterfile_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cke"
	"cke/clusterfile"
	"cke/internal/golden"
)

const template = "name: prod\nnodes:\n  - {control_plane: true, user: cke}\ninventory:\n  control_plane: 3\n"

func TestParseTemplate_ReadsTheExample(t *testing.T) {
	blocks := yamlBlocks(golden.Read(t, "../docs/inventory-choice.md"))
	if len(blocks) != 1 {
		t.Fatalf("docs/inventory-choice.md has %d examples", len(blocks))
	}
	got, warnings, err := clusterfile.ParseTemplate("template.yml", []byte(blocks[0]))
	if err != nil || len(warnings) > 0 {
		t.Fatal(warnings, err)
	}
	if diff := cmp.Diff(got, got.Filled()); diff != "" {
		t.Errorf("the example leaves something to defaults:\n%s", diff)
	}
	if o := got.Inventory; o.ControlPlane != 3 || o.Grace.Unreachable != cke.Duration(30*time.Minute) || *o.Having.MinDaysBeforeRetire != 90 || o.NotHaving.Roles[0] != "boot" {
		t.Errorf("read %+v", o)
	}
}

// The label that CKE's templates have is good for the role.
func TestParseTemplate_TakesTheRoleFromTheLabelOfCKE(t *testing.T) {
	got, _, err := clusterfile.ParseTemplate("", []byte("name: prod\nnodes:\n- {control_plane: true, labels: {cke.cybozu.com/role: cs}}\n- {}\ninventory: {}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"cs"}, got.Filled().Inventory.Roles); diff != "" {
		t.Error(diff)
	}
}

func TestParseTemplate_FillsInDefaults(t *testing.T) {
	got, _, err := clusterfile.ParseTemplate("", []byte(template))
	if err != nil {
		t.Fatal(err)
	}
	want := cke.InventoryOptions{
		Source: cke.SourceSabakan, Mode: cke.InventoryPropose, ControlPlane: 3, Zone: cke.ZoneRack, Interval: cke.Duration(30 * time.Second),
		Grace: cke.Grace{Retiring: cke.Duration(5 * time.Minute), Unreachable: cke.Duration(30 * time.Minute), Unhealthy: cke.Duration(time.Hour),
			Missing: cke.Duration(time.Hour), Maintenance: cke.Duration(2 * time.Hour)},
		Limits: cke.Limits{ChangesPerDay: 2, Settle: cke.Duration(30 * time.Minute)},
	}
	if diff := cmp.Diff(want, got.Filled().Inventory); diff != "" {
		t.Error(diff)
	}
	if spare := got.Filled().Pattern(false); spare.User != "cke" || spare.ControlPlane {
		t.Errorf("a spare is reached as %+v", spare)
	}
}

// Each fault has its line, and says what would be right.
func TestParseTemplate_TellsTheOneThingThatIsWrong(t *testing.T) {
	inventory := func(s string) string { return strings.Replace(template, "  control_plane: 3\n", "  "+s+"\n", 1) }
	nodes := func(s string) string { return strings.Replace(template, "{control_plane: true, user: cke}", s, 1) }
	for _, c := range []struct {
		file, path, says string
		line             int
	}{
		{"", "", "is empty", 0},
		{template + "reboot: {check: x}\n", "reboot.command", "is missing", 6},
		{template + "constraints: {}\n", "constraints", "no constraints", 6},
		{template + "sabakan: {}\n", "sabakan", "source: sabakan", 6},
		{template + "inventry: {}\n", "inventry", "did you mean inventory?", 6},
		{template + "options: {etcd: {version: 3.6}}\n", "options.etcd.version", "all three numbers", 6},
		{template + "policies: {window: {duration: 2h}}\n", "policies.window", "no effect", 6},
		{template + "backup: {delta: {size: 1MiB}}\n", "backup.target", "is missing", 6},
		{"name: prod\nnodes:\n- {control_plane: true}\n", "inventory", "source: sabakan", 1},
		{"nodes:\n- {control_plane: true}\ninventory: {}\n", "name", "is missing", 1},
		{"name: prod\ninventory: {}\n", "nodes", "no pattern of a control-plane node", 1},
		{nodes("{user: cke}"), "nodes", "one pattern with control_plane: true", 2},
		{nodes("{control_plane: true}\n  - {control_plane: true}"), "nodes[1]", "nodes[0] in line 3", 4},
		{nodes("{control_plane: true}\n  - {user: a}\n  - {user: b}"), "nodes[2]", "second pattern", 5},
		{nodes("{control_plane: true, address: 10.0.0.1}"), "nodes[0].address", "Remove it", 3},
		{nodes("{control_plane: true, hostname: a}"), "nodes[0].hostname", "from its machine", 3},
		{nodes("{control_plane: true, zone: a}"), "nodes[0].zone", "from its machine", 3},
		{nodes("{control_plane: true, ssh: {host_key: a}}"), "nodes[0].ssh.host_key", "from its machine", 3},
		{nodes("{control_plane: true, annotations: {cke/serial: a}}"), `nodes[0].annotations["cke/serial"]`, "from its machine", 3},
		{nodes("{control_plane: true, ssh: {port: 2379}}"), "nodes[0].ssh.port", "also a port of etcd", 3},
		{nodes("{control_plane: true, user: a b}"), "nodes[0].user", "invalid user name", 3},
		{nodes("{control_plane: true, taints: []}"), "nodes[0].taints", "runs only etcd", 3},
		{nodes("{control_plane: yes please}"), "nodes[0].control_plane", "true or false", 3},
		{inventory("source: netbox"), "inventory.source", "sabakan, file", 5},
		{inventory("mode: on"), "inventory.mode", "off, propose, auto", 5},
		{inventory("control_plane: 0"), "inventory.control_plane", "no member", 5},
		{inventory("control_plane: -1"), "inventory.control_plane", "negative", 5},
		{inventory("control_plane: 9"), "inventory.control_plane", "at most 7", 5},
		{inventory("spares: 21"), "inventory.spares", "0 to 20", 5},
		{inventory("roles: ['']"), "inventory.roles[0]", "is empty", 5},
		{inventory("roles: cs"), "inventory.roles", "want a list", 5},
		{inventory("having: {rack: 3}"), "inventory.having.rack", "did you mean racks?", 5},
		{inventory("having: {racks: [-1]}"), "inventory.having.racks[0]", "negative", 5},
		{inventory("having: {states: [sick]}"), "inventory.having.states[0]", "unreachable", 5},
		{inventory("not_having: {labels: {'a b': c}}"), `inventory.not_having.labels["a b"]`, "without spaces", 5},
		{inventory("having: {min_days_before_retire: -1}"), "inventory.having.min_days_before_retire", "negative", 5},
		{inventory("having: {min_days_before_retire: soon}"), "inventory.having.min_days_before_retire", "whole number", 5},
		{inventory("zone: row"), "inventory.zone", "label:NAME", 5},
		{inventory("zone: 'label:'"), "inventory.zone", "label:NAME", 5},
		{inventory("interval: 1s"), "inventory.interval", "5s or more", 5},
		{inventory("interval: 2h"), "inventory.interval", "1h or less", 5},
		{inventory("grace: {unreachable: 0s}"), "inventory.grace.unreachable", "1m or more; 30m is usual", 5},
		{inventory("grace: {unreachble: 1h}"), "inventory.grace.unreachble", "did you mean unreachable?", 5},
		{inventory("limits: {changes_per_day: 3}"), "inventory.limits.changes_per_day", "from 1 to 2", 5},
		{inventory("limits: {changes_per_day: 0}"), "inventory.limits.changes_per_day", "mode: off", 5},
		{inventory("limits: {settle: 10s}"), "inventory.limits.settle", "1m or more", 5},
		{nodes("{control_plane: true, labels: {cke.cybozu.com/role: ss}}") + "  roles: [cs]\n", `nodes[0].labels["cke.cybozu.com/role"]`, "roles cs", 3},
	} {
		_, _, err := clusterfile.ParseTemplate("template.yml", []byte(c.file))
		var list *clusterfile.FaultList
		if !errors.As(err, &list) || cke.CodeOf(err) != cke.CodeConfig {
			t.Errorf("%q: %v", c.file, err)
			continue
		}
		if f := list.Faults[0]; len(list.Faults) != 1 || f.Path != c.path || f.Line != c.line || !strings.Contains(f.String(), c.says) {
			t.Errorf("want %s in line %d: %s\nfor %s\ngot %v", c.path, c.line, c.says, c.file, err)
		}
	}
}

func TestParseTemplate_WarnsOfAnEvenNumber(t *testing.T) {
	_, warnings, err := clusterfile.ParseTemplate("template.yml", []byte(strings.Replace(template, "control_plane: 3", "control_plane: 4", 1)))
	if err != nil || len(warnings) != 1 || warnings[0].Line != 5 || !strings.Contains(warnings[0].String(), "Declare 3 or 5") {
		t.Error(warnings, err)
	}
}
