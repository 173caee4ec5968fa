package op_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/op"
)

// large are machines whose members have a database of this size.
type large struct {
	cke.Machines
	size int64
}

func (l large) Machine(n cke.Node) cke.Machine { return largeMachine{l.Machines.Machine(n), l.size} }

type largeMachine struct {
	cke.Machine
	size int64
}

func (l largeMachine) DataSize(context.Context, cke.Join) (int64, error) { return l.size, nil }

func ofSize(size int64) func(op.Env) op.Env {
	return func(e op.Env) op.Env { e.Machines = large{e.Machines, size}; return e }
}

// A member with a large database takes long to serve after a start: no fault, and no reason to stop it again.
func TestRestartMember_WaitsForALargeDatabase(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		j := w.joins()[2]
		next := j.Etcd
		next.ExtraArgs = []string{"--quota-backend-bytes=8589934592"}
		w.Node("n3").SlowStart(90 * time.Second)
		if _, err := w.runIn(ofSize(4<<30), op.RestartMember{Join: j, Etcd: next}); err != nil {
			t.Error(err)
		}
	})
}

// What does not answer and has little data to read has failed, however long it takes: others may be needed.
func TestRestartMember_WaitsForASmallDatabaseNoLongerThanBefore(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		j := w.joins()[2]
		w.Node("n3").SlowStart(time.Hour)
		began := time.Now()
		if _, err := w.runIn(ofSize(8<<20), op.RestartMember{Join: j, Etcd: j.Etcd}); cke.CodeOf(err) != cke.CodeMemberSilent {
			t.Error(err)
		}
		if took := time.Since(began); took < 20*time.Second || took > 25*time.Second {
			t.Errorf("it was waited for %s", took)
		}
	})
}

// A member that serves too late to be waited for is not started for its snapshot once more: it has written it.
func TestRestartMember_StartsASlowMemberForItsSnapshotOnlyOnce(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		founding := w.bootstrap(false)
		founding.Spec.Options.Etcd.Version = "3.6.16"
		w.mustRun(founding)
		next := w.joins()[2].Etcd
		next.Version = "3.7.3"
		w.Node("n3").SlowStart(25 * time.Second)
		for range 3 {
			if _, err := w.run(op.RestartMember{Join: w.joins()[2], Etcd: next}); err != nil && !strings.Contains(err.Error(), "does not serve yet") {
				t.Fatal(err)
			}
			time.Sleep(30 * time.Second)
			if w.joins()[2].Etcd.Equal(next) {
				break
			}
		}
		if got := w.joins()[2].Etcd; got.Version != "3.7.3" || len(got.ExtraArgs) > 0 {
			t.Errorf("it runs as %s %v after three attempts", got.Version, got.ExtraArgs)
		}
		if n := w.calls("StopContainer on n3"); n > 2 {
			t.Errorf("it was stopped %d times:\n%s", n, strings.Join(w.trace, "\n"))
		}
	})
}
