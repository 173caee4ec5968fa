package op

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cke"
)

// PurgeVolume removes the volume of an ended membership, and its container. The removal is recorded first.
type PurgeVolume struct {
	// Join is the ended membership with its node as reached now; of an unknown incarnation, what the volume's labels
	// say.
	Join cke.Join
	// Asked: the operator requested it. Otherwise its time must be over.
	Asked bool
}

var _ Operation = PurgeVolume{}

// Name implements Operation.
func (PurgeVolume) Name() string { return "purge-volume" }

// Targets implements Operation.
func (p PurgeVolume) Targets() []string { return []string{p.Join.Node.Name()} }

// Stages implements Operation.
func (p PurgeVolume) Stages() []Stage {
	n := p.Join.Node.Name()
	return []Stage{
		{{Name: "record-purge", Node: n, Run: p.record}},
		{{Name: "remove", Node: n, Limit: stopLimit + imageLimit, Run: p.remove}},
		{{Name: "record-removed", Node: n, Run: func(ctx context.Context, e Env) error {
			return putEnded(ctx, e, p.Join.ID, func(j *cke.Join) { j.RemovedAt = e.Now().UTC() })
		}}},
	}
}

// record asks everything again that speaks against the removal.
func (p PurgeVolume) record(ctx context.Context, e Env) error {
	list, id, err := readList(ctx, e)
	if err != nil {
		return err
	}
	if _, lasts := id.Join(p.Join.ID); lasts {
		return keeps(p.Join, "it belongs to a present member")
	}
	for _, m := range list.members {
		if m.ID == p.Join.MemberID {
			return keeps(p.Join, "its member is in the member list")
		}
	}
	j, known := ended(id, p.Join.ID)
	switch {
	case known && !j.PurgedAt.IsZero(): // started before
		return nil
	case known && !p.Asked && !j.Copied() && !j.Expired(e.Now()):
		return keeps(p.Join, fmt.Sprintf("it is kept until %s", j.KeepUntil.Format(time.RFC3339)))
	case !known && !p.Asked:
		return keeps(p.Join, "its membership is not on record")
	}
	copied := known && j.Copied() // the voters through which the list was read hold all of it, whatever the time is
	if !p.Asked && !copied {
		if err := rightClock(ctx, e, p.Join.Node); err != nil {
			return err
		}
	}
	if !copied {
		if err := list.allHealthy(ctx, e, id); err != nil {
			return err
		}
	}
	return putEnded(ctx, e, p.Join.ID, func(j *cke.Join) { j.PurgedAt = e.Now().UTC() })
}

func (p PurgeVolume) remove(ctx context.Context, e Env) error {
	id, err := e.Ledger.Identity(ctx)
	if err != nil {
		return err
	}
	if j, known := ended(id, p.Join.ID); known && j.PurgedAt.IsZero() || !known && !p.Asked {
		return keeps(p.Join, "its removal is not on record")
	}
	if !id.OnRecord(p.Join.Incarnation, p.Join.ID) { // an operator named the volume; whatever uses it is nobody's to stop
		_, err := e.Machines.Machine(p.Join.Node).Container(ctx, p.Join)
		switch {
		case err == nil:
			return keeps(p.Join, "a container uses it, and is not on record")
		case !errors.Is(err, cke.ErrNotFound):
			return err
		}
		return naming(e, p.Join.ID).Machines.Machine(p.Join.Node).RemoveVolume(ctx, p.Join)
	}
	if err := stopStep(p.Join).Run(ctx, e); err != nil {
		return err
	}
	return removeStep(p.Join).Run(ctx, e)
}

func keeps(j cke.Join, why string) error {
	return &cke.Error{Code: cke.CodeVolume, What: fmt.Sprintf("volume %s on %s is not removed", j.Volume, j.Node.Name()), Facts: []string{why}, Unchanged: true, Try: "ckecli volume list"}
}

// allHealthy refuses unless every voter serves and no change of the member list is under way.
func (l memberList) allHealthy(ctx context.Context, e Env, id cke.Identity) error {
	for _, m := range l.members {
		if m.Learner || m.Name == "" {
			return &cke.Error{Code: cke.CodeVolume, What: "a member was added and has not caught up yet", Unchanged: true, Try: "ckecli status"}
		}
	}
	// So many must serve as if all voters were needed.
	healthy := len(l.healthy(ctx, e, id, ""))
	if voters := l.voters(); healthy < voters {
		return &cke.Error{Code: cke.CodeVolume, What: "not every member serves, so data that could still be needed is not removed", Facts: []string{fmt.Sprintf("%d of %d voters are healthy", healthy, voters)},
			Unchanged: true, Try: "ckecli status"}
	}
	return nil
}

// UndeleteVolume keeps the volume of an ended membership until the operator purges it.
type UndeleteVolume struct{ Join cke.Join }

var _ Operation = UndeleteVolume{}

// Name implements Operation.
func (UndeleteVolume) Name() string { return "undelete-volume" }

// Targets implements Operation.
func (u UndeleteVolume) Targets() []string { return []string{u.Join.Node.Name()} }

// Stages implements Operation.
func (u UndeleteVolume) Stages() []Stage {
	return []Stage{{{Name: "record-keep", Node: u.Join.Node.Name(), Run: func(ctx context.Context, e Env) error {
		id, err := e.Ledger.Identity(ctx)
		if err != nil {
			return err
		}
		if j, _ := ended(id, u.Join.ID); !j.PurgedAt.IsZero() {
			return &cke.Error{Code: cke.CodeVolume, What: fmt.Sprintf("the removal of volume %s has started", j.Volume), Unchanged: true}
		}
		return putEnded(ctx, e, u.Join.ID, func(j *cke.Join) { j.KeepUntil = time.Time{} })
	}}}}
}

// ended returns the ended membership with this id.
func ended(id cke.Identity, join cke.JoinID) (cke.Join, bool) {
	i := indexOf(id.Ended, join)
	if i < 0 {
		return cke.Join{}, false
	}
	return id.Ended[i], true
}

// putEnded stores a changed ended membership; of one that is not on record there is nothing to store.
func putEnded(ctx context.Context, e Env, join cke.JoinID, change func(*cke.Join)) error {
	id, err := e.Ledger.Identity(ctx)
	if err != nil {
		return err
	}
	j, known := ended(id, join)
	if !known {
		return nil
	}
	change(&j)
	return e.Ledger.PutJoins(ctx, id, j)
}
