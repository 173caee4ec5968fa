package op

import (
	"context"
	"slices"
	"sync"

	"cke"
)

// spoken is what foreign members of the present cluster, or of those that a restore replaces, answer.
type spoken struct {
	// lists are their member lists, each with the id of its cluster.
	lists []cke.MemberList
	// answered are the ids of those that answer. Led are learners that follow a member that is not of cke, or were promoted: others may serve.
	answered, led []string
}

// askForeign asks foreign members. Listed are members of lists that are known: those of cke may all have left since, and ended, while foreign ones serve.
// Those that answer may know of others, which are asked, too.
func askForeign(ctx context.Context, e Env, id cke.Identity, listed []cke.Member) (all spoken) {
	var asked []cke.Former
	var learners []cke.EndpointStatus
	for len(asked) < cke.MaxStrangers {
		next := slices.DeleteFunc(id.Unstopped(listed), func(f cke.Former) bool {
			return slices.ContainsFunc(asked, func(o cke.Former) bool { return o.ID == f.ID })
		})
		if len(next) == 0 {
			break
		}
		next = next[:min(len(next), cke.MaxStrangers-len(asked))]
		asked = append(asked, next...)
		for i, s := range allSpeak(ctx, e, id, next) {
			switch same := s.MemberID == next[i].ID; {
			case same && s.Learner:
				learners = append(learners, s.EndpointStatus)
			case s.list.ClusterID != "":
				all.lists, listed = append(all.lists, s.list), slices.Concat(listed, s.list.Members)
				if same {
					all.answered = append(all.answered, s.MemberID)
				}
			}
		}
	}
	for _, s := range learners { // it serves nobody by itself, and has no list that counts, but knows who led it last
		votes := slices.ContainsFunc(listed, func(m cke.Member) bool { return m.ID == s.MemberID && !m.Learner })
		if ours := slices.ContainsFunc(id.MayRun(), func(j cke.Join) bool { return j.MemberID == s.LeaderID }); votes || s.LeaderID != "" && !ours {
			all.led = append(all.led, s.MemberID)
		} else {
			all.answered = append(all.answered, s.MemberID)
		}
	}
	return all
}

// speaks is what a foreign member answers, and its member list if it is a voter.
type speaks struct {
	cke.EndpointStatus
	list cke.MemberList
}

// allSpeak asks foreign members, all at the same time. What is of another cluster is as good as no answer.
func allSpeak(ctx context.Context, e Env, id cke.Identity, foreign []cke.Former) []speaks {
	ctx, cancel := context.WithTimeout(ctx, returnedLimit)
	defer cancel()
	all := make([]speaks, len(foreign))
	var wg sync.WaitGroup
	for i, f := range foreign {
		wg.Go(func() {
			s := e.Etcd.Endpoint(ctx, f.URL)
			former := id.Incarnation.State == cke.Restoring && id.Incarnation.Restore.Replaces(s.ClusterID)
			if s.ClusterID == "" || s.ClusterID != f.ClusterID && !former {
				return
			}
			if all[i].EndpointStatus = s; s.Learner {
				return
			}
			if list, err := listThrough(ctx, e, f.URL, s); err == nil {
				list.ClusterID, list.At = s.ClusterID, max(list.At, s.RaftApplied)
				all[i].list = list
			}
		})
	}
	wg.Wait()
	return all
}
