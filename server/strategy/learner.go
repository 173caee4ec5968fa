package strategy

import (
	"fmt"
	"slices"
	"time"

	"cke"
	"cke/op"
)

// Bounds of what a learner may take.
const (
	// learnerPatience is how long a learner may make no progress, while somebody looks, before it is withdrawn and a new
	// one is tried.
	learnerPatience = 10 * time.Minute
	// catchUpLimit is how long a learner may come further without catching up before operators are told.
	catchUpLimit = time.Hour
	// catchUpAgain is how soon a learner that is catching up is observed again.
	catchUpAgain = 200 * time.Millisecond
)

// promote: a learner of ours, on a declared node, answers and has caught up. It comes before repairs: one dead voter must
// not keep a good one from voting. Its node has to answer: a voter's engine is to start it by itself.
func promote(in *Input) verdict {
	for _, j := range in.Identity.Joins {
		if v := promoteOf(in, j); v.given() {
			return v
		}
	}
	return pass()
}

func promoteOf(in *Input, j cke.Join) verdict {
	m, there := in.listed(j)
	e := in.reply(j)
	if _, wanted := in.declared(j); !wanted || !there || !m.Learner || !e.Healthy() || in.silent(j) {
		return pass()
	}
	if c, _ := in.node(j.Node).Of(j.ID); c.Data == cke.DataMissing {
		if !slices.ContainsFunc(in.Before.Members, func(b cke.MemberStatus) bool { return b.Join == j.ID && b.Applied > 0 }) {
			return pass() // it is just being started, and has none yet
		}
		gone := j
		return act(op.RemoveMember{Member: m, Join: &gone, Repair: true}, fmt.Sprintf("the write-ahead log of the learner on %s was removed while it runs; a new one is tried", j.Node.Name()))
	}
	if behind := lag(in, e); behind < 0 || behind >= op.MaxLag {
		return pass()
	}
	return act(op.PromoteMember{Join: j}, fmt.Sprintf("the learner on %s has caught up", j.Node.Name()))
}

// stuckLearner: a learner has not come further for a while, in which it was observed. It keeps every other change
// waiting, and holds nothing that others do not: it is withdrawn, and another one is tried with a volume of its own.
func stuckLearner(in *Input) verdict {
	for _, j := range in.Identity.Joins {
		m, there := in.listed(j)
		if !there || !m.Learner {
			continue
		}
		i := slices.IndexFunc(in.Before.Members, func(b cke.MemberStatus) bool { return b.Join == j.ID })
		if i < 0 {
			continue
		}
		before := in.Before.Members[i]
		stuck := in.watched(before)
		if e := in.reply(j); stuck < in.patienceFor(e) || e.Learner && e.RaftApplied > before.Applied {
			continue
		}
		gone := j
		return act(op.RemoveMember{Member: m, Join: &gone, Silent: in.silent(j), Repair: declaredFree(in, j)}, fmt.Sprintf("the learner on %s has made no progress for %s; a new one is tried", j.Node.Name(), stuck.Round(time.Second))).alone()
	}
	return pass()
}

// Bounds of the pause before another learner is tried on a node after learners in a row that never voted: each costs the
// others a snapshot, and leaves a record. It doubles with each.
const (
	firstLearnerPause = 5 * time.Minute
	lastLearnerPause  = time.Hour
)

// triedInVain is set while no other learner is tried on a node, since those before it never voted; and for how long. It is
// counted from what is on record, so that it outlasts a daemon. A file that was set since is a reason to try at once.
func (in *Input) triedInVain(n cke.Node) (*cke.Problem, time.Duration) {
	var ended []cke.Join
	for _, j := range in.Identity.Ended {
		if j.Node.Address == n.Address && in.Identity.Incarnation.Life(j.Incarnation) {
			ended = append(ended, j)
		}
	}
	slices.SortFunc(ended, func(a, b cke.Join) int { return b.EndedAt.Compare(a.EndedAt) }) // newest first
	count := slices.IndexFunc(ended, func(j cke.Join) bool { return !j.NeverVoted || !j.Repair })
	if count < 0 {
		count = len(ended)
	}
	if count < 2 || in.SetAt.After(ended[0].EndedAt) {
		return nil, 0
	}
	pause := min(firstLearnerPause<<min(count-2, 10), lastLearnerPause)
	since := in.Seen.ObservedAt.Sub(ended[0].EndedAt)
	if wasSetBack(since) || since >= pause {
		return nil, 0
	}
	return &cke.Problem{Code: cke.CodeLearnersFail, Node: n.Name(),
		Message: fmt.Sprintf("%d new members in a row did not start to vote; the next one is tried in %s", count, (pause - since).Round(time.Minute)),
		Remedy:  "`ckecli history` shows how each ended; once the cause is gone, `ckecli cluster set FILE` or `ckecli replace " + n.Name() + "` tries one at once"}, pause - since
}

// patienceFor is how long a learner may make no progress: longer for one that has not answered yet, the more there is to be
// received.
func (in *Input) patienceFor(e cke.EndpointStatus) time.Duration {
	if e.RaftApplied > 0 {
		return learnerPatience
	}
	largest := int64(0)
	for _, other := range in.replies() {
		largest = max(largest, other.DBSize)
	}
	return learnerPatience + time.Duration(largest/op.ReceiveRate)*time.Second
}

// catchingUp: a learner is on its way.
func catchingUp(in *Input) verdict {
	for _, j := range in.Identity.Joins {
		m, there := in.listed(j)
		if e := in.reply(j); there && m.Learner && e.Healthy() {
			v := wait(fmt.Sprintf("the learner on %s is catching up, %s behind", j.Node.Name(), cke.Plural(lag(in, e), "entry", "entries"))).again(catchUpAgain)
			if p := slowLearner(in, j); p != nil {
				v.Blockers = []cke.Problem{*p}
			}
			return v
		}
	}
	return pass()
}

// slowLearner is set when a learner comes further and further and does not catch up. It is not withdrawn: another one
// would be no faster.
func slowLearner(in *Input, j cke.Join) *cke.Problem {
	e := in.reply(j)
	took := in.Seen.ObservedAt.Sub(j.StartedAt)
	if !e.Learner || !e.Healthy() || j.StartedAt.IsZero() || took < catchUpLimit || ClocksIn(in.Seen).wrong() {
		return nil
	}
	return &cke.Problem{Code: cke.CodeSlowLearner, Node: j.Node.Name(),
		Message: fmt.Sprintf("its learner has been catching up for %s and is %s behind; every other change waits for it", took.Round(time.Minute), cke.Plural(lag(in, e), "entry", "entries")),
		Remedy:  fmt.Sprintf("check the disk and the network of %s; `ckecli replace %s` tries another one", j.Node.Name(), j.Node.Name())}
}
