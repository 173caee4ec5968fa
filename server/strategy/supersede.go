package strategy

import (
	"fmt"
	"slices"

	"cke"
	"cke/op"
)

// Superseded returns why a running operation must stop for the one that Decide would choose now; nil: it continues.
//
//   - A volume that is removed may take long, and is removed later.
//   - While stopped members are started and waited for, others can stop, too. Without them there may be no quorum, and the wait
//     would keep them from being started. An operation that has failed lately supersedes nothing, so that a member that stops
//     again and again does not keep the others down.
//   - A finding that only the operator can judge stops every operation: it is recorded at once.
//   - An operation that has stopped a member to start it again is not ended before it has: in a frozen or paused cluster no rule would
//     start it. Where a finding names members that may be wrong, it ends all the same: what is stopped cannot serve the wrong data.
//   - A comparison of the members' data changes nothing and may take long, so every other operation comes first. A learner that
//     receives a database takes long, too, and continues where it was.
//   - A restore continues with more to stop, or to wait for, once a node that was named as destroyed is seen.
//   - Another restore, or a deletion, replaces what prepares a restore. A deletion also replaces what reads the backups before that.
func Superseded(running, next op.Operation, failures map[string]Failure, away bool) error {
	if f, found := next.(op.Freeze); away && !(found && f.Kind.NamesWrong()) {
		return nil
	}
	if f, found := next.(op.Freeze); found {
		if now, same := running.(op.Freeze); same && now.Finding == f.Finding {
			return nil // it takes some seconds where members are asked again
		}
		return fmt.Errorf("the cluster is frozen: %s", f.Problem.Message)
	}
	if _, comparing := running.(op.CompareData); comparing && next != nil && next.Name() != running.Name() {
		return fmt.Errorf("%s goes first", next.Name())
	}
	r, prepares := running.(op.Restore)
	_, changes := running.(op.StartChanged)
	if seen, is := next.(op.NoteReturned); is && (prepares || changes) {
		return fmt.Errorf("%s: named as destroyed and seen with a member, which has to be stopped, too", and(seen.Nodes))
	}
	_, begins := running.(op.BeginRestore)
	_, deletes := next.(op.DeleteCluster)
	_, another := next.(op.BeginRestore)
	if prepares && !r.Started && (another || deletes) || begins && deletes {
		return fmt.Errorf("%s takes its place", next.Name())
	}
	var own []cke.Join // whose stops are the operation's own
	switch now := running.(type) {
	case op.StartMembers:
		own = now.Joins
	case op.AddMember:
		own = []cke.Join{{ID: now.Resume, Node: now.Node}}
	case op.RestartMember:
		own = []cke.Join{now.Join}
	case op.StartChanged:
		own = []cke.Join{now.Join}
	case op.PurgeVolume, op.CleanUp:
	default:
		return nil
	}
	then, ok := next.(op.StartMembers)
	if !ok || failures[FailureKey(next)].Count > 0 {
		return nil
	}
	var more []string
	for _, j := range then.Joins {
		if !slices.ContainsFunc(own, func(k cke.Join) bool { return k.ID == j.ID || k.Node.Address == j.Node.Address }) {
			more = append(more, j.Node.Name())
		}
	}
	if more == nil {
		return nil
	}
	return fmt.Errorf("%s stopped meanwhile", and(more))
}
