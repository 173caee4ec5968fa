package strategy_test

import (
	"slices"
	"testing"

	"cke"
	"cke/server/strategy"
)

// What is wrong with an inventory is a problem of the status; what waits for the operator, or was not read yet, is none.
func TestReport_NamesWhatIsWrongWithTheInventory(t *testing.T) {
	const source = "sabakan at http://10.0.0.1:10080"
	for _, c := range []struct {
		name string
		is   *cke.InventoryStatus
		want []cke.Code
	}{
		{"none", nil, nil},
		{"all is well", &cke.InventoryStatus{Source: source, ReadAt: noon}, nil},
		{"not used", &cke.InventoryStatus{Stop: "off"}, nil},
		{"a template with a fault", &cke.InventoryStatus{Stop: "off", Code: cke.CodeInventory}, []cke.Code{cke.CodeInventory}},
		{"not read yet", &cke.InventoryStatus{Source: source, Code: cke.CodeInventory, Stop: "read"}, nil},
		{"never read", &cke.InventoryStatus{Source: source, Code: cke.CodeInventory, Failures: 1}, []cke.Code{cke.CodeInventory}},
		{"one read failed", &cke.InventoryStatus{Source: source, ReadAt: noon, Code: cke.CodeInventory, Failures: 1}, nil},
		{"three failed", &cke.InventoryStatus{Source: source, ReadAt: noon, Code: cke.CodeInventory, Failures: 3}, []cke.Code{cke.CodeInventory}},
		{"many turned bad", &cke.InventoryStatus{Source: source, ReadAt: noon, Code: cke.CodeManyHosts}, []cke.Code{cke.CodeManyHosts}},
		{"no machine fits", &cke.InventoryStatus{Source: source, ReadAt: noon, Code: cke.CodeNoHost}, []cke.Code{cke.CodeNoHost}},
		{"a change to confirm", &cke.InventoryStatus{Source: source, ReadAt: noon, Change: &cke.InventoryProposal{Confirm: []string{"a bootstrap"}}}, nil},
		{"a contradiction", &cke.InventoryStatus{Source: source, ReadAt: noon, Notes: []cke.InventoryNote{{Node: "n1", Code: cke.CodeHostDisagrees}, {Node: "n2", Text: "it waits"}}}, []cke.Code{cke.CodeHostDisagrees}},
	} {
		s := formed(3)
		s.Inventory = c.is
		st := strategy.Report(s.Input, strategy.Decide(s.Input), cke.Status{})
		var got []cke.Code
		for _, p := range st.Problems {
			got = append(got, p.Code)
		}
		if !slices.Equal(got, c.want) || st.Inventory != c.is || st.Health != cke.HealthReady {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
