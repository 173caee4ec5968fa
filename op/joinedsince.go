package op

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"cke"
	"cke/quorum"
)

// storeBeforeFence is storeLast if the members that the restore stops may be stopped, before clients wait for it and after that.
func (r Restore) storeBeforeFence(ctx context.Context, e Env) error {
	for _, do := range []func(context.Context, Env) error{r.noneJoined, r.storeLast, r.noneJoined} {
		if err := do(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// noneJoined refuses to stop the members that the restore replaces while those that it leaves running are a quorum by their member list: an
// operator may have added foreign ones since the restore was put on record. If none of the members serves, no list is read.
func (r Restore) noneJoined(ctx context.Context, e Env) error {
	id, err := r.restoring(ctx, e)
	if err != nil {
		return err
	}
	rest := *id.Incarnation.Restore
	if rest.Before == nil || rest.Order.Survivor != "" || id.Incarnation.OnlyCopied() {
		return nil
	}
	urls, err := allServingBefore(ctx, e, r.Fence, rest)
	if err != nil {
		return ctx.Err()
	}
	for _, url := range urls {
		clusterID, list, err := e.Etcd.Members(ctx, url)
		if err != nil || !rest.Replaces(clusterID) {
			continue
		}
		return r.outnumbered(id, list)
	}
	return ctx.Err()
}

// outnumbered is the error that members which a restore leaves running are a quorum by a list; nil: they are none.
func (r Restore) outnumbered(id cke.Identity, list []cke.Member) error {
	destroyed := id.Incarnation.Restore.Believed().Destroyed
	voters, stay := 0, []string{}
	for _, m := range list {
		if m.Learner {
			continue
		}
		voters++
		stopped := slices.ContainsFunc(slices.Concat(r.Fence, id.Ended), func(j cke.Join) bool {
			stays := indexOf(r.Fence, j.ID) < 0 && slices.ContainsFunc(id.Superseded(), func(s cke.Join) bool { return s.ID == j.ID }) && id.NameIn(destroyed, j) == ""
			return m.Of(j) && !stays
		})
		gone := slices.Contains(destroyed, cmp.Or(m.Name, m.ID)) || slices.ContainsFunc(id.Unstopped(nil), func(f cke.Former) bool { return f.ID == m.ID && slices.Contains(destroyed, f.Name) })
		if !stopped && !gone {
			stay = append(stay, fmt.Sprintf("%s (%s)", cmp.Or(m.Name, "not started"), m.ID))
		}
	}
	if len(stay) < quorum.Of(voters) {
		return nil
	}
	return &cke.Error{Code: cke.CodeFence, What: "members that the restore does not stop are a quorum of the cluster that it replaces", Facts: []string{
		fmt.Sprintf("%s are %d of %d voters, and would serve beside the restored members", strings.Join(stay, ", "), len(stay), voters), "nothing was stopped; the restore continues once they are removed, or: ckecli restore --cancel"},
		Try: "etcdctl member remove ID", Err: cke.ErrConflict}
}
