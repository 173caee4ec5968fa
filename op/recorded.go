package op

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"cke"
)

// recorded are machines on which operations stop, remove and overwrite only what is on record. The record is read right
// before each call: what Decide saw may be another cluster's, or newer than the store.
type recorded struct {
	cke.Machines
	ledger cke.Ledger
	etcd   cke.Etcd
	// named is a membership that an operator named, and that may be removed though it is not on record.
	named cke.JoinID
}

// naming returns e with machines that also remove what an operator named.
func naming(e Env, id cke.JoinID) Env {
	if r, ok := e.Machines.(recorded); ok {
		r.named = id
		e.Machines = r
	}
	return e
}

// Machine implements cke.Machines.
func (r recorded) Machine(n cke.Node) cke.Machine {
	return recordedMachine{r.Machines.Machine(n), r}
}

type recordedMachine struct {
	cke.Machine
	by recorded
}

func (m recordedMachine) allowed(ctx context.Context, j cke.Join) error {
	id, err := m.by.ledger.Identity(ctx)
	if err != nil || id.OnRecord(j.Incarnation, j.ID) || j.ID == m.by.named {
		return err
	}
	return &cke.Error{Code: cke.CodeNotOnRecord, What: fmt.Sprintf("%s on %s is not on record and is not touched", j.Volume, j.Node.Name()),
		Facts: []string{fmt.Sprintf("membership %s of incarnation %s", j.ID, j.Incarnation)}, Unchanged: true, Err: cke.ErrConflict}
}

// StopContainer implements cke.Machine. A member that votes where it is not on record is not stopped: its store is
// older than the cluster. A stop request in a serving cluster is on record until the engine has answered.
func (m recordedMachine) StopContainer(ctx context.Context, j cke.Join, grace time.Duration) error {
	if err := m.allowed(ctx, j); err != nil {
		return err
	}
	if err := m.votesElsewhere(ctx, j); err != nil {
		return err
	}
	if err := m.noteStopping(ctx, j.ID, true); err != nil {
		return err
	}
	if err := m.Machine.StopContainer(ctx, j, grace); err != nil {
		return err
	}
	return m.noteStopping(context.WithoutCancel(ctx), j.ID, false) // the step may have ended with the stop
}

// mayRun refuses to start a member that is put aside, whatever becomes of its cluster.
func (m recordedMachine) mayRun(ctx context.Context, of cke.Join) error {
	id, err := m.by.ledger.Identity(ctx)
	if err != nil {
		return err
	}
	return neverApart(id, of)
}

// neverApart refuses to start a member that is put aside: it could be a second cluster.
func neverApart(id cke.Identity, of cke.Join) error {
	if !slices.ContainsFunc(slices.Concat(id.Joins, id.Ended), func(j cke.Join) bool { return j.ID == of.ID && j.Apart }) {
		return nil
	}
	return &cke.Error{Code: cke.CodeSplitBrain, What: fmt.Sprintf("the member of %s is put aside and is not started: it could be a second cluster", of.Node.Name()), Unchanged: true,
		Try: "ckecli replace " + of.Node.Name(), Err: cke.ErrConflict}
}

// EnsureContainer implements cke.Machine. The engine may start a member by itself that starts on its own data.
func (m recordedMachine) EnsureContainer(ctx context.Context, s cke.MemberSpec) error {
	if s.Mode == cke.StartOwnData {
		if err := m.mayRun(ctx, s.Join); err != nil {
			return err
		}
	}
	return m.Machine.EnsureContainer(ctx, s)
}

// StartContainer implements cke.Machine.
func (m recordedMachine) StartContainer(ctx context.Context, j cke.Join) error {
	if err := m.mayRun(ctx, j); err != nil {
		return err
	}
	return m.Machine.StartContainer(ctx, j)
}

// KeepRunning implements cke.Machine. An engine that answers, even with a refusal, has completed its earlier
// requests.
func (m recordedMachine) KeepRunning(ctx context.Context, j cke.Join) error {
	if err := m.mayRun(ctx, j); err != nil {
		return err
	}
	err := m.Machine.KeepRunning(ctx, j)
	if err == nil || errors.Is(err, cke.ErrConflict) {
		err = errors.Join(err, m.noteStopping(ctx, j.ID, false))
	}
	return err
}

func (m recordedMachine) noteStopping(ctx context.Context, of cke.JoinID, is bool) error {
	id, err := m.by.ledger.Identity(ctx)
	j, lasts := id.Join(of)
	if err != nil || !lasts || j.Stopping == is || id.Incarnation == nil || id.Incarnation.State != cke.Formed {
		return err
	}
	j.Stopping = is
	return m.by.ledger.PutJoins(ctx, id, j)
}

// RemoveContainer implements cke.Machine.
func (m recordedMachine) RemoveContainer(ctx context.Context, j cke.Join) error {
	if err := m.allowed(ctx, j); err != nil {
		return err
	}
	return m.Machine.RemoveContainer(ctx, j)
}

// RemoveVolume implements cke.Machine.
func (m recordedMachine) RemoveVolume(ctx context.Context, j cke.Join) error {
	if err := m.allowed(ctx, j); err != nil {
		return err
	}
	return m.Machine.RemoveVolume(ctx, j)
}

// RestoreData implements cke.Machine.
func (m recordedMachine) RestoreData(ctx context.Context, s cke.RestoreSpec, open func(context.Context) (io.ReadCloser, error), progress func(string)) error {
	if err := m.allowed(ctx, s.Member.Join); err != nil {
		return err
	}
	return m.Machine.RestoreData(ctx, s, open, progress)
}

// votesElsewhere asks the member of a container that runs where it is not on record, at the place that the container was made for.
func (m recordedMachine) votesElsewhere(ctx context.Context, j cke.Join) error {
	id, err := m.by.ledger.Identity(ctx)
	if err != nil || id.Incarnation == nil || id.Incarnation.ClusterID == "" || m.by.etcd == nil {
		return err
	}
	c, err := m.Machine.Container(ctx, j)
	if err != nil {
		return nil // the stop says the same
	}
	n := cke.NodeStatus{Node: j.Node, Containers: []cke.Container{c}}
	for _, e := range cke.ToAskElsewhere(c.Cluster, []cke.NodeStatus{n}, id.Joins) {
		e.EndpointStatus = m.by.etcd.Endpoint(ctx, e.URL)
		e.Join = j.ID
		_, members, err := m.by.etcd.Members(ctx, e.URL)
		if err == nil {
			e.Members, e.Source = members, cke.MembersLinearizable
		}
		if unknown := err != nil && e.Serves(id.Incarnation.ClusterID); unknown || id.Votes(e) {
			return &cke.Error{Code: cke.CodeOlderStore, What: fmt.Sprintf("the member of %s on %s votes, but is not on record there", j.Volume, j.Node.Name()),
				Facts: []string{fmt.Sprintf("member %s at %s", e.MemberID, e.URL)}, Unchanged: true, Err: cke.ErrConflict}
		}
	}
	return nil
}
