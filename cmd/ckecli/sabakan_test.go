package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSabakanMachines_ListsAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hosts.yml")
	if err := os.WriteFile(file, []byte("hosts:\n- {id: b, address: 10.0.0.2, state: retiring, zone: east}\n- {id: a, address: 10.0.0.1, role: cs, rack: 3, labels: {y: '2', x: '1'}, retire_date: 2030-01-31}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"sabakan", "machines", "--file", file}
	if got, want := output(t, append(args, "-o", "wide")...), ""+
		"SERIAL  ADDRESS   STATE     FOR  ROLE  RACK  ZONE  RETIRE DATE  BMC  LABELS\n"+
		"a       10.0.0.1  healthy   -    cs    3     -     2030-01-31   -    x=1, y=2\n"+
		"b       10.0.0.2  retiring  -    -     0     east  -            -    -\n"; got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
	if got := output(t, append(args, "-o", "name")...); got != "a\nb\n" {
		t.Errorf("got %q", got)
	}
	if got := output(t, append(args, "-o", "json")...); !strings.Contains(got, `"retireDate": "2030-01-31T00:00:00Z"`) || strings.Count(got, `"serial"`) != 2 || strings.Count(got, "retireDate") != 1 {
		t.Errorf("got %s", got)
	}
}

func TestSabakanMachines_ListsAServer(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"data":{"searchMachines":[{"spec":{"serial":"a","labels":null,"rack":1,"role":"cs","ipv4":["10.69.0.68"],"registerDate":"2026-01-01T00:00:00Z",`+
			`"retireDate":"2026-01-01T00:00:00Z","bmc":{"bmcType":"IPMI-2.0"}},"status":{"state":"UNREACHABLE","duration":7200}}]}}`)
	}))
	defer s.Close()
	if got := output(t, "sabakan", "machines", "--url", s.URL); !strings.HasSuffix(got, "\na       10.69.0.68  unreachable  2h   cs    1     -\n") {
		t.Errorf("got:\n%s", got)
	}
}

func TestSabakanMachines_NamesWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{nil, exitUsage, "name one inventory"},
		{[]string{"--url", "http://10.0.0.1", "--file", "x"}, exitUsage, "name one inventory"},
		{[]string{"--url", "10.0.0.1:10080"}, exitUsage, "want http://HOST:PORT"},
		{[]string{"--file", "http://10.0.0.1/x"}, exitUsage, "want https://HOST/PATH"},
		{[]string{"--file", "/nowhere/hosts.yml"}, exitFailed, "inventory file /nowhere/hosts.yml: no such file or directory"},
	} {
		var stderr strings.Builder
		a := renderer()
		a.stdout, a.stderr = io.Discard, &stderr
		if code := a.run(t.Context(), append([]string{"sabakan", "machines"}, c.args...)); code != c.code || !strings.Contains(stderr.String(), c.says) {
			t.Errorf("%v: exit code %d, want %d, %q in: %s", c.args, code, c.code, c.says, stderr.String())
		}
	}
}
