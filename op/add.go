package op

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cke"
)

// Limits of the steps of AddMember.
const (
	// changeLimit bounds a change of the member list, with the time until etcd is ready for it.
	changeLimit = 20 * time.Second
	// usersLimit is for the users and roles that etcd has, each of which is one request.
	usersLimit = 2 * time.Minute
	// catchUpLimit bounds the wait for a learner to receive the database; then the next round observes again.
	catchUpLimit = 5 * time.Minute
	// ReceiveRate is the least number of bytes per second that a learner receives over a slow line; it gets that time in
	// addition to catchUpLimit.
	ReceiveRate = 1 << 20
	// receiveLimit bounds it all: etcd's databases are of 8 GB at most.
	receiveLimit = catchUpLimit + 8<<30/ReceiveRate*time.Second
	// telling is the size in bytes from which a database file shows by itself that the learner has received it: an
	// empty one has some tens of kilobytes.
	telling = 1 << 20
)

// AddMember adds a member on a node as a learner: record the membership, add the learner, prepare, start, wait until
// it has the database. Another operation promotes it.
type AddMember struct {
	Node cke.Node
	// Etcd is how the member runs.
	Etcd cke.EtcdOptions
	// Resume is the membership that was started earlier on this node; empty: a new one.
	Resume cke.JoinID
	// Target is the backup target that is read before the first member of an import, as before a bootstrap; "": none is.
	Target string
}

var _ Operation = AddMember{}

// Name implements Operation.
func (AddMember) Name() string { return "add-member" }

// Targets implements Operation.
func (a AddMember) Targets() []string { return []string{a.Node.Name()} }

// Stages implements Operation.
func (a AddMember) Stages() []Stage {
	n := a.Node.Name()
	return []Stage{
		{{Name: "image", Node: n, Limit: imageLimit, Run: func(ctx context.Context, e Env) error {
			return e.Machines.Machine(a.Node).EnsureImage(ctx, a.Etcd.Image, e.Progress)
		}}},
		{{Name: "record-join", Node: n, Limit: recordLimit(a.Target), Run: a.recordJoin}},
		{{Name: "add-learner", Node: n, Limit: changeLimit, Run: func(ctx context.Context, e Env) error {
			return whenReady(ctx, e, func() error { return a.addLearner(ctx, e) })
		}}},
		{{Name: "prepare", Node: n, Run: a.prepare}},
		{{Name: "start", Node: n, Run: a.start}},
		{{Name: "receive-data", Node: n, Limit: receiveLimit, Run: a.receive}},
		{{Name: "serve", Node: n, Limit: serveLimit, Run: a.serve}},
	}
}

// join returns the membership under way on the node.
func (a AddMember) join(ctx context.Context, e Env) (cke.Join, cke.Identity, error) {
	id, err := e.Ledger.Identity(ctx)
	if err != nil {
		return cke.Join{}, id, err
	}
	if id.Incarnation == nil || id.Incarnation.State != cke.Formed {
		return cke.Join{}, id, fmt.Errorf("the cluster is not formed: %w", cke.ErrConflict)
	}
	if j, there := id.On(a.Node); there {
		j.Node = a.Node
		return j, id, nil
	}
	return cke.Join{}, id, fmt.Errorf("no membership is recorded on %s: %w", a.Node.Name(), cke.ErrNotFound)
}

// recordJoin stores the membership before anything else is done for it.
func (a AddMember) recordJoin(ctx context.Context, e Env) error {
	j, id, err := a.join(ctx, e)
	switch {
	case err == nil && j.ID == a.Resume:
		return nil
	case err == nil:
		return fmt.Errorf("%s has membership %s: %w", a.Node.Name(), j.ID, cke.ErrConflict)
	case !errors.Is(err, cke.ErrNotFound) || a.Resume != "":
		return err
	}
	if err := rightClock(ctx, e, a.Node); err != nil { // prepare would refuse
		return err
	}
	if id.ImportsFirst() && a.Resume == "" {
		if err := noSecond(ctx, e, a.Target, id); err != nil {
			return err
		}
	}
	j = cke.NewJoin(cke.Cluster{Options: cke.Options{Etcd: a.Etcd}}, a.Node, id.Incarnation.ID)
	if old := id.Incarnation.Importing(); old != nil {
		j.PlainPeers = old.PlainPeers
	}
	return e.Ledger.PutJoins(ctx, id, j)
}

// addLearner adds the learner unless the list has it: an answer may have been lost.
func (a AddMember) addLearner(ctx context.Context, e Env) error {
	j, _, err := a.join(ctx, e)
	if err != nil {
		return err
	}
	list, id, err := readList(ctx, e)
	if err != nil {
		return err
	}
	m, there := list.of(j)
	if there && j.MemberID == "" && (!m.Learner || m.Name != "") {
		// What was added for this membership is a learner that was never started. Started empty under the id of another
		// one it would take part without what that one agreed to.
		return fmt.Errorf("member %s at %s does not belong to membership %s: %w", m.ID, j.PeerURL(), j.ID, cke.ErrConflict)
	}
	if !there {
		if !j.StartedAt.IsZero() || j.MemberID != "" { // what its volume holds is that member's
			return fmt.Errorf("the member of %s was removed by another client: %w", a.Node.Name(), cke.ErrConflict)
		}
		for _, m := range list.members {
			if m.Learner || m.Name == "" {
				return fmt.Errorf("member %s was added and has not caught up yet: %w", m.ID, cke.ErrNotReady)
			}
		}
		if _, err := list.gate(ctx, e, id, "", list.voters()); err != nil {
			return err
		}
		if err := list.known(ctx, e, id); err != nil {
			return err
		}
		if m.ID, err = e.Etcd.AddLearner(ctx, list.via, j.PeerURL()); err != nil {
			return err
		}
	}
	if j.MemberID == m.ID {
		return nil
	}
	return putJoin(ctx, e, j.ID, func(j *cke.Join) { j.MemberID = m.ID })
}

// spec describes the container of the first start, from a fresh member list: etcd wants exactly the present members.
func (a AddMember) spec(ctx context.Context, e Env, j cke.Join) (cke.MemberSpec, error) {
	list, id, err := readList(ctx, e)
	if err != nil {
		return cke.MemberSpec{}, err
	}
	if _, there := list.of(j); !there {
		return cke.MemberSpec{}, fmt.Errorf("%s is not in the member list: %w", a.Node.Name(), cke.ErrConflict)
	}
	s := cke.MemberSpec{Cluster: e.Cluster, Join: j, Mode: cke.StartJoin, Token: id.Incarnation.Token}
	for _, m := range list.members {
		name := m.Name
		if m.Of(j) {
			name = j.Member
		}
		for _, url := range m.PeerURLs {
			s.Peers = append(s.Peers, cke.Peer{Name: name, URL: url})
		}
	}
	slices.SortFunc(s.Peers, func(a, b cke.Peer) int { return strings.Compare(a.URL, b.URL) })
	return s, nil
}

func (a AddMember) prepare(ctx context.Context, e Env) error {
	j, _, err := a.join(ctx, e)
	if err != nil {
		return err
	}
	if !j.StartedAt.IsZero() {
		return nil // from then on it is started on what it wrote, or not at all
	}
	spec, err := a.spec(ctx, e, j)
	if err != nil {
		return err
	}
	return prepareMember(ctx, e, spec)
}

// start starts the learner for the first time, or again on what it wrote: one that forgot what it had received would
// take part under the same id. Nor does it ask a member that is behind who it is, see memberList.known.
func (a AddMember) start(ctx context.Context, e Env) error {
	j, _, err := a.join(ctx, e)
	if err != nil {
		return err
	}
	ran := !j.StartedAt.IsZero()
	if !ran {
		list, id, err := readList(ctx, e)
		if err != nil {
			return err
		}
		m, _ := list.of(j)
		if ran = m.Name != ""; !ran { // else somebody else has started it
			if err := list.known(ctx, e, id); err != nil {
				return err
			}
		}
		if err := putJoin(ctx, e, j.ID, func(j *cke.Join) { j.StartedAt = e.Now().UTC() }); err != nil {
			return err
		}
	}
	if ran {
		return startOnOwnData(ctx, e, j)
	}
	return e.Machines.Machine(a.Node).StartContainer(ctx, j)
}

// receive waits until the learner holds the database, then makes its container again with the arguments of
// StartOwnData. That also makes it announce itself at once: etcd loses a learner's announcement of itself when it arrives
// with the snapshot, and repeats it only after 7 s.
func (a AddMember) receive(ctx context.Context, e Env) error {
	j, id, err := a.join(ctx, e)
	if err != nil {
		return err
	}
	m := e.Machines.Machine(a.Node)
	wait, cancel := context.WithTimeout(ctx, a.patience(ctx, e))
	defer cancel()
	judged := int64(-1) // the size of the file when it was judged last
	for looked := e.Now(); ; {
		if s := e.Etcd.Endpoint(ctx, j.ClientURL()); s.Healthy() && !id.OfAnother(s) {
			break
		}
		now := e.Now()
		again := now.Sub(looked) >= containerEvery
		if again {
			looked = now
			if _, err := stillRunning(ctx, e, j, nil); err != nil {
				return err
			}
		}
		size, err := m.DataSize(ctx, j)
		if err != nil {
			return err
		}
		if again && size == judged { // it receives nothing
			if _, worth, err := m.Certificates(ctx, j); err == nil && worth.Trouble(now) != "" {
				return &cke.Error{Code: cke.CodeCertificates, What: fmt.Sprintf("the learner on %s receives nothing: %s", a.Node.Name(), worth.Trouble(now))}
			}
		}
		if again || size != judged {
			judged = size
			has, err := a.hasDatabase(ctx, e, m, j, size)
			if err != nil {
				return err
			}
			if has {
				break
			}
		}
		if err := e.Pause(wait, 2*lookEvery); err != nil {
			return &cke.Error{Code: cke.CodeMemberSilent, What: fmt.Sprintf("the learner on %s has not received the database", a.Node.Name()), Err: err}
		}
	}
	return runOnOwnData(ctx, e, j, id.Incarnation.Token)
}

// patience is how long the learner may take to receive the database, by how large it is.
func (a AddMember) patience(ctx context.Context, e Env) time.Duration {
	list, _, err := readList(ctx, e)
	if err != nil {
		return catchUpLimit
	}
	return catchUpLimit + time.Duration(e.Etcd.Endpoint(ctx, list.via).DBSize/ReceiveRate)*time.Second
}

// runOnOwnData makes the container of a learner again with the arguments of StartOwnData, unless it has them: with those of
// its first start its engine does not start it by itself.
func runOnOwnData(ctx context.Context, e Env, j cke.Join, token string) error {
	m := e.Machines.Machine(j.Node)
	err := m.EnsureContainer(ctx, cke.MemberSpec{Cluster: e.Cluster, Join: j, Mode: cke.StartOwnData, Token: token})
	if !errors.Is(err, cke.ErrConflict) {
		return err // nil: it runs as it should already
	}
	list, _, err := readList(ctx, e)
	if err != nil {
		return err
	}
	if member, there := list.of(j); there && !member.Learner {
		return nil // another client has promoted it: it is restarted as a voter is, once the others can do without it
	}
	if err := stopKept(ctx, e, j); err != nil {
		return err
	}
	return startUnlessRuns(ctx, e, j, fmt.Errorf("the learner on %s was started as it was: %w", j.Node.Name(), cke.ErrConflict))
}

// hasDatabase compares the size of the learner's file with what the cluster's database holds.
func (a AddMember) hasDatabase(ctx context.Context, e Env, m cke.Machine, j cke.Join, size int64) (bool, error) {
	data, err := m.Data(ctx, j)
	if err != nil || data != cke.DataPresent {
		return false, err
	}
	list, _, err := readList(ctx, e)
	if err != nil {
		return false, err
	}
	member, there := list.of(j)
	if !there {
		return false, nil
	}
	if member.Name == "" && size < telling {
		return false, nil // it has not spoken to the leader yet, and any database is as large
	}
	source := e.Etcd.Endpoint(ctx, list.via)
	if source.Corrupt { // the next observation freezes the cluster
		return false, fmt.Errorf("etcd raised the alarm CORRUPT while the learner on %s received the database: %w", j.Node.Name(), cke.ErrConflict)
	}
	return source.Healthy() && size >= source.DBSizeInUse*9/10, nil
}

func (a AddMember) serve(ctx context.Context, e Env) error {
	j, _, err := a.join(ctx, e)
	if err != nil {
		return err
	}
	return awaitLoaded(ctx, e, j, cke.EndpointStatus.Healthy)
}
