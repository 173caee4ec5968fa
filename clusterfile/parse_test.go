package clusterfile_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cke"
	"cke/clusterfile"
	"cke/internal/golden"
)

const minimal = `name: prod
nodes:
  - address: 10.0.0.11
    control_plane: true
`

// TestParseCluster_Stories reads every file of testdata and compares what is told, word for word.
func TestParseCluster_Stories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yml")
	if err != nil || len(files) < 5 {
		t.Fatalf("stories: %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, strings.TrimSuffix(file, ".yml")+".txt", told(data))
		})
	}
}

// told is all that a person is told about a cluster file.
func told(data []byte) string {
	var b strings.Builder
	c, warnings, err := clusterfile.ParseCluster("cluster.yml", data)
	for _, w := range warnings {
		fmt.Fprintf(&b, "warning: %s\n", w)
	}
	var coded *cke.Error
	var list *clusterfile.FaultList
	switch {
	case err == nil:
		fmt.Fprintf(&b, "%s is good: %d of %d nodes carry members\n", c.Name, len(c.ControlPlane()), len(c.Nodes))
	case errors.As(err, &coded) && errors.As(err, &list):
		fmt.Fprintf(&b, "error[%s]: %s\n", coded.Code, coded.What)
		for _, f := range list.Faults { // as ckecli shows them
			fmt.Fprintln(&b, f)
		}
	default:
		fmt.Fprintf(&b, "error without code: %v\n", err)
	}
	return b.String()
}

func TestParseCluster_FillsInNoDefaults(t *testing.T) {
	c, warnings, err := clusterfile.ParseCluster("cluster.yml", []byte(minimal))
	if err != nil || len(warnings) > 0 {
		t.Fatal(warnings, err)
	}
	want := cke.Cluster{Name: "prod", Nodes: []cke.Node{{Address: "10.0.0.11", ControlPlane: true}}}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Error(diff)
	}
}

func TestParseCluster_ReadsEverything(t *testing.T) {
	c, _, err := clusterfile.ParseCluster("docs/cluster.md", fullExample(t))
	if err != nil {
		t.Fatal(err)
	}
	first := c
	first.Nodes = c.Nodes[:1]
	if diff := cmp.Diff(first, first.WithDefaults()); diff != "" {
		t.Errorf("the full example leaves something to defaults:\n%s", diff)
	}
	if c.Options.Etcd.Resources.Memory != 8<<30 || c.Backup.Retention.Hourly != 24 || c.Nodes[0].Labels["example.com/serial"] != "4711" {
		t.Errorf("read %+v", c)
	}
}

func TestParseCluster_NullMeansNotGiven(t *testing.T) {
	c, _, err := clusterfile.ParseCluster("", []byte(minimal+"options:\npolicies: ~\nbackup: {target: , full: {schedule: }}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(cke.Policies{}, c.Policies); diff != "" {
		t.Error(diff)
	}
}

func TestParseCluster_AnchorsAndMergeKeysWork(t *testing.T) {
	c, _, err := clusterfile.ParseCluster("", []byte(`name: prod
nodes:
  - &first
    address: 10.0.0.11
    user: cke
    control_plane: true
    labels: &labels {rack: one, row: a}
  - <<: *first
    address: 10.0.0.12
    labels:
      <<: *labels
      rack: two
  - address: 10.0.0.13
    <<: [*first, {zone: z1}]
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []cke.Node{
		{Address: "10.0.0.11", User: "cke", ControlPlane: true, Labels: map[string]string{"rack": "one", "row": "a"}},
		{Address: "10.0.0.12", User: "cke", ControlPlane: true, Labels: map[string]string{"rack": "two", "row": "a"}},
		{Address: "10.0.0.13", User: "cke", ControlPlane: true, Labels: map[string]string{"rack": "one", "row": "a"}, Zone: "z1"},
	}
	if diff := cmp.Diff(want, c.Nodes); diff != "" {
		t.Error(diff)
	}
}

func TestParseCluster_MergedValueThatIsOverriddenKeepsItsOwnLine(t *testing.T) {
	_, _, err := clusterfile.ParseCluster("f", []byte("name: prod\nnodes:\n  - &a {address: 10.0.0.11, control_plane: true}\n  - <<: *a\n    address: bad!\n"))
	if got := faults(t, err); len(got) != 1 || got[0].Line != 5 || got[0].Path != "nodes[1].address" {
		t.Errorf("got %v", got)
	}
}

func TestParseCluster_AliasBombsEnd(t *testing.T) {
	var b strings.Builder
	b.WriteString("name: prod\nnodes: []\nx0: &x0 {a: b, c: d}\n")
	for i := range 12 {
		fmt.Fprintf(&b, "x%d: &x%d {<<: [%s]}\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*x%d, ", i), 12), ", "))
	}
	b.WriteString("options: *x12\n<<: *x12\n")
	_, _, err := clusterfile.ParseCluster("bomb.yml", []byte(b.String()))
	if err == nil || !strings.Contains(err.Error(), "with its aliases expanded, the file has more than") {
		t.Errorf("got %.300v", err)
	}
	if _, _, err := clusterfile.ParseCluster("", []byte("a: &a\n  <<: *a\nname: &n [*n]\n")); err == nil {
		t.Error("a file that contains itself was read")
	}
}

func TestParseCluster_NothingIsMergedIntoItself(t *testing.T) {
	for file, line := range map[string]int{
		minimal + "    labels: &l\n      <<: *l\n      a: b\n":                     6,
		minimal + "  - &n\n    address: 10.0.0.12\n    <<: [{user: x}, *n]\n":      7,
		minimal + "  - &n\n    address: 10.0.0.12\n    <<: &m {user: x, <<: *m}\n": 7,
		minimal + "  - &n\n    address: 10.0.0.12\n    <<: &m [{user: x}, *m]\n":   7,
	} {
		_, _, err := clusterfile.ParseCluster("f", []byte(file))
		if got := faults(t, err); len(got) != 1 || got[0].Line != line || got[0].Message != "a merge key (<<) merges keys and values into themselves" {
			t.Errorf("%s: got %v", file, err)
		}
	}
}

// 026 is 22 to YAML, and 26 to most people.
func TestParseCluster_NumbersAreWrittenInOneWay(t *testing.T) {
	for value, says := range map[string]string{
		"026": "026 is octal and would mean 22", "0o26": "0o26 would mean 22", "0x16": "0x16 would mean 22", "2_2": "2_2 would mean 22",
		"0b10110": "0b10110 would mean 22", "+22": "+22 would mean 22", "089": "089", "-022": "-022 is octal and would mean -18",
	} {
		_, _, err := clusterfile.ParseCluster("f", []byte(minimal+"    ssh: {port: "+value+"}\n"))
		got := faults(t, err)
		if len(got) != 1 || !strings.Contains(got[0].Message, says) || got[0].Path != "nodes[0].ssh.port" {
			t.Errorf("%s: got %v", value, err)
		}
	}
	for _, options := range []string{"resources: {cpus: 010}", "extra_args: [--quota-backend-bytes=010]", "extra_args: [--snapshot-count=0x10]", "extra_args: [--heartbeat-interval=010]"} {
		if _, _, err := clusterfile.ParseCluster("f", []byte(minimal+"options: {etcd: {"+options+"}}\n")); err == nil {
			t.Errorf("%s was accepted", options)
		}
	}
	if _, _, err := clusterfile.ParseCluster("f", []byte(minimal+"    ssh: {port: 22}\noptions: {etcd: {resources: {cpus: 0.50}, extra_args: [--snapshot-count=0]}}\n")); err != nil {
		t.Error(err)
	}
}

// Each file has all the faults of one kind that its size allows; in short tests, a tenth of them in a third of the time.
// What is reported, and the work for it, is bounded.
func TestParseCluster_ABoundOnFaults(t *testing.T) {
	part, limit := 1, 30*time.Second // it was minutes
	if testing.Short() {
		part, limit = 10, 10*time.Second // with the race detector it is ten times what it is without
	}
	repeat := func(line string, n int) string { return strings.Repeat(line, n/part) }
	many := func(n int, line string) string {
		var b strings.Builder
		for i := range n / part {
			fmt.Fprintf(&b, line, i)
		}
		return b.String()
	}
	huge := repeat("x", 500_000)
	for name, file := range map[string]string{
		"unknown keys":         "name: prod\n" + many(60_000, "x%d: y\n"),
		"unknown arguments":    minimal + "options: {etcd: {extra_args: [" + many(60_000, "--a%d=b,") + "]}}\n",
		"doubtful arguments":   minimal + "options: {etcd: {image: \"x/y:v3.6.1\", extra_args: [" + many(60_000, "--a%d=b,") + "]}}\n",
		"arguments in a row":   minimal + "options: {etcd: {extra_args: [" + many(60_000, "a%d,") + "]}}\n",
		"feature gates":        minimal + "options: {etcd: {extra_args: [\"--feature-gates=" + many(60_000, "A%d=true,") + "\"]}}\n",
		"labels":               minimal + "    labels:\n" + many(40_000, "      \" %d\": y\n"),
		"environment":          minimal + "options: {etcd: {extra_env: {" + many(60_000, "\" %d\": x, ") + "}}}\n",
		"binds":                minimal + "options: {etcd: {extra_binds: [" + many(30_000, "{source: /%d, destination: /a}, ") + "]}}\n",
		"recipients":           minimal + "backup: {target: \"file:///a\", encryption: {recipients: [" + many(60_000, "age%d, ") + "]}}\n",
		"nodes":                "name: prod\nnodes:\n" + many(20_000, "  - {address: x%d, hostname: \"-\"}\n"),
		"one address":          "name: prod\nnodes:\n" + repeat("  - {address: 10.0.0.1}\n", 40_000),
		"one key, many times":  "name: prod\n" + repeat("zone: a\n", 60_000),
		"a long key":           minimal + "    labels: &l {\"" + huge + " x\": a}\n" + many(1000, "  - {address: x%d, labels: *l}\n"),
		"a long value":         minimal + "    user: &u \"" + huge + "-%%\"\n" + many(1000, "  - {address: x%d, user: *u}\n"),
		"a long argument":      minimal + "options: {etcd: {extra_args: [&a --" + huge + "=1" + repeat(", *a", 10_000) + "]}}\n",
		"a long scheme":        minimal + "backup: {target: " + huge + "://x}\n",
		"a wrong indentation":  "name: prod\nnodes:\n" + repeat("  - address: 10.0.0.1\n    user: a\n", 20_000) + "   x: y\n",
		"a list within a list": "name: prod\nnodes: " + repeat("[", 9_000) + repeat("]", 9_000) + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			start := processTime(t)
			_, warnings, err := clusterfile.ParseCluster("f", []byte(file))
			if took := processTime(t) - start; took > limit {
				t.Errorf("it took %s", took)
			}
			text := fmt.Sprint(err, warnings)
			if len(text) > 2<<20 {
				t.Errorf("it reports %d bytes", len(text))
			}
			if len(warnings) > 1001 {
				t.Errorf("%d warnings", len(warnings))
			}
			if err == nil && len(warnings) == 0 {
				t.Error("nothing is wrong with it")
			}
		})
	}
}

// processTime is the CPU time that this process has used; what others do on the machine does not count.
func processTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func TestParseCluster_FaultsAreInTheOrderOfTheFile(t *testing.T) {
	data, err := os.ReadFile("testdata/everything-wrong.yml")
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = clusterfile.ParseCluster("cluster.yml", data)
	line := 0
	for _, f := range faults(t, err) {
		if f.Line < line || f.Line == 0 {
			t.Errorf("out of order: %v", f)
		}
		line = f.Line
	}
}

func TestParseCluster_ManyFaultsAreCounted(t *testing.T) {
	_, _, err := clusterfile.ParseCluster("f", []byte("name: prod\nnodes:\n"+strings.Repeat("  - address: x\n", 1500)))
	got := faults(t, err)
	if len(got) != 1001 || got[1000].Message != "and 501 more faults" {
		t.Errorf("%d faults, the last is %v", len(got), got[len(got)-1])
	}
}

func TestCluster_ValidateKnowsTheSameRulesWithoutAFile(t *testing.T) {
	c := cke.Cluster{Name: "prod", Nodes: []cke.Node{{Address: "nowhere.example.com", ControlPlane: true}}}
	_, err := clusterfile.Check(c)
	if got := faults(t, err); len(got) != 1 || got[0].Line != 0 || got[0].Path != "nodes[0].address" {
		t.Errorf("got %v", got)
	}
	c.Nodes[0].Address = "10.0.0.11"
	if warnings, err := clusterfile.Check(c.WithDefaults()); err != nil || len(warnings) > 0 {
		t.Errorf("with defaults: %v, %v", warnings, err)
	}
}

func faults(t *testing.T, err error) []clusterfile.Fault {
	t.Helper()
	var list *clusterfile.FaultList
	if !errors.As(err, &list) {
		t.Fatalf("no fault list: %v", err)
	}
	if cke.CodeOf(err) != cke.CodeConfig {
		t.Errorf("code %s", cke.CodeOf(err))
	}
	return list.Faults
}
