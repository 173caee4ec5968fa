package op

import (
	"context"
	"errors"
	"fmt"

	"cke"
)

// SetAuth turns etcd's authentication on or off. Before it is turned on, cke's own user is set up and read back over
// another connection; afterward a call that needs the role root proves that cke is admitted.
type SetAuth struct{ On bool }

var _ Operation = SetAuth{}

// Name implements Operation.
func (s SetAuth) Name() string {
	if s.On {
		return "enable-authentication"
	}
	return "disable-authentication"
}

// Targets implements Operation.
func (SetAuth) Targets() []string { return nil }

// Stages implements Operation.
func (s SetAuth) Stages() []Stage {
	set := Stage{{Name: s.Name(), Limit: changeLimit, Run: s.set}}
	prove := Stage{{Name: "prove", Limit: changeLimit, Run: func(ctx context.Context, e Env) error { return s.verify(ctx, e, s.On) }}}
	if !s.On {
		return []Stage{set, prove}
	}
	admit := Stage{{Name: "set up user " + cke.EtcdUser, Limit: changeLimit, Run: func(ctx context.Context, e Env) error {
		return throughAny(ctx, e, func(url string) error { return e.Etcd.AdmitSelf(ctx, url) })
	}}}
	verify := Stage{{Name: "verify", Limit: changeLimit, Run: s.admitted}}
	return []Stage{admit, verify, set, prove}
}

func (s SetAuth) set(ctx context.Context, e Env) error {
	if s.On { // what was verified may be long ago
		if err := s.admitted(ctx, e); err != nil {
			return err
		}
	}
	return throughAny(ctx, e, func(url string) error { return e.Etcd.SetAuth(ctx, url, s.On) })
}

// admitted reads cke's user back: without its role nothing could be changed once authentication is on.
func (SetAuth) admitted(ctx context.Context, e Env) error {
	return throughAny(ctx, e, func(url string) error {
		st, err := e.Etcd.Auth(ctx, url)
		if err == nil && !st.Admitted {
			err = &cke.Error{Code: cke.CodeAuth, What: fmt.Sprintf("user %s does not have the role root", cke.EtcdUser), Unchanged: true}
		}
		return err
	})
}

func (SetAuth) verify(ctx context.Context, e Env, on bool) error {
	return throughAny(ctx, e, func(url string) error {
		st, err := e.Etcd.Auth(ctx, url)
		switch {
		case err != nil:
			return err
		case st.Enabled != on:
			return &cke.Error{Code: cke.CodeAuth, What: "another client changed etcd's authentication meanwhile"}
		case on && !st.Admitted:
			return &cke.Error{Code: cke.CodeAuth, What: "etcd's authentication is on and refuses cke"}
		}
		return nil
	})
}

// throughAny asks one member after the other until one has done it.
func throughAny(ctx context.Context, e Env, ask func(url string) error) error {
	return through(ctx, e, false, ask)
}

// through asks the cluster's members: all of them, or one after the other until one has done it.
func through(ctx context.Context, e Env, all bool, ask func(url string) error) error {
	id, err := e.Ledger.Identity(ctx)
	if err != nil {
		return err
	}
	return throughThese(ctx, e, id.Joins, id.NotOurs, all, ask)
}

// throughThese leaves out members that unfit has a reason against. It fails if no member has done what was asked.
func throughThese(ctx context.Context, e Env, joins []cke.Join, unfit func(cke.EndpointStatus) string, all bool,
	ask func(url string) error) error {
	var failed []error
	done := false
	for _, j := range joins {
		if why := unfit(e.Etcd.Endpoint(ctx, j.ClientURL())); why != "" {
			failed = append(failed, fmt.Errorf("%s: %s", j.Node.Name(), why))
			continue
		}
		err := ask(j.ClientURL())
		if done = done || err == nil; done && !all {
			return nil
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", j.Node.Name(), err))
		}
	}
	switch {
	case done:
		return nil
	case failed == nil: // as before the first member of cke joins an old cluster
		return fmt.Errorf("no member is on record that could be asked: %w", cke.ErrNotReady)
	}
	return errors.Join(failed...)
}
