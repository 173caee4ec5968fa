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

// RenewCertificates gives a member valid certificates, whether it runs or not. etcd reads them at each new handshake,
// so nothing is stopped and no connection is closed.
//
// The member keeps its keys, and only certificates are written: a read of certificate and key between two writes
// returns a matching pair, and a volume that is emptied meanwhile gets nothing that a member could start with. A key
// that cannot be used is replaced only if the container cannot bootstrap a cluster, see docs/decisions/0002.
type RenewCertificates struct{ Join cke.Join }

var _ Operation = RenewCertificates{}

// shownLimit bounds the wait for a member that answered to show what was written.
const shownLimit = DefaultStepLimit / 2

// Name implements Operation.
func (RenewCertificates) Name() string { return "renew-certificates" }

// Targets implements Operation.
func (r RenewCertificates) Targets() []string { return []string{r.Join.Node.Name()} }

// Stages implements Operation.
func (r RenewCertificates) Stages() []Stage {
	return []Stage{{{Name: "renew", Node: r.Join.Node.Name(), Limit: 2*DefaultStepLimit + stopLimit, Run: r.renew}}}
}

// renew writes what is missing or does not last, then looks what the files are worth.
func (r RenewCertificates) renew(ctx context.Context, e Env) error {
	id, err := e.Ledger.Identity(ctx)
	if err != nil {
		return err
	}
	j, lasts := id.Join(r.Join.ID)
	if !lasts || id.Incarnation == nil || id.Incarnation.State != cke.Formed {
		return fmt.Errorf("%s is not a membership of a formed cluster: %w", r.Join.ID, cke.ErrConflict)
	}
	j.Node = r.Join.Node
	m := e.Machines.Machine(j.Node)
	before, err := m.Container(ctx, j)
	if err != nil {
		return err
	}
	have, old, err := m.Certificates(ctx, j)
	if err != nil {
		return err
	}
	files, err := e.Authority.RenewMember(ctx, j, id.Authorities, have)
	if err != nil {
		return err
	}
	if err := rightClock(ctx, e, j.Node); err != nil { // as in certify
		return err
	}
	answered := before.Running() && e.Etcd.Endpoint(ctx, j.ClientURL()).Problem == ""
	if slices.ContainsFunc(files, func(f cke.File) bool { return strings.HasSuffix(f.Path, ".key") }) {
		spec := cke.MemberSpec{Cluster: e.Cluster, Join: j, Mode: cke.StartOwnData, Token: id.Incarnation.Token}
		if err := bearsKeys(ctx, m, spec); err != nil {
			return err
		}
	}
	if err := keepsTrust(ctx, e, id, j, old, files); err != nil {
		return err
	}
	if err := m.PutFiles(ctx, j, files); err != nil {
		return err
	}
	_, written, err := m.Certificates(ctx, j)
	if err != nil {
		return err
	}
	if err := better(j, old, written, e.Now()); err != nil || !answered {
		return err
	}
	return r.shown(ctx, e, j, written.NotAfter)
}

// bearsKeys makes sure that the container may be given whole pairs: its arguments cannot start a member without its data, and
// the data is there. One that the engine starts again and again is stopped for it, and one that runs is left as it is.
func bearsKeys(ctx context.Context, m cke.Machine, spec cke.MemberSpec) error {
	j := spec.Join
	c, err := m.Container(ctx, j)
	if err != nil {
		return err
	}
	if c.Running() && !c.StartsEmpty {
		return needData(ctx, m, j)
	}
	if c.State == cke.ContainerRestarting {
		if err := m.StopContainer(ctx, j, stopGrace); err != nil {
			return err
		}
	}
	err = m.EnsureContainer(ctx, spec)
	if errors.Is(err, cke.ErrConflict) {
		return &cke.Error{Code: cke.CodeCertificates, What: fmt.Sprintf("a key of the member on %s cannot be used, and its container must be recreated before it gets a new one", j.Node.Name()),
			Facts: []string{"cke does not stop a member for this; a stopped member gets its keys and is started"}, Unchanged: true,
			Try: fmt.Sprintf("on %s, while the others serve: docker restart %s", j.Node.Address, j.Volume), Err: err}
	}
	if err != nil {
		return dataGone(j, err)
	}
	return needData(ctx, m, j)
}

// better refuses what was written unless it holds, and is of another authority than what was there, or holds for longer.
func better(j cke.Join, before, after cke.CertificateFiles, now time.Time) error {
	fail := func(what string, facts ...string) error {
		return &cke.Error{Code: cke.CodeCertificates, What: fmt.Sprintf("the certificates of the member on %s were renewed, but %s", j.Node.Name(), what), Facts: facts}
	}
	switch {
	case !after.Hold(now):
		return fail(after.Trouble(now))
	case before.Hold(now) && !after.NotAfter.After(before.NotAfter) && after.PeerSigner == before.PeerSigner && after.ServerSigner == before.ServerSigner:
		return fail("they do not expire later than "+before.NotAfter.Format(time.RFC3339),
			"a member's certificate never outlives the authority that signs it: `ckecli status -o wide` and `openssl x509` show when that expires")
	}
	return nil
}

// shown waits until the member shows a certificate that lasts.
func (r RenewCertificates) shown(ctx context.Context, e Env, j cke.Join, until time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, shownLimit)
	defer cancel()
	for {
		if s := e.Etcd.Endpoint(ctx, j.ClientURL()); s.Problem == "" && !s.CertNotAfter.Before(until) {
			return nil
		}
		if err := e.Pause(ctx, 10*lookEvery); err != nil {
			return &cke.Error{Code: cke.CodeCertificates, What: fmt.Sprintf("the member on %s does not present the certificate that expires at %s", j.Node.Name(), until.Format(time.RFC3339)), Err: err}
		}
	}
}
