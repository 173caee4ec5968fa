// Package quorum is the arithmetic of voters: how many may be missing. Each check returns "" or the refusal as text.
package quorum

import "fmt"

// MostVoters is the largest number of voters that etcd supports well. Source: etcd docs, FAQ.
const MostVoters = 7

// Of returns how many of n voters are a majority.
func Of(n int) int { return n/2 + 1 }

// Tally counts the entries of a member list that was read through a quorum.
type Tally struct {
	// Voters are those in the list, Healthy those of them that serve linearizable reads.
	Voters, Healthy int
	// Pending are learners and members that never started: a change under way.
	Pending int
}

// Tolerance returns how many more healthy voters may fail before the quorum is lost.
func (t Tally) Tolerance() int { return max(0, t.Healthy-Of(t.Voters)) }

// Remove checks that a voter may leave the list: the remaining healthy voters must be a majority of the new list.
func (t Tally) Remove(healthy bool) string {
	left := t.Healthy
	if healthy {
		left--
	}
	if need := Of(t.Voters - 1); t.Voters == 1 || left < need {
		return fmt.Sprintf("now %s, %d healthy; after %s, %d healthy, %d needed", voters(t.Voters), t.Healthy, voters(t.Voters-1), left, need)
	}
	return ""
}

// Pause checks that this many healthy voters may stop serving for a while: the others must be a majority of the
// current list.
func (t Tally) Pause(away int) string {
	if left, need := t.Healthy-away, Of(t.Voters); left < need {
		return fmt.Sprintf("now %s, %d healthy; meanwhile %d healthy, %d needed", voters(t.Voters), t.Healthy, left, need)
	}
	return ""
}

// Enough checks that this many healthy voters are a majority of the new list.
func Enough(n, healthy int) string {
	if need := Of(n); healthy < need {
		return fmt.Sprintf("after  %s, %d healthy; %d needed", voters(n), healthy, need)
	}
	return ""
}

// InEach reports whether each majority of n voters has one of so many of them.
func InEach(n, some int) bool { return n-some < Of(n) }

// Add checks that a learner may be added. own is the number of changes under way by the caller. all names an etcd
// that requires all voters to be healthy; empty: it requires as many as a list with one more voter needs. Source:
// etcd, mayAddMember.
func (t Tally) Add(own int, all string) string {
	if t.Pending > own {
		return InFlight
	}
	need, who := min(t.Voters, Of(t.Voters+1)), "etcd"
	if all != "" {
		need, who = t.Voters, "etcd "+all
	}
	switch {
	case t.Healthy < need:
		return fmt.Sprintf("now %s, %d healthy; %s requires %d healthy before one is added", voters(t.Voters), t.Healthy, who, need)
	case t.Voters >= MostVoters:
		return fmt.Sprintf("%d voters are the most that etcd supports well", MostVoters)
	}
	return ""
}

// Whole checks that a serving voter may be taken away: no change is under way, and all are healthy.
func (t Tally) Whole() string {
	switch {
	case t.Pending > 0:
		return InFlight
	case t.Healthy < t.Voters:
		return fmt.Sprintf("%d of %d voters are healthy; a healthy one is taken away only when all are", t.Healthy, t.Voters)
	}
	return ""
}

// InFlight is the refusal while the member list is being changed.
const InFlight = "a member was added and has not caught up yet"

func voters(n int) string {
	if n == 1 {
		return "1 voter"
	}
	return fmt.Sprintf("%d voters", n)
}

// Could returns of how many voters those that may continue could be a quorum, of whom maybe may vote beside the sure ones; 0: of none. One
// change at a time is in flight: either those who may vote do, which is worse the more of them do, or, where changing, a voter was removed.
func Could(voters, sure, maybe int, changing bool) int {
	switch {
	case sure+maybe >= Of(voters+maybe):
		return voters + maybe
	case changing && sure >= Of(voters-1):
		return voters - 1
	}
	return 0
}
