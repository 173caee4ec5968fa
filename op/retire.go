package op

import (
	"context"
	"errors"

	"cke"
)

// retireStep stops a container that carries no member any more, and removes it, unless it is of a life that is not on
// record and holds data: that may be what the operator needs. The volume is kept.
//
// etcd gives a member that joins the id that the list has at its peer URL, whoever it is. A container that was made for a
// learner and is started late, by a call that lands long after its caller gave it up or by the operator, would take the id of
// the member that is on the node by then, without that one's data. One that is gone is started by nobody: a start names
// it by the engine's id of it.
func retireStep(j cke.Join) Step {
	s := stopStep(j)
	stop := s.Run
	s.Run = func(ctx context.Context, e Env) error {
		if err := stop(ctx, e); err != nil {
			return err
		}
		id, err := e.Ledger.Identity(ctx)
		if err != nil {
			return err
		}
		if _, lasts := id.Join(j.ID); lasts {
			return nil
		}
		if _, known := ended(id, j.ID); !known {
			return removeEmpty(ctx, e, j)
		}
		return removeContainer(ctx, e, j)
	}
	return s
}

// unless returns a step that first asks, of the record as it is then, why it must not be done.
func unless(s Step, refused func(context.Context, Env, cke.Identity) error) Step {
	run := s.Run
	s.Run = func(ctx context.Context, e Env) error {
		id, err := e.Ledger.Identity(ctx)
		if err != nil {
			return err
		}
		if err := refused(ctx, e, id); err != nil {
			return err
		}
		return run(ctx, e)
	}
	return s
}

// removeEmpty removes a container whose volume holds no data. One that has data continues from its own log, which names
// another cluster than the present one.
func removeEmpty(ctx context.Context, e Env, j cke.Join) error {
	switch data, err := e.Machines.Machine(j.Node).Data(ctx, j); {
	case errors.Is(err, cke.ErrNotFound):
		return nil
	case err != nil:
		return err
	case data == cke.DataPresent:
		return nil
	}
	return removeContainer(ctx, e, j)
}
