package quorum_test

import (
	"fmt"
	"math/bits"
	"testing"

	"cke/quorum"
)

// majority counts by enumeration: any two majorities of a list share a voter, so a set is one where its complement is none.
func majority(set, voters int) bool {
	all := 1<<voters - 1
	return bits.OnesCount(uint(set&all)) > bits.OnesCount(uint(all&^set))
}

func each(do func(voters, healthy int)) {
	for voters := 1; voters <= 9; voters++ {
		for healthy := 0; healthy <= voters; healthy++ {
			do(voters, healthy)
		}
	}
}

func TestTally_AgreesWithCountingByEnumeration(t *testing.T) {
	each(func(voters, healthy int) {
		serving := 1<<healthy - 1 // the first ones are healthy
		tally := quorum.Tally{Voters: voters, Healthy: healthy}
		name := fmt.Sprintf("%d of %d", healthy, voters)
		if got := quorum.Enough(voters, healthy) == ""; got != majority(serving, voters) {
			t.Errorf("%s: a majority: %v", name, got)
		}
		if got, want := quorum.InEach(voters, healthy), !majority(^serving, voters); got != want {
			t.Errorf("%s: one in each majority: %v, want %v", name, got, want)
		}
		if healthy > 0 { // the first one leaves, or is away
			if got, want := tally.Remove(true) == "", voters > 1 && majority(serving>>1, voters-1); got != want {
				t.Errorf("%s, a healthy one leaves: %v, want %v", name, got, want)
			}
			if got, want := tally.Pause(1) == "", majority(serving&^1, voters); got != want {
				t.Errorf("%s, a healthy one is away: %v, want %v", name, got, want)
			}
		}
		if healthy < voters {
			if got, want := tally.Remove(false) == "", voters > 1 && majority(serving, voters-1); got != want {
				t.Errorf("%s, another one leaves: %v, want %v", name, got, want)
			}
		}
		lost := 0
		for left := serving; majority(left, voters) && majority(left>>1, voters); left >>= 1 {
			lost++
		}
		if got := tally.Tolerance(); majority(serving, voters) && got != lost {
			t.Errorf("%s: tolerance %d, want %d", name, got, lost)
		}
	})
}

func TestTally_Add(t *testing.T) {
	for _, c := range []struct {
		tally quorum.Tally
		own   int
		all   string
		want  string
	}{
		{quorum.Tally{Voters: 1, Healthy: 1}, 0, "", ""},
		{quorum.Tally{Voters: 3, Healthy: 2}, 0, "", "now 3 voters, 2 healthy; etcd requires 3 healthy before one is added"},
		{quorum.Tally{Voters: 4, Healthy: 3}, 0, "", ""},
		{quorum.Tally{Voters: 4, Healthy: 3}, 0, "3.5.9", "now 4 voters, 3 healthy; etcd 3.5.9 requires 4 healthy before one is added"},
		{quorum.Tally{Voters: 3, Healthy: 3, Pending: 1}, 0, "", quorum.InFlight},
		{quorum.Tally{Voters: 3, Healthy: 3, Pending: 1}, 1, "", ""},
		{quorum.Tally{Voters: 7, Healthy: 7}, 0, "", "7 voters are the most that etcd supports well"},
	} {
		if got := c.tally.Add(c.own, c.all); got != c.want {
			t.Errorf("%+v: %q, want %q", c.tally, got, c.want)
		}
	}
}

func TestTally_Whole(t *testing.T) {
	for _, c := range []struct {
		tally quorum.Tally
		want  string
	}{
		{quorum.Tally{Voters: 3, Healthy: 3}, ""},
		{quorum.Tally{Voters: 3, Healthy: 3, Pending: 1}, quorum.InFlight},
		{quorum.Tally{Voters: 3, Healthy: 2}, "2 of 3 voters are healthy; a healthy one is taken away only when all are"},
	} {
		if got := c.tally.Whole(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.tally, got, c.want)
		}
	}
}

// The arithmetic on which it rests that a restore makes no second cluster, and what is said of a quorum that cannot be seen.
func TestCould(t *testing.T) {
	for _, row := range []struct {
		voters, sure, maybe int
		changing            bool
		of                  int
	}{
		{3, 1, 0, false, 0}, {3, 2, 0, false, 3}, {3, 1, 0, true, 0}, {3, 2, 0, true, 3},
		{4, 2, 0, false, 0}, {4, 2, 0, true, 3}, {4, 3, 0, false, 4}, // a voter was removed
		{2, 1, 0, false, 0}, {2, 1, 0, true, 1},
		{2, 1, 1, false, 3}, {2, 1, 1, true, 3}, {3, 1, 1, true, 0}, // a learner was promoted
		{4, 1, 1, true, 0}, {4, 2, 1, false, 5}, {5, 2, 0, true, 0}, {5, 2, 1, true, 0}, // one of both
		{1, 0, 1, true, 0}, {3, 0, 3, false, 0}, {3, 0, 4, false, 7}, {0, 0, 0, true, 0}, {1, 1, 0, true, 1},
	} {
		if of := quorum.Could(row.voters, row.sure, row.maybe, row.changing); of != row.of {
			t.Errorf("%+v: %d", row, of)
		}
	}
	for voters := range 8 { // however many of those that may vote do
		for sure := range voters + 1 {
			for maybe := range 8 {
				could := false
				for i := range maybe + 1 {
					could = could || sure+i >= quorum.Of(voters+i)
				}
				if of := quorum.Could(voters, sure, maybe, false); (of > 0) != could {
					t.Errorf("%d voters, %d of them and %d others: %d", voters, sure, maybe, of)
				}
			}
		}
	}
}
