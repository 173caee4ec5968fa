package op_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/op"
)

// etcd takes a learner that has just died for one that has caught up. As a voter it would be missing from the quorum.
func TestPromote_NotALearnerThatDiedSinceItWasLookedAt(t *testing.T) {
	for voters := 1; voters <= 3; voters += 2 {
		inWorld(t, voters+1, func(w *world) {
			c := w.cluster()
			last := c.Nodes[voters]
			c.Nodes = c.Nodes[:voters]
			w.mustRun(op.Bootstrap{Spec: c, Founders: c.ControlPlane()})
			w.mustRun(w.add(last))
			if voters == 3 {
				w.Node("n1").PowerOff()
				time.Sleep(10 * time.Second)
			}
			_, err := w.run(cut{op.PromoteMember{Join: w.joinOn(last)}, "promote", func() { w.Node(last.Name()).PowerOff() }})
			if err == nil {
				t.Errorf("of %d: promoted", voters)
			}
			if _, _, err := w.daemon.Etcd().Members(w.daemon.Context(), w.joins()[voters-1].ClientURL()); err != nil {
				t.Errorf("of %d: no quorum afterwards: %v", voters, err)
			}
		})
	}
}

// forgetful loses answers to looks at containers.
type forgetful struct {
	cke.Machines
	lose *int
}

type forgetfulMachine struct {
	cke.Machine
	of forgetful
}

func (f forgetful) Machine(n cke.Node) cke.Machine {
	return forgetfulMachine{f.Machines.Machine(n), f}
}

func (m forgetfulMachine) Container(ctx context.Context, j cke.Join) (cke.Container, error) {
	if *m.of.lose > 0 {
		*m.of.lose--
		return cke.Container{}, errors.New("no answer")
	}
	return m.Machine.Container(ctx, j)
}

// A member that runs on removed files holds what nothing else may hold: it is stopped for nothing, whatever answers are lost.
func TestStops_NoMemberThatRunsOnRemovedFiles(t *testing.T) {
	for name, stop := range map[string]func(cke.Join) op.Operation{
		"restart": func(j cke.Join) op.Operation { return op.RestartMember{Join: j, Etcd: j.Etcd, Gap: true} },
		"drain": func(j cke.Join) op.Operation {
			return op.DrainNode{Node: j.Node, Join: &j, For: time.Hour, Accepted: true}
		},
		"hibernate": func(j cke.Join) op.Operation { return op.Hibernate{Joins: []cke.Join{j}} },
		"change of ports": func(j cke.Join) op.Operation {
			return op.ChangeAddress{Join: j, Node: j.Node, ClientPort: j.ClientPort + 100, PeerPort: j.PeerPort + 100, Gap: true}
		},
	} {
		for lost := range 2 {
			inWorld(t, 1, func(w *world) {
				w.mustRun(w.bootstrap(false))
				lose := 0
				o := cut{stop(w.joins()[0]), "stop", func() { lose = lost; w.Node("n1").Unlink() }}
				if _, err := w.runIn(func(e op.Env) op.Env { e.Machines = forgetful{e.Machines, &lose}; return e }, o); err == nil {
					t.Errorf("%s, %d answers lost: done", name, lost)
				}
				if containers, _ := w.Node("n1").Look(); len(containers) != 1 || !containers[0].Running() {
					t.Errorf("%s, %d answers lost: %+v", name, lost, containers)
				}
			})
		}
	}
}

// A recovery reads the data of a member that is stopped for it.
func TestRecovery_StopsNoMemberThatRunsOnRemovedFiles(t *testing.T) {
	inFormed(t, 3, func(w *world) {
		w.Node("n2").PowerOff()
		w.Node("n3").PowerOff()
		w.Node("n1").Unlink()
		j := w.joins()[0]
		b := op.BeginRestore{Task: cke.Task{ID: "t", Restore: &cke.RestoreOrder{Survivor: "n1"}}, Founders: []cke.Node{j.Node}, Fence: []cke.Join{j}}
		b.Spec = w.Store().Spec().Wanted()
		if r, err := w.run(b); cke.CodeOf(err) != cke.CodeDataMissing {
			t.Errorf("%+v: %v", r.Steps, err)
		}
		if containers, _ := w.Node("n1").Look(); len(containers) != 1 || !containers[0].Running() {
			t.Errorf("%+v", containers)
		}
	})
}

// One that cannot start again is found before another one is stopped: afterwards there would be no quorum to mend it with.
func TestHibernate_StopsNobodyBesideAMemberThatRunsOnRemovedFiles(t *testing.T) {
	inFormed(t, 3, func(w *world) {
		h := op.Hibernate{Joins: w.joins(), Leader: w.joinOn(w.node(w.leaderNode())).ID}
		w.Node("n3").Unlink()
		if _, err := w.run(h); cke.CodeOf(err) != cke.CodeDataMissing {
			t.Error(err)
		}
		if w.states() != "n1 running, n2 running, n3 running" {
			t.Error(w.states())
		}
	})
}

// A learner holds nothing that its voters do not: the hibernation does not wait for it.
func TestHibernate_StopsALearnerThatRunsOnRemovedFiles(t *testing.T) {
	inGrowing(t, 2, func(w *world, last cke.Node) {
		w.mustRun(w.add(last))
		w.Node(last.Name()).Unlink()
		w.Store().Ask("hibernate", func(r *cke.Requests) { r.Hibernation = &cke.Hibernation{Since: time.Now()} })
		w.mustRun(op.Hibernate{Joins: w.joins(), Leader: w.joinOn(w.node(w.leaderNode())).ID})
		if strings.Contains(w.states(), "running") {
			t.Error(w.states())
		}
	})
}

// What a voter acknowledges has to be in a file that is still there after its process.
func TestPromote_RefusesALearnerThatRunsOnRemovedFiles(t *testing.T) {
	inGrowing(t, 3, func(w *world, last cke.Node) {
		w.mustRun(w.add(last))
		o := cut{op.PromoteMember{Join: w.joinOn(last)}, "promote", w.Node(last.Name()).Unlink}
		if _, err := w.run(o); cke.CodeOf(err) != cke.CodeDataMissing {
			t.Error(err)
		}
		if m := w.members(); !m[3].Learner || w.joinOn(last).MayVote || w.calls("etcd.Promote") > 0 {
			t.Errorf("%+v", m)
		}
	})
}

// ofAnother is etcd of which one member is of another cluster, which a person knows. It takes every order.
type ofAnother struct {
	turned
	orders *[]string
}

func (e ofAnother) took(url, order string) bool {
	if url == e.url {
		*e.orders = append(*e.orders, order)
	}
	return url == e.url
}

func (e ofAnother) SetAuth(ctx context.Context, url string, on bool) error {
	if e.took(url, "SetAuth") {
		return nil
	}
	return e.turned.Etcd.SetAuth(ctx, url, on)
}

func (e ofAnother) AdmitSelf(ctx context.Context, url string) error {
	if e.took(url, "AdmitSelf") {
		return nil
	}
	return e.turned.Etcd.AdmitSelf(ctx, url)
}

func (e ofAnother) Permit(ctx context.Context, url, name string, g cke.Grant) error {
	if e.took(url, "Permit") {
		return nil
	}
	return e.turned.Etcd.Permit(ctx, url, name, g)
}

func (e ofAnother) Disarm(ctx context.Context, url string, a cke.Alarm) error {
	if e.took(url, "Disarm") {
		return nil
	}
	return e.turned.Etcd.Disarm(ctx, url, a)
}

func TestOrders_AreGivenToNoMemberOfAnotherCluster(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		joins := w.joins()
		w.mustRun(op.Freeze{Kind: cke.FreezeClusterID, Finding: cke.OtherID(joins[0], "c2"), Problem: cke.Problem{Code: cke.CodeSplitBrain}})
		w.mustRun(op.Unfreeze{ID: w.Store().Identity().Freeze.ID, Reason: "it is known"})
		var orders []string
		e := op.Env{Cluster: "demo", Machines: w.daemon.Machines(), Etcd: ofAnother{turned{w.daemon.Etcd(), joins[0].ClientURL()}, &orders}, Authority: w.daemon.Authority(),
			Ledger: w.daemon.Term(), Now: time.Now, Pause: pause, Log: slog.New(slog.DiscardHandler)}
		for _, o := range []op.Operation{op.SetAuth{On: true}, op.ChangeUser{Order: cke.UserOrder{Action: cke.UserAdd, Name: "app", Prefix: "/app/"}}, op.Disarm{Alarms: []cke.Alarm{{MemberID: "1", Kind: "NOSPACE"}}}} {
			if r, err := op.Run(w.daemon.Context(), e, w.daemon.Term(), cke.Record{Reason: "a test"}, o); err != nil {
				t.Errorf("%s: %s, %v", o.Name(), r.State, err)
			}
		}
		if len(orders) > 0 {
			t.Errorf("another cluster was told: %s", strings.Join(orders, ", "))
		}
		if s, err := w.daemon.Etcd().Auth(w.daemon.Context(), joins[1].ClientURL()); err != nil || !s.Enabled {
			t.Errorf("this cluster: %+v, %v", s, err)
		}
	})
}

// What a member of another cluster answers stands for nothing here.
func TestAnswers_OfAMemberOfAnotherCluster(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		joins := w.joins()
		other := joins[0]
		if other.Node.Name() == w.leaderNode() {
			other = joins[1]
		}
		w.mustRun(op.Freeze{Kind: cke.FreezeClusterID, Finding: cke.OtherID(other, "c2"), Problem: cke.Problem{Code: cke.CodeSplitBrain}})
		w.mustRun(op.Unfreeze{ID: w.Store().Identity().Freeze.ID, Reason: "it is known"})
		run := func(o op.Operation) error {
			_, err := w.runIn(func(e op.Env) op.Env { e.Etcd = turned{w.daemon.Etcd(), other.ClientURL()}; return e }, o)
			return err
		}
		w.trace = nil
		for _, row := range []struct {
			does op.Operation
			want cke.Code
		}{
			{op.MoveLeader{Join: other}, cke.CodeSplitBrain},
			{op.CompareData{Joins: joins}, cke.CodeMemberSilent},
			{op.StartMembers{Joins: []cke.Join{other}, AwaitServing: true}, cke.CodeMemberSilent},
		} {
			if err := run(row.does); cke.CodeOf(err) != row.want {
				t.Errorf("%s: %v", row.does.Name(), err)
			}
		}
		if w.calls("MoveLeader") > 0 || w.calls("HashKV") > 0 {
			t.Errorf("it was asked:\n%s", strings.Join(w.trace, "\n"))
		}
	})
}

// elsewhere is an etcd that answers for a member with another one.
type elsewhere struct {
	cke.Etcd
	asked, answers string
}

func (e elsewhere) Endpoint(ctx context.Context, url string) cke.EndpointStatus {
	if url == e.asked {
		url = e.answers
	}
	return e.Etcd.Endpoint(ctx, url)
}

// A voter that answers where the learner should has all that its leader commits. The learner may have nothing.
func TestPromote_NotWhereAnotherMemberAnswers(t *testing.T) {
	inGrowing(t, 2, func(w *world, last cke.Node) {
		w.mustRun(w.add(last))
		j := w.joinOn(last)
		other := func(e op.Env) op.Env { e.Etcd = elsewhere{e.Etcd, j.ClientURL(), w.joins()[0].ClientURL()}; return e }
		if _, err := w.runIn(other, op.PromoteMember{Join: j}); err == nil || w.calls("Promote") > 0 {
			t.Errorf("promoted: %v", err)
		}
	})
}
