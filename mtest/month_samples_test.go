package mtest_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"

	"context"
	"io"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// figure is one thing that could grow.
type figure struct {
	// atMost is its bound; 0: it has none that is written down, and may not grow.
	atMost float64
	// slack is what it may grow by, beside growing by a tenth: what comes and goes.
	slack float64
	// process: it starts anew with the daemon.
	process bool
}

// figures that are not judged as others are. Keys of the store have the bounds of docs/store.md.
var figures = map[string]figure{
	"store keys: records":                  {atMost: 501},
	"store keys: spec-log":                 {atMost: 200},
	"store keys: clusters/prod/identity":   {atMost: 507 + 4},
	"store bytes: records":                 {atMost: 500 * 8 << 10},
	"store bytes: spec-log":                {atMost: 200 * 16 << 10},
	"store bytes: clusters/prod/identity":  {atMost: 511 * 8 << 10},
	"store bytes: status":                  {atMost: 256 << 10}, // names the memberships whose volumes are archived
	"store database bytes":                 {slack: 16 << 20},
	"store files bytes":                    {atMost: 1 << 30}, // write-ahead logs of 64 MB each, of which etcd keeps some
	"daemon resident bytes":                {slack: 48 << 20, process: true},
	"daemon goroutines":                    {slack: 40, process: true},
	"daemon files":                         {slack: 10, process: true},
	"daemon threads":                       {slack: 5, process: true},
	"metrics series":                       {slack: 300, process: true},
	"node volumes":                         {slack: 3}, // those that are kept for a day
	"node containers":                      {slack: 1},
	"node sshd processes":                  {slack: 6},
	"scratch files":                        {slack: 10},
	"scratch bytes":                        {slack: 32 << 20},
	"target objects: delta":                {slack: 120}, // until the next prune
	"target objects: full":                 {slack: 4},
	"target objects: spec":                 {atMost: 101},
	"target objects: identity":             {atMost: 101},
	"target objects: verified":             {atMost: 101},
	"target objects: signatures":           {atMost: 303},
	"store bytes: clusters/prod/spec":      {slack: 1 << 10},
	"target bytes":                         {slack: 8 << 20},
	"members' database bytes, the largest": {slack: 32 << 20},
}

// sample is what was counted at one time.
type sample struct {
	pid    int
	counts map[string]float64
}

type samples struct{ all []sample }

// verdict compares the halves of what was counted after the first fifth, in which things come to their measure.
type verdict struct {
	first, second, most float64
	grows               bool
}

func (f figure) of(counts []float64) verdict {
	counts = counts[len(counts)/5:]
	half := len(counts) / 2
	if half == 0 {
		return verdict{}
	}
	v := verdict{first: median(counts[:half]), second: median(counts[half:]), most: slices.Max(counts)}
	if f.atMost > 0 {
		v.grows = v.most > f.atMost
	} else {
		v.grows = v.second > v.first*1.1+f.slack
	}
	return v
}

func median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[len(sorted)/2]
}

// counts returns what was counted of one thing; of one that starts anew with the daemon, by the last one.
func (s *samples) counts(name string) []float64 {
	var all []float64
	for _, one := range s.all {
		if figures[name].process && one.pid != s.all[len(s.all)-1].pid {
			continue
		}
		all = append(all, one.counts[name]) // 0 where there was none yet
	}
	return all
}

func (s *samples) names() []string {
	names := map[string]bool{}
	for _, one := range s.all {
		for name := range one.counts {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// judge fails for each thing that grew without a bound, or beyond it.
func (s *samples) judge(t *testing.T) {
	t.Helper()
	for _, name := range s.names() {
		f := figures[name]
		if v := f.of(s.counts(name)); v.grows {
			t.Errorf("%s grow: %.0f, then %.0f, at most %.0f; the bound is %.0f", name, v.first, v.second, v.most, f.atMost)
		}
	}
}

// show prints the table.
func (s *samples) show(t *testing.T) {
	t.Helper()
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 1, ' ', 0)
	fmt.Fprintln(w, "| what\t| first half\t| second half\t| most\t| bound\t|")
	fmt.Fprintln(w, "|---\t|---\t|---\t|---\t|---\t|")
	for _, name := range s.names() {
		f := figures[name]
		v, bound := f.of(s.counts(name)), "does not grow"
		if f.atMost > 0 {
			bound = fmt.Sprintf("%.0f", f.atMost)
		}
		if v.grows {
			bound += " (exceeded)"
		}
		fmt.Fprintf(w, "| %s\t| %.0f\t| %.0f\t| %.0f\t| %s\t|\n", name, v.first, v.second, v.most, bound)
	}
	w.Flush()
	t.Logf("%d samples: medians of the halves after the first fifth, and the most\n%s", len(s.all), b.String())
}

// sample counts everything once.
func (m *month) sample() {
	m.Helper()
	one := sample{pid: m.daemon.Pid(), counts: map[string]float64{}}
	m.countStore(one.counts)
	m.countNodes(one.counts)
	m.countProcess(one.counts)
	for name, dir := range map[string]string{"scratch": filepath.Join(m.Dir, "scratch"), "target": m.target.target, "store files": filepath.Join(m.Dir, "store")} {
		files, size := m.countFiles(dir)
		switch name {
		case "scratch":
			one.counts["scratch files"] = files
			one.counts["scratch bytes"] = size
		case "target":
			one.counts["target bytes"] = size
		default:
			one.counts["store files bytes"] = size
		}
	}
	var largest int64
	st := m.now()
	for _, e := range st.Etcd.Endpoints {
		largest = max(largest, e.DBSize)
	}
	one.counts["members' database bytes, the largest"] = float64(largest)
	m.countTarget(one.counts)
	m.backups.see(m.target.target)
	if st.Backup != nil && st.Backup.Verified != nil {
		m.backups.verified(st.Backup.Verified.At.String())
	}
	m.samples.all = append(m.samples.all, one)
}

// countFiles counts the files below a directory, which may vanish meanwhile.
func (m *month) countFiles(dir string) (files, size float64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		if info, err := d.Info(); err == nil {
			files++
			size += float64(info.Size())
		}
		return nil
	})
	return files, size
}

// countTarget counts what lies in the target by kind: full, delta, spec, signatures and so on.
func (m *month) countTarget(counts map[string]float64) {
	_ = filepath.WalkDir(m.target.target, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		parts := strings.Split(strings.TrimPrefix(path, m.target.target+"/"), "/")
		kind := parts[0]
		if !strings.HasPrefix(kind, ".") && len(parts) > 2 {
			kind = parts[2]
		}
		counts["target objects: "+kind]++
		return nil
	})
}

// countStore counts keys and bytes of the store by the beginnings of keys.
func (m *month) countStore(counts map[string]float64) {
	m.Helper()
	socket := filepath.Join(m.Dir, "store", "store.sock")
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix:store"}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		})}})
	m.must(err)
	defer c.Close()
	ctx := m.within(seenLimit)
	all, err := c.Get(ctx, "", clientv3.WithPrefix())
	m.must(err)
	for _, kv := range all.Kvs {
		group := groupOf(string(kv.Key))
		counts["store keys: "+group]++
		counts["store bytes: "+group] += float64(len(kv.Key) + len(kv.Value))
	}
	st, err := c.Status(ctx, "unix:store")
	m.must(err)
	counts["store database bytes"] = float64(st.DbSize)
}

// groupOf is the beginning of a key that says what it holds.
func groupOf(key string) string {
	parts := strings.Split(strings.TrimPrefix(key, "/cke/"), "/")
	if parts[0] == "clusters" && len(parts) > 2 {
		return strings.Join(parts[:3], "/")
	}
	return parts[0]
}

// countNodes counts what the nodes' engines carry, and processes of sshd: one that is left over is a connection that leaked.
func (m *month) countNodes(counts map[string]float64) {
	m.Helper()
	names := []string{"node containers", "node volumes", "node images", "node sshd processes"}
	for _, n := range m.nodes {
		out := strings.Fields(m.on(n, "docker ps -aq | wc -l; docker volume ls -q | wc -l; docker images -aq | wc -l; grep -l '^sshd' /proc/[0-9]*/comm | wc -l"))
		if len(out) != len(names) {
			m.Fatalf("%s: %q", n.Name, out)
		}
		for i, name := range names {
			v, err := strconv.ParseFloat(out[i], 64)
			m.must(err)
			counts[name] += v
		}
	}
}

// countProcess counts what the daemon uses.
func (m *month) countProcess(counts map[string]float64) {
	m.Helper()
	proc := fmt.Sprint("/proc/", m.daemon.Pid())
	open, err := os.ReadDir(proc + "/fd")
	m.must(err)
	counts["daemon files"] = float64(len(open))
	status, err := os.ReadFile(proc + "/status")
	m.must(err)
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		number, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
		switch name {
		case "VmRSS":
			counts["daemon resident bytes"] = number * 1024
		case "Threads":
			counts["daemon threads"] = number
		}
	}
	resp, err := http.Get("http://" + m.HTTP + "/metrics")
	m.must(err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	m.must(err)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		counts["metrics series"]++
		if number, is := strings.CutPrefix(line, "go_goroutines "); is {
			counts["daemon goroutines"], _ = strconv.ParseFloat(strings.TrimSpace(number), 64)
		}
	}
}

// backupsSeen are the objects of backups that were ever there when somebody looked.
type backupsSeen struct {
	fulls, deltas, drills map[string]bool
	present               int
}

func (b *backupsSeen) see(dir string) {
	if b.fulls == nil {
		b.fulls, b.deltas, b.drills = map[string]bool{}, map[string]bool{}, map[string]bool{}
	}
	b.present = 0
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // pruned a moment ago
		}
		for kind, seen := range map[string]map[string]bool{"/full/": b.fulls, "/delta/": b.deltas} {
			if strings.Contains(path, kind) {
				seen[path] = true
				b.present++
			}
		}
		return nil
	})
}

func (b *backupsSeen) verified(at string) { b.drills[at] = true }

// show logs what was done, and fails if a kind of work was never done.
func (b *backupsSeen) show(t *testing.T) {
	t.Helper()
	pruned := len(b.fulls) + len(b.deltas) - b.present
	t.Logf("seen: %d fulls, %d deltas, %d drills; %d objects pruned", len(b.fulls), len(b.deltas), len(b.drills), pruned)
	if len(b.fulls) == 0 || len(b.deltas) == 0 || len(b.drills) == 0 || pruned == 0 {
		t.Error("some kind of work was never done")
	}
}

// A figure that grows without a bound is told from one that comes to its measure, and from one that goes up and down.
func TestMonth_TellsWhatGrows(t *testing.T) {
	steady, grows, rises, waves := make([]float64, 100), make([]float64, 100), make([]float64, 100), make([]float64, 100)
	for i := range 100 {
		steady[i], grows[i], rises[i], waves[i] = 50, float64(50+i), float64(min(i*5, 100)), float64(50+i%7)
	}
	for name, tt := range map[string]struct {
		f      figure
		counts []float64
		grows  bool
	}{
		"steady": {figure{}, steady, false}, "grows": {figure{}, grows, true}, "comes to its measure": {figure{}, rises, false},
		"goes up and down": {figure{slack: 7}, waves, false}, "grows within its bound": {figure{atMost: 150}, grows, false},
		"grows beyond its bound": {figure{atMost: 140}, grows, true},
	} {
		if got := tt.f.of(tt.counts); got.grows != tt.grows {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
