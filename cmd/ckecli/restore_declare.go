package main

import (
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
				Facts: []string{"its file is changed with `ckecli cluster set`, then it is restored"}, Try: r.again(c.Name)}
		}
		return err
	}
	r.from(o.backups)
	r.asked.Declare = &storage.Declared{Cluster: c, Source: data}
	if r.imports != nil && r.order.Target == "" {
		return noTarget(c.Name)
	}
	if r.order.Source != c.Name {
		return nil // another cluster has certificate authorities of its own
	}
	there, err := r.readEscrow(ctx, o)
	switch {
	case errors.Is(err, backup.ErrEmpty): // there is nothing to restore either
		return nil
	case err != nil:
		return err
	case there.Missing != nil:
		what := "no identity lies beside the backups"
		if there.Unread != nil {
			what = "no identity beside the backups can be read, which is accepted: the cluster gets new certificate authorities"
		}
		r.plan.Notes = append(r.plan.Notes, what+", so the nodes of "+fileName(o.file)+" are taken for those of the former members: if others had members, they may still serve")
		return nil
	}
	if err := r.adopt(there.Escrow, o); err != nil {
		return err
	}
	return r.vouched(o)
}

// noSecond refuses other data for a cluster of which no incarnation is on record, while its own target or from, that of the data,
// has something of a cluster of its name: members that it names may serve. What this store deleted is no obstacle.
func (r *restoring) noSecond(ctx context.Context, o backupOptions, from *backups) error {
	if r.order.Source == r.cluster {
		return nil
	}
	id, err := r.store.Identity(ctx, r.cluster)
	if err != nil || !id.BringsSecond() {
		return err
	}
	targets := []*backups{from}
	if own := r.spec.Backup.Target; own != "" && own != r.order.Target {
		if o.target = own; r.asked.Declare == nil { // with the credentials in the store
			o.target = ""
		}
		b, err := r.app.openBackups(ctx, o)
		if err != nil {
			return err
		}
		defer b.Close()
		targets = append(targets, b)
	}
	for _, b := range targets {
		switch unknown, err := b.unknownOf(ctx, r.cluster, id); {
		case err != nil:
			return err
		case !unknown:
			continue
		}
		code, data := cke.CodeOlderStore, "the backups of "+r.order.Source
		if r.imports != nil {
			code, data = cke.CodeImport, r.imports.plan.File
		}
		return refused(backup.SecondOf(code, b.where, r.cluster, data))
	}
	return nil
}

// unreadable refuses other data for such a cluster where the target cannot be read from here; nil: the leader reads it.
func (r *restoring) unreadable(ctx context.Context, err error) error {
	if r.order.Source == r.cluster {
		return nil
	}
	id, failed := r.store.Identity(ctx, r.cluster)
	if failed != nil || !id.BringsSecond() {
		return failed
	}
	return refused(backup.UnknownSecond("the target cannot be read from here", r.cluster, err,
		"the same command with what opens the target: --credentials FILE, or the environment of the service"))
}

// unknownOf reports whether a target has backups or an identity of a cluster of this name that its identity in the store does not know.
func (b *backups) unknownOf(ctx context.Context, cluster string, id cke.Identity) (bool, error) {
	unknown, err := b.of(cluster).HasUnknown(ctx, id)
	return unknown, b.fail(ctx, "list the backups", err)
}

// again is the command for a cluster that is declared already.
func (r *restoring) again(cluster string) string {
	if r.imports != nil {
		return "ckecli restore --from-snapshot " + r.imports.plan.File + " --cluster " + cluster
	}
	return "ckecli restore --cluster " + cluster
}

// declareEscrow brings back a cluster of which nothing is left but its backups.
func (r *restoring) declareEscrow(ctx context.Context, o restoreOptions) error {
	r.from(o.backups)
	there, err := r.readEscrow(ctx, o)
	if err == nil {
		err = there.Missing
	}
	if err != nil {
		return err
	}
	c, _, err := clusterfile.ParseCluster("the cluster file beside the backups", there.spec)
	if err != nil {
		return err
	}
	r.cluster, r.spec = c.Name, c.WithDefaults()
	r.order.Source = there.Escrow.Cluster
	r.asked.Declare = &storage.Declared{Cluster: c, Source: there.spec}
	if err := r.adopt(there.Escrow, o); err != nil {
		return err
	}
	return r.vouched(o)
}

// beside is what lies beside the backups of one life.
type beside struct {
	backup.Beside
	spec []byte
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
	if there.Beside, err = s.Beside(ctx, lineage); err != nil {
		return there, fail(err)
	}
	last, unread, notes, err := s.LastLife(ctx, there.Beside)
	if err != nil {
		return there, fail(err)
	}
	there.Beside, r.plan.Notes = last, append(r.plan.Notes, notes...)
	if refusal := r.order.RefusedUnread(there.Identity, unread); refusal != nil {
		return there, refusal
	}
	r.plan.Notes = append(r.plan.Notes, r.order.AcceptedUnread(there.Identity, unread)...)
	switch {
	case there.Missing != nil:
		there.Missing = fail(there.Missing)
	case there.Unread != nil && there.Escrow.Format == 0: // nothing can be read in its place
		there.Missing = noIdentity(fail(there.Unread))
	case there.Incarnation != lineage && o.point.lineage != "":
		r.plan.Notes = append(r.plan.Notes, fmt.Sprintf("cluster file, members and authorities are those of the last incarnation, %s", there.Incarnation))
	}
	if there.Missing != nil {
		return there, nil
	}
	r.signed = there.Trusted
	if o.file == "" {
		spec, err := s.TrustedFile(ctx, there.Incarnation, backup.FileSpec)
		if err != nil {
			return there, noSpec(fail(err))
		}
		if spec.Newer != nil {
			r.plan.Notes = append(r.plan.Notes, fmt.Sprintf("an older cluster file is used, because the newest one beside the backups is damaged: %v", spec.Newer))
		}
		there.spec, r.signed = spec.Data, there.Trusted && spec.Trusted
	}
	return there, nil
}

// noIdentity adds the way out where no identity can be read. That it is accepted declares nobody.
func noIdentity(err error) error {
	if coded := new(cke.Error); errors.As(err, &coded) {
		coded.Facts = append(coded.Facts, "no older identity of the cluster can be read, so its nodes and certificate authorities are not known",
			"find another copy of the backups, or see what the error says to delete; if the identity is lost for good, the same command with --file FILE declares the nodes, with new certificate authorities")
		coded.Try = "ckecli backup verify"
	}
	return err
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
	if i := e.Identity.Incarnation.Importing(); i != nil { // a restore stops none of its members, which may be a quorum
		why := notImportable("bring the store back; or restore under another name: --file FILE --source-cluster "+r.order.Source, "cluster %s was being imported when its store was lost, and members of the old cluster may serve", r.order.Source)
		for _, m := range i.Members {
			why.Facts = append(why.Facts, fmt.Sprintf("member %s at %s", m.Name, m.URL))
		}
		return refused(why)
	}
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
