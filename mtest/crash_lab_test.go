package mtest_test

import (
	"slices"
	"testing"

	"cke"
	"cke/mtest/rig"
)

func TestLabCrash_OfTheDaemonInTheMiddleOfABootstrapEndsInOneCluster(t *testing.T) {
	for _, tt := range []struct {
		step string
		// replaced: another daemon waits to take over; else the same is started again.
		replaced bool
		rare     bool
	}{
		{"image", false, true},
		{"record-incarnation", true, false},
		{"prepare", false, true},
		{"record-start", true, true},
		{"start", false, false},
		{"serve", true, true},
		{"keep-running", false, true},
		{"record-formed", true, false},
	} {
		t.Run(tt.step, func(t *testing.T) {
			if tt.rare {
				rare(t)
			}
			s := newStory(t, 3)
			d := s.daemon("cke1")
			if tt.replaced {
				s.heir("cke2")
			}
			s.set(s.spec())
			s.awaitProblem(s.nodes[0].Name, cke.CodeNoSSHKey) // nothing can begin yet
			died := s.killAt(d, tt.step)
			s.setKey()
			s.must(<-died)
			if !tt.replaced {
				s.daemon("cke1")
			}
			s.ready()
			s.oneCluster()
			for _, r := range s.records() {
				if r.State == cke.RecordRunning || r.State == cke.RecordFailed {
					t.Errorf("operation %+v", r)
				}
				t.Logf("%d %s by %s in term %d: %s", r.ID, r.Operation, r.Host, r.Term, r.State)
			}
		})
	}
}

// killAt kills the daemon as soon as a step has started, and returns a channel that reports when it is dead. A last step that takes a few milliseconds may be seen only with
// the end of its operation.
func (s *story) killAt(d *rig.Daemon, step string) <-chan error {
	begun := func(r cke.Record) bool {
		return slices.ContainsFunc(r.Steps, func(s cke.StepRecord) bool { return s.Name == step })
	}
	return s.when(s.within(seenLimit), begun, func() error { d.Kill(); return nil })
}

// heir starts a second daemon on the same embedded store and waits until it says what it waits for.
func (s *story) heir(name string) *rig.Daemon {
	s.Helper()
	free, err := rig.FreeAddress()
	s.must(err)
	d := s.launch(name, "--http", free)
	s.must(d.AwaitLog(s.within(seenLimit), "takes over when that one exits"))
	return d
}

func TestLabCrash_OfAFounderInTheMiddleOfABootstrapIsWaitedFor(t *testing.T) {
	for _, step := range []string{"prepare", "start", "serve"} {
		t.Run(step, func(t *testing.T) {
			if step != "start" {
				rare(t)
			}
			s := newStory(t, 3)
			s.daemon("cke1")
			s.set(s.spec())
			s.awaitProblem(s.nodes[0].Name, cke.CodeNoSSHKey)
			founder := s.nodes[2]
			died := s.when(s.within(seenLimit), rig.StepBegun(step), func() error { return s.Lab.Kill(s.ctx, founder.Name) })
			s.setKey()
			s.must(<-died)
			s.awaitProblem(founder.Name, cke.CodeUnreachable)
			s.must(s.Lab.Start(s.ctx, founder.Name))
			s.ready()
			s.oneCluster()
		})
	}
}
