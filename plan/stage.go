package plan

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
	"cke/sim"
)

// stage is the simulated copy of a cluster with a daemon that works on it.
type stage struct {
	clock    *clock
	world    *sim.World
	daemon   *sim.Daemon
	env      op.Env
	in       strategy.Input // as it was; Requests, Before and Failures persist
	assumed  []string
	zones    map[string]string // of members, by peer URL
	least    standing          // since it was last asked for
	watching bool
}

func newStage(in strategy.Input) *stage {
	s := &stage{clock: &clock{now: in.Seen.ObservedAt}, in: in}
	s.in.Failures = map[string]strategy.Failure{}
	s.in.Before.Reached, s.in.Before.Etcd = nil, s.in.Before.Etcd.WithoutIndexes() // simulated members count their revisions from the start
	spec := cke.Spec{Cluster: in.Spec, Generation: in.Generation}
	if in.Deleting {
		spec.DeleteRequestedAt = in.Seen.ObservedAt
	}
	s.world, s.assumed = sim.FromObservation(s.clock.Now, spec, in.Noted(), in.Requests, in.Seen)
	s.zones = zonesByPeer(in)
	s.world.Watch(func(voters []sim.Voter) {
		if s.watching {
			s.least = s.least.least(s.standingOf(voters))
		}
	})
	s.daemon = s.world.NewDaemon()
	s.env = op.Env{
		Cluster: in.Spec.Name, Leader: s.daemon.Term().Leader(), Machines: s.daemon.Machines(), Etcd: s.daemon.Etcd(), Authority: s.daemon.Authority(), Ledger: s.daemon.Term(),
		Now: s.clock.Now, Pause: s.clock.pause, Log: slog.New(slog.DiscardHandler),
	}
	return s
}

// look is what the daemon would know now.
func (s *stage) look(ctx context.Context) strategy.Input {
	in := s.in
	in.Identity = s.world.Store().Identity()
	s.daemon.Observer().Update(in.Spec, in.Identity, in.Before.LastList(in.Identity.Incarnation)...)
	in.Seen = s.daemon.Observer().Observe(ctx)
	s.asBefore(&in.Seen)
	return in
}

// asBefore puts back, word by word, what the simulation can only show alike: nodes that did not answer, and members
// that were not well and that nobody has touched since.
func (s *stage) asBefore(seen *cke.Observation) {
	for i := range seen.Nodes {
		n := &seen.Nodes[i]
		for _, before := range s.in.Seen.Nodes {
			if before.Node.Address == n.Node.Address && !before.Answered() {
				declared := n.Node
				*n = before
				n.Node = declared
			}
		}
	}
	for i := range seen.Etcd.Endpoints {
		e := &seen.Etcd.Endpoints[i]
		before, known := s.in.Seen.Etcd.Endpoint(e.Join)
		if e.Join == "" || !known || !s.untouched(*seen, e.Join) {
			continue
		}
		e.CertNotAfter = before.CertNotAfter
		if !well(before) && (before.Linearizable || !well(*e)) {
			*e = before
		}
	}
}

// well reports whether a member serves and has nothing to complain of.
func well(e cke.EndpointStatus) bool { return e.Healthy() && (e.Linearizable || e.Learner) }

// untouched reports whether the membership's container is the one that was seen, in the state that it had.
func (s *stage) untouched(seen cke.Observation, join cke.JoinID) bool {
	now, before := containerOf(seen, join), containerOf(s.in.Seen, join)
	return now.State == before.State && now.StartedAt.Equal(before.StartedAt)
}

func containerOf(seen cke.Observation, join cke.JoinID) cke.Container {
	for _, n := range seen.Nodes {
		if c, there := n.Of(join); there {
			return c
		}
	}
	return cke.Container{}
}

// run runs an operation on the copy. least is the worst standing meanwhile.
func (s *stage) run(ctx context.Context, d strategy.Decision) (r cke.Record, least standing, err error) {
	s.least, s.watching = unwatched, true
	r, err = op.Run(ctx, s.env, journal{}, cke.Record{Reason: d.Reason, Task: d.Task, Generation: s.in.Generation}, timed{d.Operation, s.clock})
	s.watching = false
	key := strategy.FailureKey(d.Operation)
	if r.State == cke.RecordCompleted {
		err = nil
		delete(s.in.Failures, key)
	} else {
		s.in.Failures[key] = strategy.Failure{Count: s.in.Failures[key].Count + 1, At: s.clock.Now(), Error: err.Error()}
	}
	s.in.Before.LastOperation = &cke.OperationStatus{ID: r.ID, Type: r.Operation, Targets: r.Targets, State: r.State, Description: r.Reason, Time: r.EndedAt, Task: r.Task}
	if d.Task != "" && !d.Part {
		s.in.Requests.Tasks = slices.DeleteFunc(slices.Clone(s.in.Requests.Tasks), func(t cke.Task) bool { return t.ID == d.Task })
	}
	return r, s.least, err
}

// electionLimit is how long a quorum may need to come back after an operation, electionPause how often is looked.
const (
	electionLimit = 10 * time.Second
	electionPause = 100 * time.Millisecond
)

// settled looks once the members have a leader again, if they had one before.
func (s *stage) settled(ctx context.Context, quorate bool) strategy.Input {
	end := s.clock.Now().Add(electionLimit)
	for {
		in := s.look(ctx)
		if in.Seen.Etcd.Quorate || !quorate || s.clock.Now().After(end) {
			return in
		}
		s.clock.advance(electionPause)
	}
}

// journal keeps nothing: the plan reports what is done.
type journal struct{}

// AppendRecord implements op.Journal.
func (journal) AppendRecord(_ context.Context, r cke.Record) (cke.Record, error) {
	r.ID = 1
	return r, nil
}

// PutRecord implements op.Journal.
func (journal) PutRecord(context.Context, cke.Record) error { return nil }
