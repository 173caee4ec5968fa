package take

import (
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// member is a candidate: its name begins with what it is.
func member(name string, applied uint64, revision int64, alarms ...string) candidate {
	s := (*clientv3.StatusResponse)(&pb.StatusResponse{
		Header: &pb.ResponseHeader{MemberId: uint64(name[len(name)-1]), Revision: revision}, Leader: 'L', RaftAppliedIndex: applied,
		IsLearner: strings.HasPrefix(name, "learner"), Errors: alarms,
	})
	return candidate{name, s}
}

func TestChoose_BurdensWhoServesLeast(t *testing.T) {
	leader := member("leader L", 5000, 900)
	follower, close1, far := member("follower 1", 5000, 900), member("follower 2", 4000, 850), member("follower 3", 3999, 900)
	learner := member("learner 4", 5000, 900)
	for name, row := range map[string]struct {
		all      []candidate
		revision int64
		q        question
		want     string // "": nobody
		reached  bool
	}{
		"a follower, not the leader":               {[]candidate{leader, follower}, 900, aSnapshot, "follower 1", true},
		"in any order":                             {[]candidate{follower, leader}, 900, aSnapshot, "follower 1", true},
		"a follower a little behind":               {[]candidate{leader, close1}, 850, aSnapshot, "follower 2", true},
		"a follower far behind":                    {[]candidate{leader, far}, 1, aSnapshot, "leader L", true},
		"a follower that has not reached it":       {[]candidate{leader, close1}, 900, aSnapshot, "leader L", false},
		"alone":                                    {[]candidate{leader}, 900, aSnapshot, "leader L", true},
		"a learner before a follower":              {[]candidate{leader, follower, learner}, 900, aSnapshot, "learner 4", true},
		"of its data a learner says nothing":       {[]candidate{learner, leader, follower}, 900, itsData, "follower 1", true},
		"of its data, no follower":                 {[]candidate{learner, leader}, 900, itsData, "leader L", true},
		"of its data, no voter":                    {[]candidate{learner}, 900, itsData, "", true},
		"nobody has reached it":                    {[]candidate{leader, follower}, 901, aSnapshot, "", false},
		"a follower with a space alarm will do":    {[]candidate{leader, member("follower 1", 5000, 900, "memberID:76  alarm:NOSPACE")}, 900, itsData, "follower 1", true},
		"never one that says corrupt":              {[]candidate{leader, member("follower 1", 5000, 900, "memberID:49 alarm:CORRUPT")}, 900, aSnapshot, "leader L", true},
		"nobody rather than one that says corrupt": {[]candidate{member("leader L", 5000, 900, "etcdserver: no leader", "memberID:0  alarm:CORRUPT")}, 900, aSnapshot, "", true},
		"the hash of the leader":                   {[]candidate{follower, leader}, 900, itsHash, "leader L", true},
		"nobody answers":                           {nil, 1, aSnapshot, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			best, reached := choose(row.all, row.revision, row.q, "")
			got := ""
			if best != nil {
				got = best.endpoint
			}
			if got != row.want || reached != row.reached {
				t.Errorf("%q, reached %t", got, reached)
			}
		})
	}
}

func TestChoose_TheHashOfAnotherMember(t *testing.T) {
	leader, follower := member("leader L", 5000, 900), member("follower 1", 5000, 900)
	for other, want := range map[string]string{"follower 1": "leader L", "leader L": "follower 1"} {
		if best, _ := choose([]candidate{leader, follower}, 900, itsHash, other); best == nil || best.endpoint != want {
			t.Errorf("beside %s: %v", other, best)
		}
	}
	if best, _ := choose([]candidate{leader}, 900, itsHash, "leader L"); best == nil {
		t.Error("the only member is not asked")
	}
}
