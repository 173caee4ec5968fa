package op

import (
	"context"

	"cke"
)

// authorities makes the cluster's certificate authorities on first need.
func authorities() Step {
	return Step{Name: "certificate-authorities", Run: func(ctx context.Context, e Env) error { return e.Authority.Ensure(ctx) }}
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
	if err := rightClock(ctx, e, spec.Join.Node); err != nil {
		return err
	}
	files, err := e.Authority.MemberFiles(ctx, spec.Join)
	if err != nil {
		return err
	}
	return m.PutFiles(ctx, spec.Join, files)
}
