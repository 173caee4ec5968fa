package main

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cke"
	"cke/backup"
	"cke/clusterfile"
	"cke/storage"
)

// declareFile takes a cluster from the user's file.
func (r *restoring) declareFile(ctx context.Context, o restoreOptions) error {
	c, data, err := r.app.readCluster(ctx, o.file)
	if err != nil {
		return err
	}
	if r.app.cluster != "" && r.app.cluster != c.Name {
		return &cke.Error{Code: cke.CodeCluster, What: fmt.Sprintf("%s describes cluster %s, and %s was chosen", fileName(o.file), c.Name, r.app.cluster), Unchanged: true}
	}
	r.cluster, r.spec = c.Name, c.WithDefaults()
	if _, err := r.store.Spec(ctx, c.Name); !errors.Is(err, cke.ErrNotFound) {
		if err == nil {
			err = &cke.Error{Code: cke.CodeConflict, What: "cluster " + c.Name + " is in the store already", Unchanged: true,
				Facts: []string{"its file is changed with `ckecli cluster set`, then it is restored"}, Try: "ckecli restore --cluster " + c.Name}
		}
		return err
	}
	r.from(o.backups)
	r.asked.Declare = &storage.Declared{Cluster: c, Source: data}
	if r.order.Source != c.Name {
		return nil // another cluster has certificate authorities of its own
	}
	e, _, err := r.readEscrow(ctx, o)
	if err == nil {
		err = r.adopt(e, o)
	}
	if err == nil {
		return r.vouched(o)
	}
	if errors.Is(err, backup.ErrNotFound) || errors.Is(err, backup.ErrEmpty) {
		return nil
	}
	return err
}

// declareEscrow brings back a cluster of which nothing is left but its backups.
func (r *restoring) declareEscrow(ctx context.Context, o restoreOptions) error {
	r.from(o.backups)
	e, spec, err := r.readEscrow(ctx, o)
	if err != nil {
		return err
	}
	c, _, err := clusterfile.ParseCluster("the cluster file beside the backups", spec)
	if err != nil {
		return err
	}
	r.cluster, r.spec = c.Name, c.WithDefaults()
	r.order.Source = e.Cluster
	r.asked.Declare = &storage.Declared{Cluster: c, Source: spec}
	if err := r.adopt(e, o); err != nil {
		return err
	}
	return r.vouched(o)
}

// readEscrow reads what lies beside the backups of the cluster's last life, also where the state of an earlier one was chosen: its members
// may run.
func (r *restoring) readEscrow(ctx context.Context, o restoreOptions) (e cke.Escrow, spec []byte, err error) {
	chosen := o.backups
	chosen.target, chosen.cluster = r.order.Target, r.order.Source
	b, err := r.app.openBackups(ctx, chosen)
	if err != nil {
		return e, nil, err
	}
	defer b.Close()
	for _, key := range backup.SignersOf(b.identities) {
		r.lent = append(r.lent, string(key))
	}
	s, err := b.store(ctx)
	if err != nil {
		return e, nil, err
	}
	fail := func(err error) error { return b.fail(ctx, "read what lies beside the backups of "+s.Cluster, err) }
	lineage := o.point.lineage
	if lineage == "" {
		l, notes, err := s.Present(ctx)
		if err != nil {
			return e, nil, fail(err)
		}
		lineage, r.plan.Notes = l.Name, append(r.plan.Notes, notes...)
	}
	there, err := readBeside(ctx, s, lineage)
	if err != nil && !errors.Is(err, backup.ErrNotFound) {
		return e, nil, fail(err)
	}
	there, notes, unread := lastLife(ctx, s, there)
	if there.lineage == lineage {
		unread = cmp.Or(unread, err)
	}
	if unread != nil {
		return e, nil, fail(unread)
	}
	r.plan.Notes = append(r.plan.Notes, notes...)
	if there.lineage != lineage && o.point.lineage != "" {
		r.plan.Notes = append(r.plan.Notes, fmt.Sprintf("cluster file, members and authorities are those of the last incarnation, %s", there.lineage))
	}
	r.signed = there.trusted
	return there.escrow, there.spec, nil
}

// beside is what lies beside the backups of one life.
type beside struct {
	lineage string
	escrow  cke.Escrow
	spec    []byte
	trusted bool // both are signed by a key that is trusted
}

func readBeside(ctx context.Context, s *backup.Store, lineage string) (b beside, err error) {
	b.lineage = lineage
	data, signed, err := s.TrustedFile(ctx, lineage, backup.FileIdentity)
	if err != nil {
		return b, err
	}
	if b.spec, b.trusted, err = s.TrustedFile(ctx, lineage, backup.FileSpec); err != nil {
		return b, err
	}
	b.trusted = b.trusted && signed
	b.escrow, err = cke.ParseEscrow(data)
	return b, err
}

// lastLife follows what lies beside the backups of one life to the last one that took its place, as far as signatures are as good. What
// cannot be read elsewhere is noted.
func lastLife(ctx context.Context, s *backup.Store, b beside) (last beside, notes []string, err error) {
	lineages, err := s.Lineages(ctx)
	if err != nil {
		return b, nil, err
	}
	var all []beside
	for _, l := range lineages {
		if l.Name == b.lineage || len(l.Files) == 0 {
			continue
		}
		next, err := readBeside(ctx, s, l.Name)
		var unknown *cke.Error
		switch {
		case errors.Is(err, backup.ErrNotFound):
		case backup.IsDamage(err), errors.As(err, &unknown) && (next.trusted || !b.trusted):
			notes = append(notes, fmt.Sprintf("what lies beside the backups of incarnation %s cannot be read; if that incarnation is a later one, its members are not known: %v", l.Name, err))
		case unknown != nil, err == nil && !next.trusted && b.trusted: // anybody can have written it
		case err != nil:
			return b, nil, err
		default:
			all = append(all, next)
		}
	}
	for range all {
		life := b.lineage // nothing may lie beside its backups
		if inc := b.escrow.Identity.Incarnation; inc != nil {
			life = inc.ID
		}
		follows := func(n beside) bool { return n.escrow.Identity.Incarnation.WasReplaced(life) }
		i := slices.IndexFunc(all, func(n beside) bool { return n.trusted && follows(n) })
		if i < 0 && !b.trusted {
			i = slices.IndexFunc(all, follows)
		}
		if i < 0 {
			break
		}
		b = all[i]
	}
	return b, notes, nil
}

// vouched refuses a cluster file and an identity that no trusted key signed, unless the user has checked what would run.
func (r *restoring) vouched(o restoreOptions) error {
	if r.signed {
		return nil
	}
	facts := r.runsAsRoot()
	if slices.Contains(o.backups.trust, cke.TrustAny) {
		r.plan.Notes = append(append(r.plan.Notes, "what lies beside the backups is not signed by a key that is trusted, and this runs as root on the nodes:"), facts...)
		return nil
	}
	e := &cke.Error{Code: cke.CodeUntrusted, What: "what lies beside the backups of " + r.order.Source + " is not signed by a key that is trusted", Unchanged: true,
		Facts: append(facts, "this would run as root on the nodes: see that it is yours"), Try: "the same command with --trust any"}
	if len(r.lent) > 0 {
		e.Facts = append(e.Facts, "a key that --key names opens backups and vouches for none; if it is the key file of the former management host, add --trust "+strings.Join(r.lent, " or "))
		e.Try = "the same command with --trust KEY, or with --trust any"
	}
	return e
}

// runsAsRoot says what a cluster that is declared from a target would trust and run.
func (r *restoring) runsAsRoot() (facts []string) {
	for _, name := range slices.Sorted(maps.Keys(r.asked.Declare.Secrets)) {
		block, _ := pem.Decode(r.asked.Declare.Secrets[name])
		if block == nil {
			continue
		}
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
			facts = append(facts, fmt.Sprintf("certificate authority %s: %s", strings.TrimPrefix(name, "pki/"), cke.Fingerprint(cert)))
		}
	}
	etcd := r.spec.Options.Etcd
	facts = append(facts, "image "+etcd.Image)
	for _, b := range etcd.ExtraBinds {
		facts = append(facts, fmt.Sprintf("bind %s to %s", b.Source, b.Destination))
	}
	return facts
}

// adopt opens the secrets of an escrow, with the first key file that is the right one.
func (r *restoring) adopt(e cke.Escrow, o restoreOptions) error {
	config, err := r.app.loadConfig()
	if err != nil {
		return err
	}
	d := r.asked.Declare
	d.Identity, d.Etcd = e.Identity, cke.Spec{}.Resolved(e.Identity).Etcd
	d.HostKeys, d.Secrets, r.sshKeys = e.HostKeys, map[string][]byte{}, map[string][]byte{}
	var why error
	for _, file := range append([]string{config.SecretKeyFile}, o.backups.keys...) {
		if why = r.open(file, e); why == nil {
			return nil
		}
	}
	var coded *cke.Error
	if errors.As(why, &coded) {
		coded.Facts = append(coded.Facts, "the certificate authorities and SSH keys beside the backups are sealed with it",
			"put the key file of the former management host in place, or name it with --key FILE")
		coded.Unchanged = true
	}
	return why
}

func (r *restoring) open(file string, e cke.Escrow) error {
	for _, secret := range e.Secrets {
		node, ssh := strings.CutPrefix(secret.Name, "ssh-key")
		if !ssh && !strings.HasPrefix(secret.Name, "pki/") {
			continue
		}
		value, err := storage.OpenSealed(file, e, secret)
		if err != nil {
			return err
		}
		if ssh {
			r.sshKeys[strings.TrimPrefix(node, "/")] = value
		} else {
			r.asked.Declare.Secrets[secret.Name] = value
		}
	}
	return nil
}
