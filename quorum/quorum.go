// Package quorum is the arithmetic of voters: which of them etcd can be without. Each question answers "" or the refusal in words.
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
	// Pending are learners and members that never started: a change in flight.
	Pending int
}

// Tolerance returns how many more healthy voters may fail before the quorum is lost.
func (t Tally) Tolerance() int { return max(0, t.Healthy-Of(t.Voters)) }

// Remove asks whether a voter may leave the list: the healthy voters left must be a majority of the list after it.
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

// Pause asks whether so many healthy voters may serve nobody for a while: those left must be a majority of the list as it is.
func (t Tally) Pause(away int) string {
	if left, need := t.Healthy-away, Of(t.Voters); left < need {
		return fmt.Sprintf("now %s, %d healthy; meanwhile %d healthy, %d needed", voters(t.Voters), t.Healthy, left, need)
	}
	return ""
}

// Enough asks whether so many healthy voters are a majority of the list as it will be.
func Enough(n, healthy int) string {
	if need := Of(n); healthy < need {
		return fmt.Sprintf("after  %s, %d healthy; %d needed", voters(n), healthy, need)
	}
	return ""
}

// Add asks whether a learner may be added. own are the changes in flight that are the caller's. all names an etcd that wants every voter
// healthy; empty: as many are enough as a list with one more needs. Source: etcd, mayAddMember.
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
		return fmt.Sprintf("now %s, %d healthy; %s wants %d healthy before one is added", voters(t.Voters), t.Healthy, who, need)
	case t.Voters >= MostVoters:
		return fmt.Sprintf("%d voters are the most that etcd bears well", MostVoters)
	}
	return ""
}

// Whole asks whether everything else is well, so that a voter that serves may be taken away: no change is in flight, and all are healthy.
func (t Tally) Whole() string {
	switch {
	case t.Pending > 0:
		return InFlight
	case t.Healthy < t.Voters:
		return fmt.Sprintf("%d of %d voters are healthy; a healthy one is not taken away before all are", t.Healthy, t.Voters)
	}
	return ""
}

// InFlight is the refusal while the list is being changed.
const InFlight = "a member was added and has not caught up yet"

func voters(n int) string {
	if n == 1 {
		return "1 voter"
	}
	return fmt.Sprintf("%d voters", n)
}
