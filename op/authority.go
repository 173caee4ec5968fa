package op

import (
	"context"
	"fmt"
	"slices"

	"cke"
)

// RotateAuthority starts the replacement of a certificate authority: the next one is created beside the current one.
// Nothing else changes yet; the record decides what follows.
type RotateAuthority struct {
	Authority cke.AuthorityName
	// Task is the id of the task that requested it, By its user.
	Task, By string
}

var _ Operation = RotateAuthority{}

// Name implements Operation.
func (RotateAuthority) Name() string { return "rotate-authority" }

// Targets implements Operation: it is about the cluster.
func (RotateAuthority) Targets() []string { return nil }

// Stages implements Operation.
func (r RotateAuthority) Stages() []Stage {
	return []Stage{{{Name: "make", Run: r.make}}, {{Name: "record", Run: r.record}}}
}

// present returns the identity of a formed cluster, and the record of the authority.
func (r RotateAuthority) present(ctx context.Context, e Env) (cke.Identity, cke.AuthorityRecord, error) {
	id, err := e.Ledger.Identity(ctx)
	if err == nil && (id.Incarnation == nil || id.Incarnation.State != cke.Formed) {
		err = fmt.Errorf("the cluster is not formed: %w", cke.ErrConflict)
	}
	return id, id.Authorities.Of(r.Authority), err
}

// make stores the next one before it is on record.
func (r RotateAuthority) make(ctx context.Context, e Env) error {
	id, now, err := r.present(ctx, e)
	if err != nil || now.Task == r.Task {
		return err
	}
	for _, j := range id.Joins { // one node that can be asked is enough
		if err = rightClock(ctx, e, j.Node); err == nil {
			break
		}
	}
	if err != nil {
		return err
	}
	_, err = e.Authority.CreateCA(ctx, r.Authority, now.Current.Generation+1)
	return err
}

// record puts the next one on record, and all others with it where none is yet: what members are to trust is known then.
func (r RotateAuthority) record(ctx context.Context, e Env) error {
	id, now, err := r.present(ctx, e)
	switch {
	case err != nil:
		return err
	case now.Task == r.Task:
		return nil // a former attempt
	case now.Next != nil:
		return fmt.Errorf("the %s authority is already being replaced: %w", r.Authority, cke.ErrConflict)
	}
	all := id.Authorities
	for _, name := range cke.AuthorityNames() {
		is := all.Of(name)
		if is.Current.Fingerprint != "" {
			continue
		}
		if is.Current, err = e.Authority.CA(ctx, name, is.Current.Generation); err != nil {
			return err
		}
		all = all.With(name, is)
	}
	now = all.Of(r.Authority)
	next, err := e.Authority.CA(ctx, r.Authority, now.Current.Generation+1)
	if err != nil {
		return err
	}
	now.Next, now.Phase, now.Since, now.Task, now.By = &next, cke.AuthorityIntroduced, e.Now().UTC(), r.Task, r.By
	return e.Ledger.PutAuthorities(ctx, id.Authorities, all.With(r.Authority, now))
}

// AdvanceAuthority records the next phase of an authority's replacement, after it has checked that every member has
// what it needs for it.
type AdvanceAuthority struct {
	Authority cke.AuthorityName
	// From is the phase that is over.
	From cke.AuthorityPhase
	// Joins are all memberships, on their nodes as declared now.
	Joins []cke.Join
}

var _ Operation = AdvanceAuthority{}

// Name implements Operation.
func (AdvanceAuthority) Name() string { return "advance-authority" }

// Targets implements Operation: it is about the cluster.
func (AdvanceAuthority) Targets() []string { return nil }

// Stages implements Operation.
func (a AdvanceAuthority) Stages() []Stage {
	var look Stage
	for _, j := range a.Joins {
		look = append(look, Step{Name: "look", Node: j.Node.Name(), Run: func(ctx context.Context, e Env) error { return a.look(ctx, e, j) }})
	}
	return []Stage{look, {{Name: "record", Run: a.record}}}
}

// look reads what a member has.
func (a AdvanceAuthority) look(ctx context.Context, e Env, j cke.Join) error {
	id, err := a.in(ctx, e)
	if err != nil || id.Authorities.Of(a.Authority).Phase != a.From {
		return err
	}
	_, worth, err := e.Machines.Machine(j.Node).Certificates(ctx, j)
	if err != nil {
		return err
	}
	if why := Unfit(id.Authorities, a.Authority, worth); why != "" {
		return &cke.Error{Code: cke.CodeCertificates, What: fmt.Sprintf("%s %s", j.Node.Name(), why), Facts: facts(worth.Damage)}
	}
	return nil
}

// Unfit returns why a member's files do not suffice for the next phase of an authority's replacement; empty: they do.
func Unfit(all cke.Authorities, name cke.AuthorityName, worth cke.CertificateFiles) string {
	switch r := all.Of(name); {
	case worth.Bundle() != all.Bundle():
		return "does not have the authorities that it must trust"
	case name != cke.ClientAuthority && worth.SignedBy(name) != r.Signs().Fingerprint:
		return fmt.Sprintf("has no certificate of the %s authority that now issues them", name)
	}
	return ""
}

// in returns the identity of a formed cluster.
func (a AdvanceAuthority) in(ctx context.Context, e Env) (cke.Identity, error) {
	id, err := e.Ledger.Identity(ctx)
	if err == nil && (id.Incarnation == nil || id.Incarnation.State != cke.Formed) {
		err = fmt.Errorf("the cluster is not formed: %w", cke.ErrConflict)
	}
	return id, err
}

// record asks once more whether every member, by the list that a quorum has, was started with what it is to trust.
func (a AdvanceAuthority) record(ctx context.Context, e Env) error {
	list, _, err := readList(ctx, e)
	if err != nil {
		return err
	}
	id, err := a.in(ctx, e)
	if err != nil {
		return err
	}
	r := id.Authorities.Of(a.Authority)
	if r.Phase != a.From {
		return nil // a former attempt
	}
	for _, j := range id.Joins {
		looked := slices.ContainsFunc(a.Joins, func(o cke.Join) bool { return o.ID == j.ID })
		if !looked || j.StartedAt.IsZero() || j.Bundle != id.Authorities.Bundle() {
			return fmt.Errorf("the member on %s was not started with the authorities that it must trust: %w", j.Node.Name(), cke.ErrNotReady)
		}
	}
	for _, m := range list.members {
		if !slices.ContainsFunc(id.Joins, m.Of) {
			return fmt.Errorf("member %s is a foreign member: %w", m.ID, cke.ErrNotReady)
		}
	}
	return e.Ledger.PutAuthorities(ctx, id.Authorities, id.Authorities.With(a.Authority, r.Advanced(e.Now())))
}
