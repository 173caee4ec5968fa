package cke

import (
	"fmt"
	"slices"
)

// RanSince reports whether a member of the incarnation before may have run after the data was copied from which a recovery
// continues: what that incarnation acknowledged since may be missing in it. Members on nodes that were left out with --without have no
// quorum without such a one. Those of nodes that were named as destroyed were not counted and could be a quorum: one that is seen
// again calls the recovery off. A container that was made again did not run. A recovery that an earlier cke started does not have
// when they were started, and is not judged.
func (r *Restoration) RanSince(j Join, c Container) bool {
	return r.Order.Survivor != "" && r.Ran != nil && slices.Contains(r.Fence, j.ID) && !slices.Contains(r.Order.Without, j.Node.Name()) && c.EverRan() && !c.StartedAt.Equal(r.Ran[j.ID])
}

// StartedSinceCopied describes that a recovery cannot continue because of the member on this node.
func StartedSinceCopied(node string) string {
	return fmt.Sprintf("the member on %s was started after the data for the recovery was copied, and clients may have written since", node)
}
