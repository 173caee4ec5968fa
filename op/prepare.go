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

// prepareMember makes the volume, the container and the certificates of a member that was never started.
func prepareMember(ctx context.Context, e Env, spec cke.MemberSpec) error {
	if err := makeContainer(ctx, e, spec); err != nil {
		return err
	}
	return certify(ctx, e, spec.Join)
}

// prepareFounder is prepareMember for a first member, which gets its first log as well.
func prepareFounder(ctx context.Context, e Env, spec cke.MemberSpec) error {
	if err := makeContainer(ctx, e, spec); err != nil {
		return err
	}
	return certifyBy(ctx, e, spec.Join, func(files []cke.File) error {
		return e.Machines.Machine(spec.Join.Node).PutFounder(ctx, spec, files)
	})
}

func makeContainer(ctx context.Context, e Env, spec cke.MemberSpec) error {
	m := e.Machines.Machine(spec.Join.Node)
	if err := m.EnsureVolume(ctx, spec); err != nil {
		return err
	}
	return m.EnsureContainer(ctx, spec)
}

// certify gives a member that does not run all files that it needs, and puts on record whom it will trust. Clocks are
// compared once the certificates are issued: one that jumped right before dated them.
func certify(ctx context.Context, e Env, j cke.Join) error {
	return certifyBy(ctx, e, j, func(files []cke.File) error { return e.Machines.Machine(j.Node).PutFiles(ctx, j, files) })
}

func certifyBy(ctx context.Context, e Env, j cke.Join, put func([]cke.File) error) error {
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
	if err := put(files); err != nil {
		return err
	}
	if bundle := id.Authorities.Bundle(); bundle != j.Bundle {
		return putJoin(ctx, e, j.ID, func(j *cke.Join) { j.Bundle = bundle })
	}
	return nil
}
