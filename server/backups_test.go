package server_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"cke"
	"cke/server"
	"cke/server/strategy/scenes"
)

// stageBackups are backups that do as they are told.
type stageBackups struct {
	mu      sync.Mutex
	wanted  []cke.BackupWanted
	full    func(ctx context.Context) (cke.StoredBackup, error)
	asked   int
	ran     int
	ended   bool
	slowEnd time.Duration
	changed chan struct{}
	status  *cke.BackupStatus // nil: as it should be
	none    bool              // there is no status
}

var _ server.Backups = (*stageBackups)(nil)

func (b *stageBackups) Update(w cke.BackupWanted) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wanted = append(b.wanted, w)
}

func (b *stageBackups) last() cke.BackupWanted {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.wanted[len(b.wanted)-1]
}

func (b *stageBackups) Run(ctx context.Context) {
	b.mu.Lock()
	b.ran++
	b.mu.Unlock()
	<-ctx.Done()
	time.Sleep(b.slowEnd)
	b.mu.Lock()
	b.ended = true
	b.mu.Unlock()
}

func (b *stageBackups) Changed() <-chan struct{} { return b.changed }

func (b *stageBackups) Status() *cke.BackupStatus {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.status != nil || b.none {
		return b.status
	}
	return scenes.SoundBackups()
}

func (b *stageBackups) Full(ctx context.Context) (cke.StoredBackup, error) {
	b.mu.Lock()
	b.asked++
	b.mu.Unlock()
	return b.full(ctx)
}

func (b *stageBackups) Flush(ctx context.Context) (cke.StoredBackup, error) { return b.full(ctx) }

func TestLoop_ABackupWaitsForItsTargetAndHoldsNothingUp(t *testing.T) {
	onStage(t, formed(3), func(g *stage) {
		b := &stageBackups{full: func(ctx context.Context) (cke.StoredBackup, error) {
			return cke.StoredBackup{}, hang(ctx)
		}}
		g.backups = b
		p := g.perform()
		g.change(func() { p.term.requests.Tasks = []cke.Task{scenes.Asked(cke.TaskBackup, "")} })
		p.term.wake()
		g.pass(10 * time.Second)
		if s := g.status(); s.Operation == nil || s.Operation.Type != "backup" || s.Health != cke.HealthReady {
			t.Fatalf("%s, operation %+v", s.Health, s.Operation)
		}
		g.change(func() { g.scene.stopped(3) })
		g.pass(20 * time.Second)
		if told := strings.Join(g.told(), "; "); !strings.Contains(told, "1 backup interrupted; 2 start-members completed; 3 backup running") {
			t.Errorf("records: %s", told)
		}
		b.mu.Lock()
		b.full = func(context.Context) (cke.StoredBackup, error) {
			return cke.StoredBackup{ID: "life/1", Revision: 7}, nil
		}
		b.mu.Unlock()
		p.over()
	})
}

func TestLoop_PutsTheBackupIntoTheRecordAndEndsTheTask(t *testing.T) {
	for name, row := range map[string]struct {
		err   error
		state cke.RecordState
		code  cke.Code
	}{
		"stored": {nil, cke.RecordCompleted, ""},
		"failed": {&cke.Error{Code: cke.CodeTarget, What: "no room"}, cke.RecordFailed, cke.CodeTarget},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, formed(3), func(g *stage) {
				g.backups = &stageBackups{full: func(context.Context) (cke.StoredBackup, error) {
					return cke.StoredBackup{Kind: "full", ID: "life/1", Revision: 7, Size: 10}, row.err
				}}
				p := g.perform()
				g.change(func() { p.term.requests.Tasks = []cke.Task{scenes.Asked(cke.TaskBackup, "")} })
				p.term.wake()
				g.pass(time.Minute)
				if len(g.told()) != 1 || len(p.term.Requests().Tasks) != 0 {
					t.Fatalf("records %q, tasks %+v", g.told(), p.term.Requests().Tasks)
				}
				r := g.records[0]
				if r.State != row.state || r.Code != row.code || r.Task != "t1" || (row.err == nil) != (r.Backup != nil && r.Backup.Revision == 7) {
					t.Errorf("%+v", r)
				}
				if s := g.status(); s.Health != cke.HealthReady {
					t.Errorf("%s: %s", s.Health, s.Reason)
				}
				p.over()
			})
		})
	}
}

func TestLoop_TellsBackupsWhatIsWantedAndWhenTheyRest(t *testing.T) {
	hibernated := func(s *scene) { s.lost() }
	for name, row := range map[string]struct {
		scene    *scene
		requests cke.Requests
		idle     string
	}{
		"formed":           {formed(3), cke.Requests{}, ""},
		"paused":           {formed(3), cke.Requests{Hold: &cke.Hold{Reason: "switch"}}, ""},
		"no quorum":        {formed(3).stopped(1, 2, 3).lost(), cke.Requests{Hold: &cke.Hold{Reason: "switch"}}, ""},
		"to be hibernated": {formed(3), cke.Requests{Hibernation: &cke.Hibernation{}, Hold: &cke.Hold{Reason: "wait"}}, ""},
		"hibernated":       {formed(3).with(hibernated), cke.Requests{Hibernation: &cke.Hibernation{}, Hold: &cke.Hold{Reason: "wait"}}, "hibernated"},
		"forming":          {forming(3, true), cke.Requests{}, "bootstrapped"},
		"another id":       {formed(3).with(func(s *scene) { s.endpoint(2).ClusterID = "c2" }), cke.Requests{}, "frozen"},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, row.scene, func(g *stage) {
				b := &stageBackups{}
				g.backups = b
				g.storeDo = func(_ context.Context, call string) error {
					if strings.HasPrefix(call, "append") {
						return errors.New("nothing is to be done") // what is seen stays as it is
					}
					return nil
				}
				p := g.performAsking(row.requests)
				w := b.last()
				if (w.Idle == "") != (row.idle == "") || !strings.Contains(w.Idle, row.idle) || w.Identity.Incarnation == nil || w.Spec.Cluster.Name != "demo" {
					t.Errorf("idle %q", w.Idle)
				}
				p.over()
			})
		})
	}
}

// performAsking starts a loop in whose term people ask for something from the beginning.
func (g *stage) performAsking(r cke.Requests) *performance {
	p := g.perform()
	g.change(func() { p.term.requests = r })
	p.term.wake()
	g.pass(time.Second)
	return p
}

func TestDaemon_BackupsEndWithTheTermAndHoldItUpForABoundedTime(t *testing.T) {
	for name, slow := range map[string]time.Duration{"at once": 0, "too slowly": time.Minute} {
		t.Run(name, func(t *testing.T) {
			b := &stageBackups{slowEnd: slow}
			governWith(t, b, func(c *country) {
				one := c.stage("one")
				c.stage("one").pass(time.Second)
				if b.ran != 1 || len(b.wanted) == 0 {
					t.Fatalf("ran %d times, told %d times", b.ran, len(b.wanted))
				}
				one.led().askToResign()
				one.led().wake()
				c.stage("one").pass(4 * time.Second)
				if one.led().number != 2 && slow == 0 {
					t.Errorf("term %d goes on", one.led().number)
				}
				if slow > 0 && c.logged("the last changes may not be in the backup target") != 1 {
					t.Error("nothing was said of a target that does not answer")
				}
				b.mu.Lock()
				b.slowEnd = 0
				b.mu.Unlock()
				one.pass(2 * time.Minute) // what was left behind ends
			}, "one")
		})
	}
}

func TestMetrics_OfBackupsAreThereWhileThereIsATarget(t *testing.T) {
	b := &stageBackups{}
	var metrics *server.Metrics
	governWith(t, b, func(c *country) {
		metrics = c.metrics
		c.stage("one").pass(time.Second)
		for name, want := range map[string]float64{
			"cke_backup_full_timestamp_seconds": float64(noon.Add(-time.Hour).Unix()), "cke_backup_revision": 120, "cke_backup_ready": 0,
			"cke_backup_verified_timestamp_seconds": 0, "cke_backup_lag_seconds": 0, "cke_backup_lag_revisions": 0, "cke_backup_buffered_bytes": 0,
		} {
			if got := gathered(t, metrics, name); len(got) != 1 || got[0] != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
	}, "one")
	if got := gathered(t, metrics, "cke_backup_revision"); len(got) != 0 {
		t.Errorf("after the term: %v", got)
	}
}

// Whatever a target answers, it gets into no label, and figures do not become more with every new answer.
func TestMetrics_OfATargetThatFailsHaveBoundedLabels(t *testing.T) {
	answers := []string{"", "no space left on device", "line\nbreak \"quoted\" {le=\"1\"}", "\xff\xfe not UTF-8", strings.Repeat("long ", 10_000),
		"request id 0A1B2C3D", "request id 4E5F6071", "кончилось место"}
	b := &stageBackups{}
	b.full = func(context.Context) (cke.StoredBackup, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		return cke.StoredBackup{}, errors.New(b.status.Problem.Message)
	}
	governWith(t, b, func(c *country) {
		one := c.stage("one")
		one.pass(time.Second)
		count := 0
		for i, text := range answers {
			failing := scenes.SoundBackups()
			failing.Problem = &cke.BackupTrouble{Work: "take", Code: cke.CodeTarget, Message: text, Since: noon}
			failing.Troubles = []cke.BackupTrouble{{Work: text, Code: cke.CodeTarget, Message: text, Since: noon}}
			failing.Target, failing.Lineage, failing.Full.ID = text, text, text
			b.mu.Lock()
			b.status = failing
			b.mu.Unlock()
			task := scenes.Asked(cke.TaskBackup, "")
			task.ID = fmt.Sprint("t", i)
			led := one.led()
			one.change(func() { led.requests.Tasks = []cke.Task{task} })
			led.wake()
			one.pass(time.Minute)
			if got := gathered(t, c.metrics, "cke_backup_ready"); len(got) != 1 || got[0] != 0 {
				t.Errorf("%q: ready is %v", text, got)
			}
			series := boundedLabels(t, c.metrics)
			if i > 0 && series != count {
				t.Errorf("%q: %d series after %d", text, series, count)
			}
			count = series
		}
	}, "one")
	if b.asked < len(answers) {
		t.Errorf("of %d backups %d failed", len(answers), b.asked)
	}
}

// boundedLabels counts the series of a scrape, and sees that their labels have only values of which there are few.
func boundedLabels(t *testing.T, m *server.Metrics) (series int) {
	t.Helper()
	allowed := map[string]*regexp.Regexp{
		"cluster": regexp.MustCompile("^one$"), "operation": regexp.MustCompile("^[a-z-]+$"),
		"state": regexp.MustCompile("^(" + strings.Join(cke.Outcomes(), "|") + "|queued|leased|rebooting|repairing|returning|skipped)$"), "cause": regexp.MustCompile("^[a-z]+$"), "condition": regexp.MustCompile("^[A-Za-z]+$"),
		"health": regexp.MustCompile("^[A-Z]+$"), "code": regexp.MustCompile(`^CKE\d+$`), "work": regexp.MustCompile("^(take|list|older|beside|compact|prune|verify)$"),
		"node": regexp.MustCompile(`^n\d$`), "member": regexp.MustCompile(`^n\d$`), "role": regexp.MustCompile("^(leader|follower|learner|-)$"),
		"zone": regexp.MustCompile(`^rack\d$`), "result": regexp.MustCompile("^(connected|failed|done|canceled|undeclared)$"), "version": regexp.MustCompile(`^1\.2\.3$`), "goversion": regexp.MustCompile("^go"),
		"reason": regexp.MustCompile("^(prefer|balance|stop|unreachable)$"),
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(scrape(t, m)))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			series++
			for _, l := range m.GetLabel() {
				if is := allowed[l.GetName()]; is == nil || !is.MatchString(l.GetValue()) {
					t.Errorf("%s has the label %s=%.50q", f.GetName(), l.GetName(), l.GetValue())
				}
			}
		}
	}
	return series
}

// gathered are the values of a figure.
func gathered(t *testing.T, m *server.Metrics, name string) []float64 {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(scrape(t, m)))
	if err != nil {
		t.Fatal(err)
	}
	var values []float64
	for _, m := range families[name].GetMetric() {
		values = append(values, m.GetGauge().GetValue())
	}
	return values
}

// The keeper is told what the target was before the section was taken out.
func TestLoop_TellsBackupsWhatTheTargetWasOnceTheSectionIsBack(t *testing.T) {
	onStage(t, formed(3), func(g *stage) {
		b := &stageBackups{}
		g.backups = b
		section := func(url string, status *cke.BackupStatus) {
			b.mu.Lock()
			b.status, b.none = status, status == nil
			b.mu.Unlock()
			g.change(func() { g.scene.Spec.Backup.Target = url })
		}
		section("file:///mnt/nfs/etcd", &cke.BackupStatus{Target: "file:///mnt/nfs/etcd", TargetID: "M1"})
		p := g.perform()
		g.pass(time.Minute)
		section("", nil)
		g.pass(time.Minute)
		section("file:///mnt/nfs/etcd", &cke.BackupStatus{Target: "file:///mnt/nfs/etcd"})
		g.pass(time.Minute)
		if w := b.last(); w.Spec.Cluster.Backup.Target == "" || w.TargetID != "M1" {
			t.Errorf("%q is known by %q", w.Spec.Cluster.Backup.Target, w.TargetID)
		}
		p.over()
	})
}

// A status that could not be read when the term began is not overwritten before it was: what it alone knows would be forgotten.
func TestLoop_ForgetsNoTargetWhileTheStoreDoesNotAnswer(t *testing.T) {
	onStage(t, formed(3), func(g *stage) {
		b := &stageBackups{}
		g.backups = b
		url := "file:///mnt/nfs/etcd"
		life := g.scene.Identity.Incarnation.ID
		b.status = &cke.BackupStatus{Target: url, TargetID: "M1", Lineage: life, Revision: 7, Connected: true}
		g.change(func() { g.scene.Spec.Backup.Target = url })
		p := g.perform()
		g.pass(time.Minute)
		p.over()
		b.mu.Lock()
		b.status = &cke.BackupStatus{Target: url}
		b.mu.Unlock()
		down := true
		g.storeDo = func(_ context.Context, call string) error {
			if down && call == "status" {
				return &cke.Error{Code: cke.CodeStore, What: "the store does not answer"}
			}
			return nil
		}
		p = g.perform()
		g.pass(time.Minute)
		g.change(func() { down = false })
		g.pass(time.Minute)
		s := g.status()
		if revision, stored := s.Stored(url, life); s.TargetID(url) != "M1" || !stored || revision != 7 || b.last().TargetID != "M1" || b.last().Stored != 7 {
			t.Errorf("%+v, the keeper is told %q, %d", s.Targets, b.last().TargetID, b.last().Stored)
		}
		if s.Leader != p.term.Leader() {
			t.Errorf("the status is that of %+v", s.Leader)
		}
		p.over()
	})
}

// Until it is known what a target was, backups are told nothing: a directory over which nothing is mounted would be taken for a new one.
func TestLoop_TellsBackupsNothingBeforeTheStatusWasRead(t *testing.T) {
	for name, row := range map[string]struct {
		err  error
		told bool
	}{
		"the store does not answer": {&cke.Error{Code: cke.CodeStore, What: "the store does not answer"}, false},
		"of no code":                {errors.New("read the status of prod: rpc error: code = Unknown"), false},
		"not ours to read":          {context.DeadlineExceeded, false},
		"there is none":             {cke.ErrNotFound, true},
		"it cannot be decoded":      {fmt.Errorf("decode status/prod: %w", cke.ErrMalformed), true},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, formed(3), func(g *stage) {
				b := &stageBackups{none: true}
				g.backups = b
				url := "file:///mnt/nfs/etcd"
				g.change(func() { g.scene.Spec.Backup.Target = url })
				down := true
				g.storeDo = func(_ context.Context, call string) error {
					if down && call == "status" {
						return row.err
					}
					return nil
				}
				p := g.perform()
				g.pass(time.Minute)
				b.mu.Lock()
				told := len(b.wanted) > 0
				b.mu.Unlock()
				if told != row.told {
					t.Errorf("backups are told what is wanted: %v", told)
				}
				g.change(func() { down = false })
				g.pass(time.Minute)
				if w := b.last(); w.Spec.Cluster.Backup.Target != url {
					t.Errorf("once it was read: %+v", w.Spec.Cluster.Backup)
				}
				p.over()
			})
		})
	}
}
