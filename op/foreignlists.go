package op

import (
	"context"
	"sync"

	"cke"
)

// foreignLists are the member lists that foreign members of the present cluster, or of those that a restore replaces, report, by the ids of the clusters.
// listed are members of lists that are known: those of cke may all have left since, and ended, while foreign ones serve. answered are the ids of those that
// answer.
func foreignLists(ctx context.Context, e Env, id cke.Identity, listed []cke.Member) (lists map[string]cke.MemberList, answered []string) {
	ctx, cancel := context.WithTimeout(ctx, returnedLimit)
	defer cancel()
	foreign := id.Unstopped(listed)
	foreign = foreign[:min(len(foreign), cke.MaxStrangers)]
	all, answers := make([]heard, len(foreign)), make([]bool, len(foreign))
	var wg sync.WaitGroup
	for i, f := range foreign {
		wg.Go(func() {
			s := e.Etcd.Endpoint(ctx, f.URL)
			former := id.Incarnation.State == cke.Restoring && id.Incarnation.Restore.Replaces(s.ClusterID)
			if s.ClusterID == "" || s.ClusterID != f.ClusterID && !former {
				return
			}
			if answers[i] = s.Learner; s.Learner {
				return // it serves nobody by itself, and has no list that counts
			}
			list, err := listThrough(ctx, e, f.URL, s)
			if list.At = max(list.At, s.RaftApplied); err == nil {
				all[i], answers[i] = heard{of: s.ClusterID, list: list}, true
			}
		})
	}
	wg.Wait()
	lists = map[string]cke.MemberList{}
	for i, h := range all {
		if h.of != "" {
			lists[h.of] = lists[h.of].Takes(h.list)
		}
		if answers[i] {
			answered = append(answered, foreign[i].ID)
		}
	}
	return lists, answered
}
