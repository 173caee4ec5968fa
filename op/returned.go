package op

import (
	"context"
	"fmt"
	"sync"
	"time"

	"cke"
)

// returnedLimit bounds asking the nodes that an operator called destroyed: most of them do not answer.
const returnedLimit = 10 * time.Second

// notGone is what was seen of a membership on a node that an operator called destroyed.
type notGone struct {
	join cke.Join
	// has: its node answers, and has a container of it that ran; url is where a member answers, "": nowhere.
	has bool
	url string
}

// returned asks the nodes of memberships that an operator called destroyed, all at the same time: their engines, and etcd where it is on
// record. What answers counts for more than the operator's word. next is the id of the cluster that may answer there; "": none may.
func returned(ctx context.Context, e Env, gone []cke.Join, next string) (seen []notGone) {
	ctx, cancel := context.WithTimeout(ctx, returnedLimit)
	defer cancel()
	all := make([]notGone, len(gone))
	var wg sync.WaitGroup
	for i, j := range gone {
		all[i].join = j
		wg.Go(func() {
			c, err := e.Machines.Machine(j.Node).Container(ctx, j)
			all[i].has = err == nil && c.EverRan()
		})
		wg.Go(func() {
			if s := e.Etcd.Endpoint(ctx, j.ClientURL()); s.ClusterID != "" && s.ClusterID != next {
				all[i].url = j.ClientURL()
			}
		})
	}
	wg.Wait()
	for _, n := range all {
		if n.has || n.url != "" {
			seen = append(seen, n)
		}
	}
	return seen
}

// stillThere is the error of an operation that has to stop a member first whose machine an operator called destroyed.
func (n notGone) stillThere(would, try string) error {
	name := n.join.Node.Name()
	e := &cke.Error{Code: cke.CodeFence, What: fmt.Sprintf("%s was named as destroyed, and its member answers at %s: it would serve %s", name, n.url, would), Try: try, Err: cke.ErrConflict}
	if n.has {
		e.What = fmt.Sprintf("%s was named as destroyed, and answers with a container of its member, which has to be stopped first", name)
	}
	return e
}

// destroyedGone refuses to let restored members start beside a member on a node that the order calls destroyed, and that is seen again.
// One whose node answers is stopped by the restore that Decide chooses then.
func (r Restore) destroyedGone(ctx context.Context, e Env, inc cke.Incarnation) error {
	for _, n := range returned(ctx, e, r.Gone, inc.ClusterID) {
		name := n.join.Node.Name()
		return n.stillThere("beside the restored cluster", fmt.Sprintf("switch %s off, or let cke reach its sshd, so that its member is stopped first; or ckecli restore --cancel, which is refused once restored members may have been started", name))
	}
	return nil
}

// destroyedGone refuses to put a restore on record while a member answers whose node the order calls destroyed. From backups, one
// whose node answers does no harm: the restore stops it. What a recovery continues from was copied, and may lack what it acknowledged.
func (b BeginRestore) destroyedGone(ctx context.Context, e Env) error {
	for _, n := range returned(ctx, e, b.Gone, "") {
		if name := n.join.Node.Name(); !n.has || b.order().Survivor != "" {
			return n.stillThere("beside the restored cluster", fmt.Sprintf("switch it off; or let cke reach its sshd, and: %s --without %s", b.order().Command(), name))
		}
	}
	return nil
}

// recordReturned stores that nodes answered with their members after the order had called them destroyed.
func (r Restore) recordReturned(ctx context.Context, e Env, inc cke.Incarnation) error {
	if r.Returned == nil {
		return nil
	}
	rest := *inc.Restore
	rest.Returned, inc.Restore = r.Returned, &rest
	return e.Ledger.UpdateIncarnation(ctx, inc)
}
