package op

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"cke"
)

// Limits of the bootstrap's longer steps.
const (
	imageLimit  = 10 * time.Minute // pull or load over a slow line
	targetLimit = 6 * time.Minute  // a target that lists many objects
	formLimit   = 30 * time.Second // from the last start to a linearizable read through every member
)

// Bootstrap starts the cluster's first members on its control-plane nodes, or resumes a bootstrap that a crash
// interrupted after its start was recorded.
//
// Nothing on any node changes before the incarnation is stored. One daemon, whose every call was answered, prepares
// everything on every node before the first start, including each member's first log: so nothing that makes a member
// able to start can take effect later. A member is started with arguments that cannot start it without its log. No
// client is served before the incarnation is formed.
type Bootstrap struct {
	// Spec is the declared cluster, with defaults; its control-plane nodes get the first members of a new incarnation.
	Spec cke.Cluster
	// Founders are these nodes, sorted by peer URL: those of the incarnation if it exists.
	Founders []cke.Node
	// Resume: the incarnation exists already.
	Resume bool
}

var _ Operation = Bootstrap{}

// Name implements Operation.
func (b Bootstrap) Name() string {
	if b.Resume {
		return "resume-bootstrap"
	}
	return "bootstrap"
}

// Targets implements Operation.
func (b Bootstrap) Targets() []string { return names(b.Founders) }

// Stages implements Operation.
func (b Bootstrap) Stages() []Stage {
	images := onEach(b.Founders, "image", imageLimit, b.image)
	prepare := onEach(b.Founders, "prepare", 0, b.prepare)
	start := onEach(b.Founders, "start", 0, b.start)
	stages := []Stage{
		append(images, authorities()),
		{{Name: "record-incarnation", Limit: recordLimit(b.Spec.Backup.Target), Run: b.recordIncarnation}},
		prepare,
		{{Name: "record-start", Run: b.recordStart}},
	}
	return append(stages,
		start,
		onEach(b.Founders, "serve", formLimit, b.serve),
		onEach(b.Founders, "keep-running", 0, b.keepRunning),
		Stage{{Name: "record-formed", Run: b.recordFormed}},
	)
}

func (b Bootstrap) image(ctx context.Context, e Env, n cke.Node) error {
	return e.Machines.Machine(n).EnsureImage(ctx, b.Spec.Options.Etcd.Image, e.Progress)
}

// recordLimit is longer where a target is read first.
func recordLimit(target string) time.Duration {
	if target == "" {
		return 0
	}
	return targetLimit
}

// recordIncarnation stores who the cluster is going to be, before anything touches a node. A target that has another cluster of this name keeps
// it from being made: nodes that the file does not name may serve that one.
func (b Bootstrap) recordIncarnation(ctx context.Context, e Env) error {
	id, err := e.Ledger.Identity(ctx)
	if err != nil {
		return err
	}
	if inc := id.Incarnation; inc != nil && inc.State != cke.Abandoned {
		if b.Resume && inc.State == cke.Forming && inc.AbandonedAt.IsZero() && id.Started() {
			return nil
		}
		return fmt.Errorf("the cluster has incarnation %s (%s): %w", inc.ID, inc.State, cke.ErrConflict)
	}
	if err := noSecond(ctx, e, b.Spec.Backup.Target, id); err != nil {
		return err
	}
	inc := cke.NewIncarnation(b.Spec, id.Incarnation, e.Now())
	return e.Ledger.CreateIncarnation(ctx, inc)
}

// noSecond refuses the first member of a cluster whose backup target has another cluster of its name.
func noSecond(ctx context.Context, e Env, target string, id cke.Identity) error {
	if e.Snapshots == nil || target == "" {
		return nil
	}
	return e.Snapshots.NoSecond(ctx, target, id, e.Progress)
}

// forming returns the incarnation and the join of the first member on n, and refuses unless the cluster is forming.
func forming(ctx context.Context, e Env, n cke.Node) (cke.Incarnation, cke.Join, error) {
	id, err := e.Ledger.Identity(ctx)
	if err != nil {
		return cke.Incarnation{}, cke.Join{}, err
	}
	if err := isForming(id); err != nil {
		return cke.Incarnation{}, cke.Join{}, err
	}
	if j, there := id.On(n); there {
		return *id.Incarnation, j, nil
	}
	return cke.Incarnation{}, cke.Join{}, fmt.Errorf("%s is not part of the bootstrap: %w", n.Name(), cke.ErrConflict)
}

func founding(cluster string, inc cke.Incarnation, j cke.Join) cke.MemberSpec {
	s := cke.MemberSpec{Cluster: cluster, Join: j, Mode: cke.StartPrepared, Token: inc.Token}
	for _, f := range inc.Founders {
		s.Peers = append(s.Peers, cke.Peer{Name: f.Member, URL: f.PeerURL()})
	}
	return s
}

// prepare makes volume, container and certificates of one first member; nothing runs yet.
func (b Bootstrap) prepare(ctx context.Context, e Env, n cke.Node) error {
	inc, j, err := forming(ctx, e, n)
	if err != nil {
		return err
	}
	m := e.Machines.Machine(n)
	c, err := m.Container(ctx, j)
	if err != nil && !errors.Is(err, cke.ErrNotFound) {
		return err
	}
	there := err == nil
	switch {
	case there && c.Running():
		return nil // resumed after the start
	case j.StartedAt.IsZero():
		return prepareFounder(ctx, e, founding(e.Cluster, inc, j))
	case !there:
		return &cke.Error{Code: cke.CodeDataMissing, What: fmt.Sprintf("container %s on %s is gone", j.Volume, j.Node.Name()), Err: cke.ErrDataMissing}
	}
	return needLog(ctx, m, j, c)
}

// needLog refuses to resume with a first member whose log is gone. Nothing is put back into its volume: a first member that forgot
// what it agreed to must not take part under the same id.
func needLog(ctx context.Context, m cke.Machine, j cke.Join, c cke.Container) error {
	err := needData(ctx, m, j)
	if errors.Is(err, cke.ErrDataMissing) && c.State == cke.ContainerRestarting { // so that what is wrong with it can be seen
		err = errors.Join(err, m.StopContainer(ctx, j, stopGrace))
	}
	return err
}

// recordStart stores that the first members are about to start, all in one transaction.
func (b Bootstrap) recordStart(ctx context.Context, e Env) error {
	id, err := e.Ledger.Identity(ctx)
	if err != nil {
		return err
	}
	var joins []cke.Join
	for _, j := range id.Joins {
		if j.StartedAt.IsZero() {
			j.StartedAt = e.Now().UTC()
			joins = append(joins, j)
		}
	}
	if len(joins) == 0 {
		return nil
	}
	return e.Ledger.PutJoins(ctx, id, joins...)
}

func (b Bootstrap) start(ctx context.Context, e Env, n cke.Node) error {
	_, j, err := forming(ctx, e, n)
	if err != nil {
		return err
	}
	return e.Machines.Machine(n).StartContainer(ctx, j)
}

// serve waits until the member answers linearizable reads, then takes a proposal through it.
func (b Bootstrap) serve(ctx context.Context, e Env, n cke.Node) error {
	_, j, err := forming(ctx, e, n)
	if err != nil {
		return err
	}
	if err := await(ctx, e, j, readsLinearizably); err != nil {
		return err
	}
	if err := e.Etcd.ProveWrite(ctx, j.ClientURL()); err != nil {
		return fmt.Errorf("write through %s: %w", j.ClientURL(), err)
	}
	return nil
}

func (b Bootstrap) keepRunning(ctx context.Context, e Env, n cke.Node) error {
	_, j, err := forming(ctx, e, n)
	if err != nil {
		return err
	}
	return keepRunning(ctx, e, j)
}

// recordFormed checks that exactly the first members are in the member list of one cluster, then ends the forming.
func (b Bootstrap) recordFormed(ctx context.Context, e Env) error {
	id, err := e.Ledger.Identity(ctx)
	if err != nil {
		return err
	}
	if err := isForming(id); err != nil {
		return err
	}
	inc := id.Incarnation
	joins := slices.Clone(id.Joins)
	for i := range joins {
		clusterID, members, err := e.Etcd.Members(ctx, joins[i].ClientURL())
		if err != nil {
			return fmt.Errorf("member list through %s: %w", joins[i].ClientURL(), err)
		}
		if inc.ClusterID == "" {
			inc.ClusterID = clusterID
		}
		if inc.ClusterID != clusterID {
			return &cke.Error{Code: cke.CodeSplitBrain, What: fmt.Sprintf("%s answers with cluster id %s, the others with %s", joins[i].Node.Name(), clusterID, inc.ClusterID)}
		}
		if len(members) != len(joins) {
			return fmt.Errorf("%s lists %s, but the bootstrap has %d", joins[i].Node.Name(), cke.Count(len(members), "member"), len(joins))
		}
		k := slices.IndexFunc(members, func(m cke.Member) bool { return slices.Contains(m.PeerURLs, joins[i].PeerURL()) })
		if k < 0 {
			return fmt.Errorf("%s is not in its own member list", joins[i].Node.Name())
		}
		joins[i].MemberID = members[k].ID
	}
	if err := e.Ledger.PutJoins(ctx, id, joins...); err != nil {
		return err
	}
	inc.State, inc.FormedAt = cke.Formed, e.Now().UTC()
	return e.Ledger.UpdateIncarnation(ctx, *inc)
}

func names(nodes []cke.Node) []string {
	var out []string
	for _, n := range nodes {
		out = append(out, n.Name())
	}
	return out
}

// onEach makes one step for each node.
func onEach(nodes []cke.Node, name string, limit time.Duration, run func(context.Context, Env, cke.Node) error) Stage {
	var stage Stage
	for _, n := range nodes {
		stage = append(stage, Step{Name: name, Node: n.Name(), Limit: limit, Run: func(ctx context.Context, e Env) error {
			return run(ctx, e, n)
		}})
	}
	return stage
}
