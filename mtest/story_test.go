package mtest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"cke"
	"cke/clusterfile"
	"cke/mtest/lab"
	"cke/mtest/rig"
)

// Limits of waits. They are far above what is usual, so that a busy machine fails no test; tests log what it took.
const (
	storyLimit = 12 * time.Minute
	seenLimit  = 2 * time.Minute  // until something is in the status
	readyLimit = 4 * time.Minute  // until the cluster is ready
	stopLimit  = 15 * time.Second // of a daemon that was asked to stop: 5 s are promised where the disk takes what is written
)

// story is a management host and its nodes, with the questions that tests ask. What fails ends the test.
type story struct {
	*testing.T
	*rig.Rig
	ctx   context.Context // ends after storyLimit
	nodes []lab.Node
}

// newStory borrows n nodes and makes a management host for a cluster on them. Nothing is started.
func newStory(t *testing.T, n int) *story {
	t.Helper()
	return storyOn(t, borrow(t, n), n)
}

// borrow borrows nodes for a story that is told beside others: most of the time each of them waits for something.
func borrow(t *testing.T, n int) *lab.Lab {
	t.Helper()
	t.Parallel()
	return pool.Lab(t, n)
}

// storyOn makes a management host for a cluster on the first n nodes of a lab.
func storyOn(t *testing.T, l *lab.Lab, n int) *story {
	t.Helper()
	r, err := rig.New(t.TempDir(), bin, l, "prod")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), storyLimit)
	t.Cleanup(cancel)
	return &story{T: t, Rig: r, ctx: ctx, nodes: l.Nodes()[:n]}
}

// part runs a part of a story; the rest makes no sense once one has failed.
func (s *story) part(name string, f func(*story)) {
	s.Helper()
	ok := s.Run(name, func(t *testing.T) {
		began := time.Now()
		f(&story{T: t, Rig: s.Rig, ctx: s.ctx, nodes: s.nodes})
		t.Logf("took %s", since(began))
	})
	if !ok {
		s.FailNow()
	}
}

func (s *story) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func since(t time.Time) time.Duration { return time.Since(t).Round(time.Millisecond) }

// within returns a context that ends after limit.
func (s *story) within(limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	s.Cleanup(cancel)
	return ctx
}

// daemon starts cke; the process ends with the test, and its log is shown if that failed.
func (s *story) daemon(name string, args ...string) *rig.Daemon {
	s.Helper()
	d, err := s.StartDaemon(s.ctx, name, args...)
	s.must(err)
	s.watch(name, d)
	return d
}

// launch starts cke and does not wait for anything.
func (s *story) launch(name string, args ...string) *rig.Daemon {
	s.Helper()
	d, err := s.Launch(name, args...)
	s.must(err)
	s.watch(name, d)
	return d
}

func (s *story) watch(name string, d *rig.Daemon) {
	s.Cleanup(func() {
		d.Kill()
		if err := d.Races(); err != nil {
			s.Error(err)
		}
		if s.Failed() {
			s.Logf("the log of %s:\n%s", name, d.LogText())
		}
	})
}

// do runs ckecli, which has to succeed, and returns its stdout. A command that is refused because members, or the store, do not answer for
// a moment, which those of a busy machine do, has changed nothing and is given again.
func (s *story) do(args ...string) string {
	s.Helper()
	var out string
	s.must(s.patiently(func() (err error) {
		out, err = s.Do(s.ctx, args...)
		return err
	}))
	return out
}

// patiently does something again while it is refused because members do not answer for a moment, and returns how it ended.
func (s *story) patiently(try func() error) error {
	s.Helper()
	for ctx := s.within(readyLimit); ; {
		err := try()
		if err == nil || !refusedForNow(err) {
			return err
		}
		s.Logf("again: %v", err)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Second):
		}
	}
}

func refusedForNow(err error) bool {
	said := err.Error()
	return strings.Contains(said, "exit code 6: waiting: ") || strings.Contains(said, "would lose quorum") || strings.Contains(said, "open the store: ")
}

// refused runs ckecli, which has to end with this exit code and say each of the words on stderr. Where it is refused for another
// reason, that members do not answer for a moment, it is run again.
func (s *story) refused(code int, words []string, args ...string) {
	s.Helper()
	var res rig.Result
	_ = s.patiently(func() (err error) { // how it ended is judged below
		res, err = s.CLI(s.ctx, args...)
		s.must(err)
		unsaid := slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(res.Stderr, w) })
		if res.Code == code && !unsaid {
			return nil
		}
		return fmt.Errorf("exit code %d: %s", res.Code, strings.TrimSpace(res.Stderr))
	})
	if res.Code != code {
		s.Errorf("ckecli %s: exit code %d, want %d: %s", strings.Join(args, " "), res.Code, code, res.Stderr)
	}
	for _, w := range words {
		if !strings.Contains(res.Stderr, w) {
			s.Errorf("ckecli %s does not say %q: %s", strings.Join(args, " "), w, res.Stderr)
		}
	}
}

// spec is a cluster file for all nodes of the story.
func (s *story) spec() cke.Cluster {
	c := s.Spec(len(s.Lab.Nodes()))
	c.Nodes = slices.DeleteFunc(c.Nodes, func(n cke.Node) bool {
		return !slices.ContainsFunc(s.nodes, func(mine lab.Node) bool { return mine.Address == n.Address })
	})
	return c
}

// set stores a cluster file, does not follow the work, and returns the revision.
func (s *story) set(c cke.Cluster) int64 {
	s.Helper()
	path, err := s.WriteSpec(c)
	s.must(err)
	revision, err := strconv.ParseInt(strings.TrimSpace(s.do("cluster", "set", "--no-wait", "--yes", path)), 10, 64)
	s.must(err)
	return revision
}

// nudge stores the present file with another label, which changes nothing, and waits until the leader has taken note:
// what the status says then is fresh.
func (s *story) nudge() cke.Status {
	s.Helper()
	c, _, err := clusterfile.ParseCluster("cluster.yml", []byte(s.do("cluster", "get")))
	s.must(err)
	c.Nodes[0].Labels = map[string]string{"nudged": fmt.Sprint(time.Now().UnixNano())}
	revision := s.set(c)
	return s.await("the leader to take note of a nudge", seenLimit, func(st cke.Status) bool { return st.Generation >= revision })
}

// setKey stores the SSH key that the nodes accept.
func (s *story) setKey() {
	s.Helper()
	s.must(s.SetSSHKey(s.ctx))
}

// found brings the cluster up, from nothing to ready, and returns its status.
func (s *story) found() cke.Status {
	s.Helper()
	s.setKey()
	s.set(s.spec())
	return s.ready()
}

// ready waits until the cluster is ready.
func (s *story) ready() cke.Status {
	s.Helper()
	return s.await("the cluster to be ready", readyLimit, rig.Ready)
}

// await waits until the status is as wanted, and logs how long that took.
func (s *story) await(what string, limit time.Duration, ok func(cke.Status) bool) cke.Status {
	s.Helper()
	began := time.Now()
	st, err := s.Await(s.within(limit), what, ok)
	s.must(err)
	s.Logf("%s: after %s", what, since(began))
	return st
}

// now returns the status that was told last. A store whose disk is busy does not answer every time.
func (s *story) now() cke.Status {
	s.Helper()
	return s.await("the status", seenLimit, func(cke.Status) bool { return true })
}

// awaitProblem waits until the status names a problem of this code at the node ("" for none), and returns it.
func (s *story) awaitProblem(node string, code cke.Code) cke.Problem {
	s.Helper()
	st := s.await(fmt.Sprintf("%s of %q to be told", code, node), seenLimit, func(st cke.Status) bool {
		_, told := problemOf(st, node, code)
		return told
	})
	p, _ := problemOf(st, node, code)
	return p
}

func problemOf(st cke.Status, node string, code cke.Code) (cke.Problem, bool) {
	for _, p := range st.Problems {
		if p.Node == node && p.Code == code {
			return p, true
		}
	}
	return cke.Problem{}, false
}

// awaitStep waits until a step of this name has begun in a running operation.
func (s *story) awaitStep(step string) {
	s.Helper()
	s.must(s.Follow(s.within(seenLimit), rig.StepBegun(step)))
}

// when does something as soon as a record that is still to come is in a state, and tells when it is done. It returns once
// the history is followed, if there is any.
func (s *story) when(ctx context.Context, begun func(cke.Record) bool, do func() error) <-chan error {
	s.Helper()
	newest := int64(0)
	if all := s.records(); len(all) > 0 {
		newest = all[0].ID
	}
	follows, done := make(chan struct{}), make(chan error, 1)
	begins := sync.OnceFunc(func() { close(follows) })
	go func() {
		defer begins()
		var err error
		if f := s.patiently(func() error {
			return s.Follow(ctx, func(r cke.Record) bool {
				if r.ID == newest {
					begins()
				}
				if r.ID <= newest || !begun(r) {
					return false
				}
				err = do()
				return true
			})
		}); f != nil {
			err = f
		}
		done <- err
	}()
	if newest > 0 {
		<-follows
	}
	return done
}

// records returns all that was done, newest first.
func (s *story) records() []cke.Record {
	s.Helper()
	var all []cke.Record
	s.must(s.patiently(func() (err error) {
		all, err = s.Records(s.ctx, 0)
		return err
	}))
	return all
}

// cleanly runs end when the test ends, whatever the story's own context says.
func (s *story) cleanly(end func(context.Context) error) {
	s.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := end(ctx); err != nil && !errors.Is(err, lab.ErrNotRunning) {
			s.Logf("tidying up: %v", err)
		}
	})
}

// file writes text into the management host's directory and returns the path.
func (s *story) file(name, text string) string {
	s.Helper()
	path := s.Dir + "/" + name
	s.must(os.WriteFile(path, []byte(text), 0o600))
	return path
}
