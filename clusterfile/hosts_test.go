package clusterfile_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"cke"
	"cke/clusterfile"
	"cke/internal/golden"
)

func TestParseHosts_ReadsYAMLAndJSON(t *testing.T) {
	want := []cke.Host{
		{ID: "a", Addresses: []string{"10.0.0.1"}, State: cke.HostHealthy},
		{ID: "0123", Addresses: []string{"2001:db8::2"}, Role: "cs", Rack: 2, Zone: "east", Labels: map[string]string{"type": "big"}, State: cke.HostRetiring,
			RetireDate: time.Date(2030, 1, 31, 0, 0, 0, 0, time.UTC), BMC: "IPMI-2.0"},
	}
	for name, text := range map[string]string{
		"YAML": `
hosts:
  - {id: a, address: 10.0.0.1}
  - id: 0123
    address: 2001:db8::2
    role: cs
    rack: 2
    zone: east
    labels: {type: big}
    state: retiring
    retire_date: 2030-01-31
    bmc: IPMI-2.0
`,
		"JSON": `{"hosts": [{"id": "a", "address": "10.0.0.1", "labels": null}, {"id": "0123", "address": "2001:db8::2", "role": "cs", "rack": 2, "zone": "east",
			"labels": {"type": "big"}, "state": "retiring", "retire_date": "2030-01-31", "bmc": "IPMI-2.0"}]}`,
	} {
		got, err := clusterfile.ParseHosts("hosts", []byte(text))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if d := gocmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	if none, err := clusterfile.ParseHosts("hosts", []byte("hosts: []")); err != nil || len(none) > 0 {
		t.Errorf("got %v, %v", none, err)
	}
}

func TestParseHosts_NamesTheOneThingThatIsWrong(t *testing.T) {
	for _, c := range []struct {
		text string
		line int
		path string
		says string // in the message or in the remedy
	}{
		{"", 0, "", "is empty"},
		{"[]", 1, "", "want keys and values"},
		{"hosts:", 1, "hosts", "write hosts: []"},
		{"machines: []", 1, "machines", "unknown key"},
		{"hosts: {}", 1, "hosts", "want a list"},
		{"hosts:\n- {id: a, address: 10.0.0.1, adress: x}", 2, "hosts[0].adress", "did you mean address?"},
		{"hosts:\n- {id: a, address: 10.0.0.1, state: healthy}\n- {id: b, address: 10.0.0.2, state: dead}", 3, "hosts[1].state", "Write one of healthy, unhealthy, unreachable"},
		{"hosts:\n- {address: 10.0.0.1}", 2, "hosts[0].id", "serial"},
		{"hosts:\n- {id: a b, address: 10.0.0.1}", 2, "hosts[0].id", "without spaces"},
		{"hosts:\n- {id: a}", 2, "hosts[0].address", "is missing"},
		{"hosts:\n- {id: a, address: node1.example}", 2, "hosts[0].address", "is a host name"},
		{"hosts:\n- {id: a, address: 10.0.0.300}", 2, "hosts[0].address", "invalid IP address"},
		{"hosts:\n- {id: a, address: 10.0.0.1}\n- {id: a, address: 10.0.0.2}", 3, "hosts[1].id", "first at hosts[0].id in line 2"},
		{"hosts:\n- {id: a, address: 10.0.0.1}\n- {id: b, address: 10.0.0.1}", 3, "hosts[1].address", "first at hosts[0].address in line 2"},
		{"hosts:\n- {id: a, address: 10.0.0.1, rack: -1}", 2, "hosts[0].rack", "Write 0 or a greater number"},
		{"hosts:\n- {id: a, address: 10.0.0.1, rack: two}", 2, "hosts[0].rack", "want a whole number"},
		{"hosts:\n- {id: a, address: 10.0.0.1, retire_date: 2030-02-31}", 2, "hosts[0].retire_date", "Write the day as"},
		{"hosts:\n- {id: a, address: 10.0.0.1, labels: {\"a b\": c}}", 2, `hosts[0].labels["a b"]`, "without spaces"},
		{"hosts:\n- {id: a,\n   address: 10.0.0.1", 3, "", "not closed"},
	} {
		_, err := clusterfile.ParseHosts("hosts.yml", []byte(c.text))
		var list *clusterfile.FaultList
		if !errors.As(err, &list) || cke.CodeOf(err) != cke.CodeConfig {
			t.Errorf("%q: got %v", c.text, err)
			continue
		}
		f := list.Faults[0]
		if len(list.Faults) != 1 || f.Line != c.line || f.Path != c.path || !strings.Contains(f.Message+" "+f.Remedy, c.says) {
			t.Errorf("%q: got %v, want line %d, path %q, %q", c.text, err, c.line, c.path, c.says)
		}
	}
}

// The example of the page has every key and is good.
func TestDocs_InventoryFileNamesEveryKey(t *testing.T) {
	page := golden.Read(t, "../docs/inventory.md")
	_, text, _ := strings.Cut(page, "    hosts:\n")
	text, _, _ = strings.Cut(text, "\n\n")
	hosts, err := clusterfile.ParseHosts("the example", []byte("    hosts:\n"+text))
	if err != nil || len(hosts) != 2 {
		t.Fatalf("got %v, %v", hosts, err)
	}
	for h, i := reflect.ValueOf(hosts[0]), 0; i < h.NumField(); i++ {
		if name := h.Type().Field(i).Name; name != "For" && h.Field(i).IsZero() {
			t.Errorf("the example has no %s", name)
		}
	}
}

func TestParseHosts_HoldsTenThousandMachines(t *testing.T) {
	one := `  {"id": "machine-XXXXXXXX", "address": "2001:db8:0:1::XXXXXXXX", "role": "cs", "zone": "rack-XXX", "state": "unreachable"},` + "\n"
	text := "{\"hosts\": [\n" + strings.Repeat(one, 4<<20/len(one)+1) + "]}"
	_, err := clusterfile.ParseHosts("hosts.json", []byte(text))
	if err == nil || !strings.Contains(err.Error(), "at most 4194304 are read") {
		t.Errorf("got %v", err)
	}
	if n := 4 << 20 / len(one); n < 10_000 {
		t.Errorf("%d machines fit", n)
	}
}
