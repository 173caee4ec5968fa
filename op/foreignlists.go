package op

import (
	"context"
	"sync"

	"cke"
)

// foreignLists are the member lists that foreign members of the present cluster, or of those that a restore replaces, report, by the ids of the clusters.
// listed are members of lists that are known: those of cke may all have left since, and ended, while foreign ones serve. Who does not answer is passed over.
func foreignLists(ctx context.Context, e Env, id cke.Identity, listed []cke.Member) map[string]cke.MemberList {
	ctx, cancel := context.WithTimeout(ctx, returnedLimit)
	defer cancel()
	foreign := id.Unstopped(listed)
	foreign = foreign[:min(len(foreign), cke.MaxStrangers)]
	all := make([]heard, len(foreign))
	var wg sync.WaitGroup
	for i, f := range foreign {
		wg.Go(func() {
			s := e.Etcd.Endpoint(ctx, f.URL)
			former := id.Incarnation.State == cke.Restoring && id.Incarnation.Restore.Replaces(s.ClusterID)
			if s.ClusterID == "" || s.Learner || s.ClusterID != f.ClusterID && !former {
				return
			}
			list, err := listAt(ctx, e, f.URL, s.ClusterID, s.Linearizable)
			if err != nil && s.Linearizable {
				list, err = listAt(ctx, e, f.URL, s.ClusterID, false)
			}
			if list.At = max(list.At, s.RaftApplied); err == nil {
				all[i] = heard{of: s.ClusterID, list: list}
			}
		})
	}
	wg.Wait()
	lists := map[string]cke.MemberList{}
	for _, h := range all {
		if h.of != "" {
			lists[h.of] = lists[h.of].Takes(h.list)
		}
	}
	return lists
}
