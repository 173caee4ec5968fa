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
	there, err := r.readEscrow(ctx, o)
	switch {
	case errors.Is(err, backup.ErrEmpty): // there is nothing to restore either
		return nil
	case err != nil:
		return err
	case there.missing != nil:
		r.plan.Notes = append(r.plan.Notes, "no identity lies beside the backups, so the nodes of "+fileName(o.file)+" are taken for those of the former members: if others had members, they may still serve")
		return nil
	}
	if err := r.adopt(there.escrow, o); err != nil {
		return err
	}
	return r.vouched(o)
}

// declareEscrow brings back a cluster of which nothing is left but its backups.
func (r *restoring) declareEscrow(ctx context.Context, o restoreOptions) error {
	r.from(o.backups)
	there, err := r.readEscrow(ctx, o)
	if err == nil {
		err = there.missing
	}
	if err != nil {
		return err
	}
	c, _, err := clusterfile.ParseCluster("the cluster file beside the backups", there.spec)
	if err != nil {
		return err
	}
	r.cluster, r.spec = c.Name, c.WithDefaults()
	r.order.Source = there.escrow.Cluster
	r.asked.Declare = &storage.Declared{Cluster: c, Source: there.spec}
	if err := r.adopt(there.escrow, o); err != nil {
		return err
	}
	return r.vouched(o)
}

// beside is what lies beside the backups of one life.
type beside struct {
	lineage string
	escrow  cke.Escrow
	trusted bool  // the identity is signed by a key that is trusted
	newer   error // damage of a newer identity, which may name other members
	missing error // there is no identity
	spec    []byte
}

// readEscrow reads what lies beside the backups of the cluster's last life, also where the state of an earlier one was chosen: its members
// may run. The cluster file is read if no other one was given.
func (r *restoring) readEscrow(ctx context.Context, o restoreOptions) (there beside, err error) {
	chosen := o.backups
	chosen.target, chosen.cluster = r.order.Target, r.order.Source
	b, err := r.app.openBackups(ctx, chosen)
	if err != nil {
		return there, err
	}
	defer b.Close()
	for _, key := range backup.SignersOf(b.identities) {
		r.lent = append(r.lent, string(key))
	}
	s, err := b.store(ctx)
	if err != nil {
		return there, err
	}
	fail := func(err error) error { return b.fail(ctx, "read what lies beside the backups of "+s.Cluster, err) }
	lineage := o.point.lineage
	if lineage == "" {
		l, notes, err := s.Present(ctx)
		if err != nil {
			return there, fail(err)
		}
		lineage, r.plan.Notes = l.Name, append(r.plan.Notes, notes...)
	}
	there, err = readBeside(ctx, s, lineage)
	if err != nil {
		return there, fail(err)
	}
	there, notes, err := lastLife(ctx, s, there)
	if err != nil {
		return there, fail(err)
	}
	r.plan.Notes = append(r.plan.Notes, notes...)
	if there.missing != nil {
		there.missing = fail(there.missing)
		return there, nil
	}
	if there.lineage != lineage && o.point.lineage != "" {
		r.plan.Notes = append(r.plan.Notes, fmt.Sprintf("cluster file, members and authorities are those of the last incarnation, %s", there.lineage))
	}
	if there.newer != nil {
		if err := r.olderIdentity(there, lineage, o.point.lineage != ""); err != nil {
			return there, err
		}
	}
	r.signed = there.trusted
	if o.file == "" {
		spec, err := s.TrustedFile(ctx, there.lineage, backup.FileSpec)
		if err != nil {
			return there, noSpec(fail(err))
		}
		if spec.Newer != nil {
			r.plan.Notes = append(r.plan.Notes, fmt.Sprintf("an older cluster file is used, because the newest one beside the backups is damaged: %v", spec.Newer))
		}
		there.spec, r.signed = spec.Data, there.trusted && spec.Trusted
	}
	return there, nil
}

// olderIdentity refuses an identity that is not the newest, unless the operator has named what is to be restored.
func (r *restoring) olderIdentity(there beside, lineage string, named bool) error {
	var nodes []string
	for _, j := range there.escrow.Identity.MayRun() {
		nodes = append(nodes, fmt.Sprintf("%s (%s)", j.Node.Name(), j.Node.Address))
	}
	known := "the members that are known are those on " + cmp.Or(strings.Join(nodes, ", "), "no node") + "; members that were added later are not known, and may still serve"
	if named {
		r.plan.Notes = append(r.plan.Notes, fmt.Sprintf("an older identity is used, because the newest one beside the backups is damaged: %v; %s", there.newer, known))
		return nil
	}
	return &cke.Error{Code: cke.CodeBackupDamaged, What: "the newest identity beside the backups of " + r.order.Source + " is damaged, and an older one may not name all members", Unchanged: true,
		Facts: []string{there.newer.Error(), known}, Try: "the same command with --lineage " + lineage + ", once no other member serves"}
}

// noSpec adds the way out where the cluster file cannot be read, and the identity can.
func noSpec(err error) error {
	if coded := new(cke.Error); errors.As(err, &coded) {
		if errors.Is(err, backup.ErrNotFound) {
			coded.Code = cke.CodeCannot
		}
		coded.Facts = append(coded.Facts, "the identity of the cluster is there: only its cluster file is missing or damaged")
		coded.Try = "the same command with --file FILE, which declares the nodes"
	}
	return err
}

// readBeside reads the identity of one life. That there is none is no error.
func readBeside(ctx context.Context, s *backup.Store, lineage string) (b beside, err error) {
	b.lineage = lineage
	f, err := s.TrustedFile(ctx, lineage, backup.FileIdentity)
	if errors.Is(err, backup.ErrNotFound) {
		b.missing = err
		return b, nil
	}
	b.trusted, b.newer = f.Trusted, f.Newer
	if err == nil {
		b.escrow, err = cke.ParseEscrow(f.Data)
	}
	return b, err
}

// lastLife follows what lies beside the backups of one life to the last one that took its place, as far as signatures are as good. What
// cannot be read elsewhere is noted, unless it is known to be of an earlier one.
func lastLife(ctx context.Context, s *backup.Store, b beside) (last beside, notes []string, err error) {
	lineages, err := s.Lineages(ctx)
	if err != nil {
		return b, nil, err
	}
	var all []beside
	unread := map[string]string{}
	for _, l := range lineages {
		if l.Name == b.lineage {
			continue
		}
		next, err := readBeside(ctx, s, l.Name)
		var unknown *cke.Error
		switch {
		case next.missing != nil:
			unread[l.Name] = fmt.Sprintf("no identity lies beside the backups of incarnation %s", l.Name)
		case backup.IsDamage(err), errors.As(err, &unknown) && (next.trusted || !b.trusted):
			unread[l.Name] = fmt.Sprintf("the identity beside the backups of incarnation %s cannot be read (%v)", l.Name, err)
		case unknown != nil, err == nil && !next.trusted && b.trusted: // anybody can have written it
		case err != nil:
			return b, nil, err
		default:
			all = append(all, next)
		}
	}
	for range all {
		i := slices.IndexFunc(all, func(n beside) bool { return n.trusted && n.follows(b) })
		if i < 0 && !b.trusted {
			i = slices.IndexFunc(all, func(n beside) bool { return n.follows(b) })
		}
		if i < 0 {
			break
		}
		b = all[i]
	}
	for _, name := range slices.Sorted(maps.Keys(unread)) {
		if !b.escrow.Identity.Incarnation.WasReplaced(name) {
			notes = append(notes, unread[name]+"; if that incarnation is a later one, its members are not known")
		}
	}
	return b, notes, nil
}

// follows reports whether n is of a later life than b, or of the one whose restore b shows under way.
func (n beside) follows(b beside) bool {
	life := b.lineage // nothing may lie beside its backups
	if inc := b.escrow.Identity.Incarnation; inc != nil {
		life = inc.ID
	}
	return n.escrow.Identity.Incarnation.WasReplaced(life) || n.lineage == life && b.lineage != life
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
