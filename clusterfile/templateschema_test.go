package clusterfile_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"
	"gopkg.in/yaml.v3"

	"cke"
	"cke/internal/golden"
)

// ofMachines are the keys of nodes that a pattern does not have: a node gets them from its machine.
var ofMachines = []string{"address", "hostname", "zone"}

// makeTemplateSchema makes the schema of templates.
func makeTemplateSchema() *jsonschema.Schema {
	s := schemaOf(&cke.Template{}, "Template of a cluster file of cke", templateWords())
	nodes, _ := s.Properties.Get("nodes")
	for _, key := range ofMachines {
		nodes.Items.Properties.Delete(key)
	}
	nodes.Items.Required = slices.DeleteFunc(nodes.Items.Required, func(key string) bool { return slices.Contains(ofMachines, key) })
	ssh, _ := nodes.Items.Properties.Get("ssh")
	ssh.Properties.Delete("host_key")
	return s
}

func templateWords() map[string]words {
	all := schemaWords()
	all["nodes"] = words{"Patterns: exactly one with control_plane, and at most one of a spare.", nil}
	all["nodes[].control_plane"] = words{"Whether it is the pattern of control-plane nodes, or of spares.", false}
	d := cke.Template{}.Filled().Inventory
	filter := func(path, what string) {
		all[path] = words{what, nil}
		all[path+".labels"] = words{"Labels and their values.", nil}
		all[path+".racks"] = words{"Numbers of racks.", nil}
		all[path+".roles"] = words{"Roles.", nil}
		all[path+".states"] = words{"States, as healthy or retiring.", nil}
		all[path+".min_days_before_retire"] = words{"Whole days left until the retire date, or more.", nil}
	}
	filter("inventory.having", "What machines must have: all of it.")
	filter("inventory.not_having", "What machines must not have: nothing of it.")
	maps.Copy(all, map[string]words{
		"inventory":                        {"Which machines of an inventory carry the cluster.", nil},
		"inventory.source":                 {"Kind of the inventory: sabakan, file.", d.Source},
		"inventory.mode":                   {"off: nothing is chosen. propose: a change is shown. auto: the leader daemon applies a change that needs no confirmation.", d.Mode},
		"inventory.control_plane":          {"How many control-plane nodes there should be, 1 to 7.", d.ControlPlane},
		"inventory.spares":                 {"How many further nodes are declared, without a member.", 0},
		"inventory.roles":                  {"Roles of machines that may be chosen. Default: the label " + cke.LabelRole + " of the pattern, else any.", nil},
		"inventory.zone":                   {"Zone of a machine: rack, or label:NAME. Default: rack with source: sabakan, else the zone that the inventory names.", nil},
		"inventory.interval":               {"How often the inventory is read.", d.Interval.Short()},
		"inventory.grace":                  {"How long a machine is in a state before its member moves.", nil},
		"inventory.grace.retiring":         {"Retiring.", d.Grace.Retiring.Short()},
		"inventory.grace.unreachable":      {"Unreachable, and its member not seen to serve.", d.Grace.Unreachable.Short()},
		"inventory.grace.unhealthy":        {"Unhealthy, and its member serves.", d.Grace.Unhealthy.Short()},
		"inventory.grace.missing":          {"Not in the inventory.", d.Grace.Missing.Short()},
		"inventory.grace.maintenance":      {"In maintenance.", d.Grace.Maintenance.Short()},
		"inventory.limits":                 {"How often the inventory changes the cluster.", nil},
		"inventory.limits.changes_per_day": {"How many changes may move members in 24 hours, 1 or 2.", d.Limits.ChangesPerDay},
		"inventory.limits.settle":          {"Time from the end of one change to the next.", d.Limits.Settle.Short()},
	})
	return all
}

func TestTemplateSchema_IsCurrent(t *testing.T) {
	text, err := json.MarshalIndent(makeTemplateSchema(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "../docs/template.schema.json", string(text)+"\n")
}

func TestTemplateSchema_DescribesEveryKeyAndFitsTheExample(t *testing.T) {
	walkSchema(makeTemplateSchema(), "", func(p *jsonschema.Schema, path string) {
		if p.Description == "" {
			t.Errorf("clusterfile/templateschema_test.go: templateWords has no row for %s", path)
		}
	})
	page := golden.Read(t, "../docs/inventory-choice.md")
	_, example, _ := strings.Cut(page, "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	var value any
	if err := yaml.Unmarshal([]byte(example), &value); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(makeTemplateSchema())
	if err != nil {
		t.Fatal(err)
	}
	var root schema
	if err := json.Unmarshal(text, &root); err != nil {
		t.Fatal(err)
	}
	root.check(t, root, value, "", map[string]bool{})
}
