package op_test

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/op"
)

// inGrowing runs a test in a world of n+1 nodes with a formed cluster on the first n.
func inGrowing(t *testing.T, n int, f func(w *world, last cke.Node)) {
	t.Helper()
	inWorld(t, n+1, func(w *world) {
		c := w.cluster()
		c.Nodes = c.Nodes[:n]
		w.mustRun(op.Bootstrap{Spec: c, Founders: c.ControlPlane()})
		f(w, w.cluster().Nodes[n])
		if v := w.Violations(); v != nil {
			t.Error(strings.Join(v, "\n"))
		}
	})
}

func (w *world) add(n cke.Node) op.AddMember {
	return op.AddMember{Node: n, Etcd: w.cluster().Options.Etcd}
}

// resume is the operation that goes on with the membership on the last node.
func (w *world) resume(n cke.Node) op.AddMember {
	o := w.add(n)
	for _, j := range w.joins() {
		if j.Node.Address == n.Address {
			o.Resume = j.ID
		}
	}
	return o
}

func (w *world) joinOn(n cke.Node) cke.Join {
	for _, j := range w.joins() {
		if j.Node.Address == n.Address {
			return j
		}
	}
	w.t.Fatalf("no membership on %s", n.Name())
	return cke.Join{}
}

func (w *world) members() []cke.Member {
	_, members, err := w.daemon.Etcd().Members(w.daemon.Context(), w.joins()[0].ClientURL())
	if err != nil {
		w.t.Fatal(err)
	}
	return members
}

// Requirements A7, A12, A13, C10: added first, started then, promoted last.
func TestAddMember_AddsALearnerAndPromotionMakesItAVoter(t *testing.T) {
	inGrowing(t, 3, func(w *world, last cke.Node) {
		w.mustRun(w.add(last))
		if m := w.members(); len(m) != 4 || !m[3].Learner {
			t.Errorf("%+v", m)
		}
		w.mustRun(op.PromoteMember{Join: w.joinOn(last)})
		if m := w.members(); m[3].Learner {
			t.Errorf("%+v", m)
		}
		if w.happened("store.PutJoins") > w.happened("etcd.AddLearner") {
			t.Error("the learner is added before its membership is recorded")
		}
		if added, started := w.happened("etcd.AddLearner"), w.happened("StartContainer on n4"); added > started || started > w.happened("etcd.Promote") {
			t.Error("it is to be added, then started, then promoted")
		}
	})
}

// A learner whose announcement was lost with the snapshot repeats it after 7 s; its database tells sooner that it is there.
func TestAddMember_StartsALearnerAnewWhoseAnnouncementWasLost(t *testing.T) {
	inGrowing(t, 3, func(w *world, last cke.Node) {
		began := time.Now()
		_, err := op.Run(w.daemon.Context(), op.Env{
			Cluster: "demo", Machines: bulky{w.daemon.Machines()}, Etcd: unheard{w.daemon.Etcd(), w}, Authority: w.daemon.Authority(),
			Ledger: w.daemon.Term(), Now: time.Now, Pause: pause, Log: slog.New(slog.DiscardHandler),
		}, w.daemon.Term(), cke.Record{}, w.add(last))
		if took := time.Since(began); err != nil || took > 2*time.Second {
			t.Errorf("added after %s: %v", took, err)
		}
	})
}

// bulk is the size of databases in bytes.
const bulk = 200 << 20

// bulky are machines with large databases.
type bulky struct{ cke.Machines }

func (b bulky) Machine(n cke.Node) cke.Machine { return bulkyMachine{b.Machines.Machine(n)} }

type bulkyMachine struct{ cke.Machine }

func (bulkyMachine) DataSize(context.Context, cke.Join) (int64, error) { return bulk, nil }

// unheard is an etcd of which the learner's announcement is lost until it is started for the second time.
type unheard struct {
	cke.Etcd
	w *world
}

func (u unheard) lost() bool {
	starts := 0
	for _, s := range u.w.trace {
		if strings.Contains(s, "StartContainer on n4") {
			starts++
		}
	}
	return starts < 2
}

func (u unheard) Endpoint(ctx context.Context, url string) cke.EndpointStatus {
	s := u.Etcd.Endpoint(ctx, url)
	if s.DBSizeInUse = bulk; s.Learner && u.lost() {
		return cke.EndpointStatus{URL: url, Problem: "connection refused"}
	}
	return s
}

func (u unheard) Members(ctx context.Context, url string) (string, []cke.Member, error) {
	id, members, err := u.Etcd.Members(ctx, url)
	for i := range members {
		if members[i].Learner && u.lost() {
			members[i].Name = ""
		}
	}
	return id, members, err
}

// Requirements A8, I9, N3, N4: the arguments fit the present member list, or etcd ends.
func TestAddMember_ResumesFromEveryStep(t *testing.T) {
	for _, step := range []string{"record-join", "add-learner", "prepare", "start", "receive-data", "serve"} {
		inGrowing(t, 3, func(w *world, last cke.Node) {
			w.runUntil(w.add(last), step)
			w.mustRun(w.resume(last))
			if m := w.members(); len(m) != 4 {
				t.Errorf("cut at %s: %+v", step, m)
			}
		})
	}
	for _, step := range []string{"prepare", "start"} { // what was prepared fits no longer
		inGrowing(t, 3, func(w *world, last cke.Node) {
			w.runUntil(w.add(last), step)
			w.Forget("n3")
			from := len(w.trace)
			w.mustRun(w.resume(last))
			m := w.members()
			if len(m) != 3 || m[2].ID != w.joinOn(last).MemberID || m[2].Name != last.Name() {
				t.Errorf("cut at %s: %+v", step, m)
			}
			if w.trace = w.trace[from:]; w.happened("etcd.Members") > w.happened("StartContainer on n4") {
				t.Errorf("cut at %s: started on the list of before", step)
			}
		})
	}
}

// Requirement N14: an id never runs on another one's data, nor on none.
func TestAddMember_GivesAFreshMembershipAVolumeOfItsOwn(t *testing.T) {
	for name, lose := range map[string]func(w *world){
		"emptied":       func(w *world) { w.Node("n3").EmptyVolumes() },
		"gone":          func(w *world) { w.Node("n3").RemoveVolumes() },
		"blank machine": func(w *world) { w.Node("n3").Blank() },
	} {
		inWorld(t, 3, func(w *world) {
			w.mustRun(w.bootstrap(false))
			node, was, listed := w.cluster().Nodes[2], w.joins()[2], w.members()[2]
			lose(w)
			w.mustRun(op.RemoveMember{Member: listed, Join: &was, Repair: true})
			if ended := w.Store().Identity().Ended; len(ended) != 1 || !ended[0].Repair {
				t.Errorf("%s: on record: %+v", name, ended)
			}
			_, before := w.Node("n3").Look()
			w.mustRun(w.add(node))
			w.mustRun(op.PromoteMember{Join: w.joinOn(node)})
			is := w.joinOn(node)
			if is.ID == was.ID || is.Volume == was.Volume || is.MemberID == was.MemberID || is.Repair {
				t.Errorf("%s: %+v after %+v", name, is, was)
			}
			containers, volumes := w.Node("n3").Look()
			if len(containers) != 1 || containers[0].Join != is.ID || len(volumes) != len(before)+1 {
				t.Errorf("%s: %+v %+v after %+v", name, containers, volumes, before)
			}
			if !w.Node("n3").Holds(is.Volume) || w.Node("n3").Holds(was.Volume) {
				t.Errorf("%s: the data is not where it belongs", name)
			}
			if v := w.Violations(); v != nil {
				t.Error(strings.Join(v, "\n"))
			}
		})
	}
}

// From its first start on a learner is started on what it wrote, or not at all.
func TestAddMember_RefusesALearnerThatForgot(t *testing.T) {
	for name, lose := range map[string]func(w *world){
		"blank machine": func(w *world) { w.Node("n4").Blank() },
		"volumes gone":  func(w *world) { w.Node("n4").RemoveVolumes() },
		"emptied":       func(w *world) { w.Node("n4").EmptyVolumes() },
	} {
		for _, step := range []string{"receive-data", "serve"} {
			inGrowing(t, 3, func(w *world, last cke.Node) {
				w.runUntil(w.add(last), step)
				lose(w)
				if _, err := w.run(w.resume(last)); !errors.Is(err, cke.ErrDataMissing) {
					t.Errorf("%s at %s: %v", name, step, err)
				}
			})
		}
	}
}

func TestRestartMember_DoesNotStopAMemberBesideAnotherLoss(t *testing.T) {
	for _, what := range []func(cke.Join) op.Operation{
		func(j cke.Join) op.Operation { return op.RestartMember{Join: j, Etcd: j.Etcd} },
		func(j cke.Join) op.Operation {
			return op.ChangeAddress{Join: j, Node: j.Node, ClientPort: 12379, PeerPort: 12380}
		},
		func(j cke.Join) op.Operation { return op.Defragment{Joins: []cke.Join{j}} },
	} {
		inWorld(t, 5, func(w *world) {
			w.mustRun(w.bootstrap(false))
			w.Node("n2").PowerOff()
			o := what(w.joins()[4])
			if _, err := w.run(o); cke.CodeOf(err) != cke.CodeQuorum {
				t.Errorf("%s: %v", o.Name(), err)
			}
			if containers, _ := w.Node("n5").Look(); !containers[0].Running() {
				t.Errorf("%s: stopped", o.Name())
			}
			w.Node("n2").PowerOn()
		})
	}
}

func TestRestartMember_AsksForTheArithmeticAgain(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		next := w.cluster().Options.Etcd
		next.ExtraArgs = []string{"--quota-backend-bytes=1"}
		o := op.RestartMember{Join: w.joins()[2], Etcd: next}
		w.Node("n2").PowerOff()
		if _, err := w.run(o); cke.CodeOf(err) != cke.CodeQuorum {
			t.Error(err)
		}
		if got := w.states(); got != "n1 running, n2 exited, n3 running" {
			t.Error(got)
		}
		w.Node("n2").PowerOn()
		w.mustRun(o)
		if got := w.joins()[2].Etcd.ExtraArgs; len(got) != 1 {
			t.Errorf("recorded: %v", got)
		}
	})
}

// etcd 3.7 cannot read what members of 3.5 wrote into the log about themselves: a snapshot has to stand behind that.
func TestRestartMember_MakesTheMemberWriteASnapshotBeforeAMinorThatCannotReadOldLogs(t *testing.T) {
	const plain = "image n3, try n3, move-leader n3, stop n3, start n3, serve n3"
	const twice = "image n3, try n3, move-leader n3, stop n3, snapshot n3, serve n3, move-leader n3, stop n3, start n3, serve n3"
	for _, tt := range []struct{ from, runs, to, steps string }{
		{"3.5.35", "", "3.6.16", plain},
		{"3.6.15", "", "3.6.16", plain},
		{"3.6.16", "", "3.7.3", twice},
		{"3.7.2", "", "3.7.3", plain},
		{"3.6.16", "3.7.3", "3.7.3", plain}, // the record is behind what runs: started as 3.6 it would not come up
		{"3.7.3", "3.6.16", "3.7.3", twice}, // it is ahead
	} {
		inWorld(t, 3, func(w *world) {
			founding := w.bootstrap(false)
			founding.Spec.Options.Etcd.Version = cmp.Or(tt.runs, tt.from)
			founding.Spec.Options.Etcd.ExtraArgs = []string{"--snapshot-count=5000"}
			w.mustRun(founding)
			id := w.Store().Identity()
			j := id.Joins[2]
			if j.Etcd.Version = tt.from; tt.runs != "" {
				if err := w.daemon.Term().PutJoins(w.daemon.Context(), id, j); err != nil {
					t.Fatal(err)
				}
			}
			next := j.Etcd
			next.Version = tt.to
			o := op.RestartMember{Join: w.joins()[2], Etcd: next, Runs: tt.runs, Image: next.Image}
			if tt.steps == twice { // also when the daemon dies between
				w.runUntil(o, "serve")
				if got := w.joins()[2].Etcd; got.Version != cmp.Or(tt.runs, tt.from) {
					t.Errorf("it is on record as %s before it runs that", got.Version)
				} else if !slices.Contains(got.ExtraArgs, "--snapshot-count=1") {
					t.Errorf("it runs so that it writes a snapshot after every entry, and nobody knows: %v", got.ExtraArgs)
				}
			}
			if got := steps(w.mustRun(o)); got != tt.steps {
				t.Errorf("from %s to %s: %s", tt.from, tt.to, got)
			}
			if got := w.joins()[2].Etcd; got.Version != tt.to || len(got.ExtraArgs) != 1 {
				t.Errorf("on record: %+v", got)
			}
		})
	}
}

// A new member asks at its first start who it is, and one that is behind would name the member that stood there before: it
// would start empty under that one's id.
func TestAddMember_IsNotToldByAMemberThatIsBehind(t *testing.T) {
	inWorld(t, 4, func(w *world) {
		w.mustRun(w.bootstrap(false))
		first, asked := w.joins()[0], w.Node("n2")
		asked.Trickle(true)
		w.mustRun(op.RemoveMember{Member: w.members()[0], Join: &first})
		n1 := w.cluster().Nodes[0]
		if _, err := w.run(w.add(n1)); !errors.Is(err, cke.ErrNotReady) {
			t.Errorf("with n2 behind: %v", err)
		}
		if m := w.members(); len(m) != 3 {
			t.Errorf("%+v", m)
		}
		asked.Trickle(false)
		w.mustRun(w.resume(n1))
		if v := w.Violations(); v != nil {
			t.Error(strings.Join(v, "\n"))
		}
	})
}

// The removal of a learner was recorded and failed; then it caught up. Its volume counts from then on as that of any voter.
func TestPromote_WhomARemovalWasRecordedFor(t *testing.T) {
	inGrowing(t, 3, func(w *world, last cke.Node) {
		w.mustRun(w.add(last))
		j := w.joinOn(last)
		j.NeverVoted, j.Repair = true, true
		if err := w.daemon.Term().PutJoins(t.Context(), w.Store().Identity(), j); err != nil {
			t.Fatal(err)
		}
		w.mustRun(op.PromoteMember{Join: w.joinOn(last)})
		if j := w.joinOn(last); j.NeverVoted || j.Repair {
			t.Errorf("on record: %+v", j)
		}
	})
}

// A learner that a person promotes while it receives its data is a voter, and is not stopped for another container.
func TestAddMember_StopsNoVoter(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		c := w.cluster()
		last := c.Nodes[1]
		c.Nodes = c.Nodes[:1]
		w.mustRun(op.Bootstrap{Spec: c, Founders: c.ControlPlane()})
		_, err := w.run(cut{w.add(last), "receive-data", func() {
			time.Sleep(3 * time.Second)
			if err := w.daemon.Etcd().Promote(w.daemon.Context(), w.joins()[0].ClientURL(), w.joinOn(last).MemberID); err != nil {
				t.Fatal(err)
			}
			w.trace = nil
		}})
		if stops := w.calls("StopContainer"); stops > 0 {
			t.Errorf("a voter was stopped %d times without the gate: %v", stops, err)
		}
	})
}

// While a learner receives a large database, etcd raises the alarm CORRUPT: the addition ends at once, so that the cluster freezes.
func TestAddMember_EndsWhereDatabasesDiffer(t *testing.T) {
	inGrowing(t, 3, func(w *world, last cke.Node) {
		if !w.Fill("n1", 1400<<20) {
			t.Fatal("not written")
		}
		r, err := w.run(cut{w.add(last), "receive-data", func() {
			w.Node("n1").CorruptData()
			w.NoticeCorruption()
		}})
		if !errors.Is(err, cke.ErrConflict) || !strings.Contains(err.Error(), "CORRUPT") {
			t.Errorf("%v after %s", err, r.EndedAt.Sub(r.StartedAt))
		}
	})
}
