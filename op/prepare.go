package op

import (
	"context"

	"cke"
)

// authorities makes the cluster's certificate authorities on first need.
func authorities() Step {
	return Step{Name: "certificate-authorities", Run: func(ctx context.Context, e Env) error {
		id, err := e.Ledger.Identity(ctx)
		if err != nil {
			return err
		}
		return e.Authority.Ensure(ctx, id.Authorities)
	}}
}

// lowestFirst splits the starts of founders, which are sorted by peer URL: the first one listens before the others start.
// etcd asks every peer in turn, with a second each, while they listen and do not serve.
func lowestFirst(start Stage) []Stage {
	if len(start) < 2 {
		return []Stage{start}
	}
	return []Stage{start[:1], start[1:]}
}

// prepareMember makes the volume, the container and the certificates of a member that was never started.
func prepareMember(ctx context.Context, e Env, spec cke.MemberSpec) error {
	m := e.Machines.Machine(spec.Join.Node)
	if err := m.EnsureVolume(ctx, spec); err != nil {
		return err
	}
	if err := m.EnsureContainer(ctx, spec); err != nil {
		return err
	}
	return certify(ctx, e, spec.Join)
}

// certify gives a member that does not run all files that it needs, and puts on record whom it will trust. Clocks are
// compared once the certificates are issued: one that jumped right before dated them.
func certify(ctx context.Context, e Env, j cke.Join) error {
	id, err := e.Ledger.Identity(ctx)
	if err != nil {
		return err
	}
	files, err := e.Authority.MemberFiles(ctx, j, id.Authorities)
	if err != nil {
		return err
	}
	if err := rightClock(ctx, e, j.Node); err != nil {
		return err
	}
	if err := e.Machines.Machine(j.Node).PutFiles(ctx, j, files); err != nil {
		return err
	}
	if bundle := id.Authorities.Bundle(); bundle != j.Bundle {
		return putJoin(ctx, e, j.ID, func(j *cke.Join) { j.Bundle = bundle })
	}
	return nil
}
