package strategy

import (
	"fmt"

	"cke/op"
	"cke/quorum"
)

// startWithdrawn: the start of the restored members of a recovery is on record, none of them ever ran, and it is known by now that the
// copied data lacks what may have been acknowledged. Once the start is withdrawn, the recovery is canceled as before its start.
func startWithdrawn(in *Input) verdict {
	o, can := in.withdrawal()
	if !can {
		return pass()
	}
	outdated := outdatedRestore(in)
	if outdated == nil {
		return pass()
	}
	return act(o, fmt.Sprintf("the start of the restored members, of which none ran, is withdrawn, so that the recovery is canceled: %s", outdated.Message))
}

// withdrawal is what withdraws the start of the restored members of the recovery under way; false: a member ran, or may have, or there is no
// such start.
func (in *Input) withdrawal() (o op.WithdrawStart, can bool) {
	inc := in.Identity.Incarnation
	if inc.Restore == nil || inc.Restore.Order.Survivor == "" || !in.Identity.Started() {
		return o, false
	}
	o.Incarnation = inc.ID
	silent := 0
	for _, j := range in.Identity.Joins {
		n := in.node(j.Node)
		c, _ := n.Of(j.ID)
		e := in.reply(j)
		switch {
		case e.ClusterID != "" && e.ClusterID == inc.ClusterID, n.Answered() && !inc.Restore.NeverRan(c):
			return o, false
		case n.Answered():
			o.Founders = append(o.Founders, in.reached(j))
		default:
			silent++
		}
	}
	return o, silent < quorum.Of(len(in.Identity.Joins))
}
