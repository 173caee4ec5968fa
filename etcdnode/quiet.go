package etcdnode

import (
	"context"
	"reflect"
	"slices"
	"time"

	"cke"
)

// A probe asks for everything when something has happened: an event of the engine, a connection that came or went, another
// thing to observe, a member that does not answer. Else it asks for what none of these shows, and the rest is as it was.

// surveyEvery is how long that may continue: an engine drops events that are not taken in time.
const surveyEvery = time.Minute

// glance asks an engine only whether the member that runs there has its log and its certificates still. true: everything is to
// be asked.
func (a *nodeAccess) glance(ctx context.Context, s *session, old nodeFacts, now time.Time) (nodeFacts, bool) {
	c, settled := a.settled(old, now)
	if !settled {
		return nodeFacts{}, true
	}
	brief, cancel := context.WithTimeout(ctx, allowed(runningDataLimit))
	defer cancel()
	a.fleet.segments.doubt(c.Name) // so that the engine is asked
	data, err := a.fleet.observedData(brief, s, c)
	if err != nil || data != c.Data || !reflect.DeepEqual(a.fleet.certificates(brief, s, c), c.Certificates) {
		return nodeFacts{}, true
	}
	facts, n := old, &old.status
	facts.quiet = true
	facts.status.Containers, facts.status.Volumes, facts.status.Neighbors = slices.Clone(n.Containers), slices.Clone(n.Volumes), slices.Clone(n.Neighbors)
	facts.status.SeenAt, facts.status.Clock = time.Now().UTC(), s.engine.time()
	return facts, false
}

// settled returns the one container of the cluster on a node, if it runs and answers as it should, and all that happens to it is heard.
func (a *nodeAccess) settled(old nodeFacts, now time.Time) (c cke.Container, settled bool) {
	if old.status.Problem != nil || old.surveyed.IsZero() || now.Sub(old.surveyed) >= surveyEvery || !a.hears.Load() {
		return c, false
	}
	sc := a.fleet.currentScope()
	for _, other := range old.status.Containers {
		if other.Cluster != sc.cluster {
			continue
		}
		if c.ID != "" {
			return c, false
		}
		c = other
	}
	current, answers := a.fleet.memberOf(c.Join)
	return c, c.State == cke.ContainerRunning && c.Data == cke.DataPresent && sc.declares(c) && current && answers
}

// position is how far the log of a cluster had come on a member that served, on one connection: one that is restarted ends it.
type position struct {
	at           time.Time
	conn         *memberConn
	member, lead string // ids
	term, index  uint64
}

// position is that at which a member answered; zero: it served no linearizable read.
func (f *endpointFacts) position(conn *memberConn) position {
	s := f.status
	if !s.Linearizable || s.Learner {
		return position{}
	}
	return position{time.Now(), conn, s.MemberID, s.LeaderID, s.RaftTerm, s.RaftIndex}
}

// inherit takes members and alarms from an earlier look, unless the log has come further: each of them, and each permission, changes
// only by an entry.
func (f *endpointFacts) inherit(old endpointFacts, conn *memberConn) bool {
	now, then := f.position(conn), old.asked
	age := now.at.Sub(then.at)
	now.at, then.at = time.Time{}, time.Time{}
	if then.index == 0 || now != then || age >= surveyEvery || old.source != cke.MembersLinearizable || !slices.Equal(f.raised, old.raised) {
		return false
	}
	f.status.Denied = f.status.Denied || old.status.Denied
	f.members, f.source, f.alarms, f.asked, f.quiet = old.members, old.source, old.alarms, old.asked, true
	return true
}
