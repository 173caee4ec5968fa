package main

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"filippo.io/age"
	"github.com/spf13/cobra"

	"cke"
	"cke/backup"
	"cke/internal/term"
	"cke/op"
	"cke/storage"
)

// importing is data that cke did not take, on its way into a target.
type importing struct {
	file *backup.ImportFile
	plan importPlan
	into *backups
	to   []age.Recipient
}

// importPlan is what such data is, as `restore --plan` writes it for programs.
type importPlan struct {
	File           string            `json:"file"`
	Kind           backup.ImportKind `json:"kind"`
	Size           int64             `json:"size"`
	SHA256         string            `json:"sha256"`
	Version        string            `json:"version,omitempty"`
	Compacted      int64             `json:"compacted,omitempty"`
	Keys           int64             `json:"keys"`
	Leases         int64             `json:"leases"`
	Users          int64             `json:"users"`
	Roles          int64             `json:"roles"`
	Authentication bool              `json:"authentication"`
	Alarms         int64             `json:"alarms"`
	Members        int64             `json:"members"`
	RaftIndex      uint64            `json:"raftIndex"`
	HashKV         uint32            `json:"hashkv"`
}

// importRetry is how long a target that fails is tried again.
const importRetry = 30 * time.Second

// oldestImport is the first minor of etcd whose data is imported.
const oldestImport = 5

// checkImport refuses flags that mean nothing together.
func (o restoreOptions) checkImport(cmd *cobra.Command) error {
	only, without := []string{"skip-hash-check", "scratch"}, []string{"revision", "time", "lineage", "source-cluster", "ignore-hash", "cancel"}
	for _, name := range append(only, without...) {
		switch changed := cmd.Flags().Changed(name); {
		case changed && o.snapshot == "" && slices.Contains(only, name):
			return usageError{fmt.Errorf("--%s can only be used with --from-snapshot", name), cmd.CommandPath()}
		case changed && o.snapshot != "" && slices.Contains(without, name):
			return usageError{fmt.Errorf("--from-snapshot and --%s cannot be used together", name), cmd.CommandPath()}
		}
	}
	return nil
}

// openImport reads and checks the data.
func openImport(ctx context.Context, o restoreOptions) (*importing, error) {
	f, err := backup.OpenImport(ctx, o.snapshot, o.skipHash)
	if err != nil {
		return nil, notImported(ctx, o.snapshot, err)
	}
	return &importing{file: f, plan: importPlan{
		File: o.snapshot, Kind: f.Kind, Size: f.Size, SHA256: hex.EncodeToString(f.Digest[:]), Version: f.Version, Compacted: f.Compacted,
		Keys: f.Keys, Leases: f.Leases, Users: f.Users, Roles: f.Roles, Authentication: f.AuthEnabled, Alarms: f.Alarms, Members: f.Members, RaftIndex: f.Index, HashKV: f.Hash.Hash,
	}}, nil
}

func (i *importing) close() {
	i.file.Close()
	if i.into != nil && i.into.target != nil {
		i.into.Close()
	}
}

// notImported is what a user can do about a file that is not imported.
func notImported(ctx context.Context, path string, err error) error {
	if ctx.Err() != nil {
		return err
	}
	e := &cke.Error{Code: cke.CodeImport, What: "cannot import " + path, Unchanged: true}
	if refusal := new(backup.ImportRefusal); errors.As(err, &refusal) {
		e.Facts, e.Try = []string{refusal.What}, refusal.Try
		return e
	}
	e.Err = plainError(err)
	if !backup.IsDamage(err) {
		return e
	}
	e.Try = "take another snapshot: etcdctl snapshot save FILE"
	return exitWith{e, exitDamaged}
}

// undeclared refuses to import into a cluster that is declared nowhere.
func (*importing) undeclared(cluster string) error {
	return refused(&cke.Error{Code: cke.CodeImport, What: "no cluster is declared that the data is for", Unchanged: true,
		Facts: []string{"the store has no cluster " + cmp.Or(cluster, "yet")}, Try: "describe it in a file, and add --file FILE"})
}

// lookImport plans to store the data in the target and to restore it from there.
func (r *restoring) lookImport(ctx context.Context, o backupOptions, _ backup.At) error {
	i, p := r.imports, &r.plan
	p.Target, p.Source, p.Import = shownURL(r.order.Target), r.order.Source, &i.plan
	p.Lineage, p.Revision = i.file.Incarnation(), i.file.Revision
	r.order.Lineage, r.order.Revision, r.order.ShownLineage, r.order.ShownRevision = p.Lineage, p.Revision, p.Lineage, p.Revision
	p.Notes = append(p.Notes, i.doubts()...)
	if err := cmp.Or(r.fitsVersion(i.file.Version), i.admits(), op.AboveQuota(r.spec, i.file.Size)); err != nil {
		return refused(err)
	}
	if o.target != "" || r.asked.Declare != nil { // else the credentials in the store count, too
		o.target = r.order.Target
	}
	var err error
	if i.into, err = r.app.openBackups(ctx, o); err != nil {
		return err
	}
	if i.to, err = i.into.recipients(r.spec.Backup.Encryption.Recipients); err != nil {
		return err
	}
	switch opens, err := r.opens(); {
	case err != nil:
		return err
	case i.into.signer == nil && !i.into.anyone:
		return &cke.Error{Code: cke.CodeUntrusted, What: "cannot sign what is imported", Unchanged: true,
			Facts: []string{"no key file can be read on this host, and the leader restores only what its key signed"}, Try: "the same command on a management host, or with --trust any"}
	case !opens:
		return refused(&cke.Error{Code: cke.CodeBackupKey, What: "the leader could not open what is imported", Unchanged: true,
			Facts: []string{"the cluster file wants backups encrypted, and no key is given that opens them"}, Try: "lend the private part of one of the recipients with --key FILE"})
	}
	unread := func(err error) error { return i.into.fail(ctx, "read what lies beside the backups of "+r.cluster, err) }
	if err := r.compare(ctx, i.into.of(r.cluster), unread); err != nil {
		return err
	}
	if err := r.compareOwn(ctx, o); err != nil {
		return err
	}
	return r.noSecond(ctx, o, i.into)
}

// fitsVersion refuses data that the declared etcd cannot read, and that of releases that cke does not know.
func (r *restoring) fitsVersion(text string) error {
	named := r.spec.Options.Etcd.NamedVersion()
	has, known := cke.ParseVersion(text)
	wants, declared := cke.ParseVersion(named)
	e := &cke.Error{Code: cke.CodeVersion, Unchanged: true}
	switch {
	case !known:
		r.plan.Notes = append(r.plan.Notes, "the data does not record which minor version of etcd it is of")
		return nil
	case has.Major != 3 || has.Minor < oldestImport:
		e.What, e.Try = fmt.Sprintf("the data is of etcd %d.%d, and cke manages 3.%d and later", has.Major, has.Minor, oldestImport), "upgrade that cluster first"
		return e
	case !declared:
		return nil
	case has.Minor+1 < wants.Minor:
		e.What, e.Try = fmt.Sprintf("the data is of etcd 3.%d, and etcd %s follows more than one minor version later", has.Minor, named),
			fmt.Sprintf("declare options.etcd.version %s, and upgrade after the restore", cke.GoodRelease(has.Minor))
		return e
	}
	return op.NewerData(r.spec, text)
}

// doubts are what the data does not show, and other members of its cluster may.
func (i *importing) doubts() (notes []string) {
	if n := i.file.Members; n > 1 {
		notes = append(notes, fmt.Sprintf("the data is of one of %d members, and holds their log up to index %d: what the others have after that is lost; compare the index with theirs", n, i.file.Index))
	}
	if i.file.Corrupt > 0 {
		notes = append(notes, "etcd found that members have different data (alarm CORRUPT), and this data may be the wrong one: compare the HashKV of all members first")
	}
	return notes
}

// admits refuses data with which cke could neither check nor manage the members.
func (i *importing) admits() error {
	if !i.file.AuthEnabled || i.file.Admitted {
		return nil
	}
	return &cke.Error{Code: cke.CodeAuth, What: fmt.Sprintf("etcd's authentication is on in the data, and its user %s does not have the role root", cke.EtcdUser), Unchanged: true,
		Facts: []string{fmt.Sprintf("as a user with the role root: etcdctl user add %[1]s --no-password; etcdctl user grant-role %[1]s root", cke.EtcdUser)}, Try: "take another snapshot after that"}
}

// opens reports whether the leader can read what is stored: with the key file of this host, or a key that is lent.
func (r *restoring) opens() (bool, error) {
	i := r.imports
	if len(i.to) == 0 {
		return true, nil
	}
	keys := i.into.identities
	if config, err := r.app.loadConfig(); err != nil {
		return false, err
	} else if own, err := storage.ReadKeyFile(config.SecretKeyFile); err == nil {
		keys = append(slices.Clone(keys), own)
	}
	return backup.Opens(i.to, keys), nil
}

// storeImport stores the data in the target, which changes nothing else.
func (r *restoring) storeImport(ctx context.Context) error {
	i := r.imports
	if i == nil {
		return nil
	}
	s := i.into.of(r.order.Source)
	s.Retry.For = importRetry
	done := r.app.telling("Storing "+i.plan.File, i.into.bucket)
	p, err := s.Import(ctx, i.file, backup.ImportOptions{Recipients: i.to, Writer: r.app.whoami()})
	done()
	refusal := new(backup.ImportRefusal)
	switch local := new(backup.LocalError); {
	case errors.As(err, &refusal):
		return notImported(ctx, i.plan.File, err)
	case errors.As(err, &local) && ctx.Err() == nil:
		return &cke.Error{Code: cke.CodeImport, What: "cannot prepare " + i.plan.File + " for the target", Err: plainError(local.Err), Unchanged: true,
			Facts: []string{"a compressed copy is written on this host first; --scratch DIR names another directory for it"}}
	case err != nil:
		return i.into.fail(ctx, "store "+i.plan.File, err)
	}
	fmt.Fprintln(r.app.stderr, term.Clean(fmt.Sprintf("%s is stored as full %s of %s in %s", i.plan.File, p.ID(), r.order.Source, i.into.where)))
	return nil
}

// write shows what the data is.
func (i *importPlan) write(w io.Writer, p restorePlan, colour bool) error {
	if i == nil {
		return nil
	}
	yes := map[bool]string{true: "on", false: "off"}
	version := "a version that is not recorded"
	if v, ok := cke.ParseVersion(i.Version); ok {
		version = fmt.Sprintf("%d.%d", v.Major, v.Minor)
	}
	var l term.Labels
	l.Add("Data", term.Textf("of etcd %s, %s, SHA-256 %s", version, term.Size(i.Size), i.SHA256))
	l.Add("Revision", term.Textf("%d, compacted to %d", p.Revision, i.Compacted))
	l.Add("Log", term.Textf("up to index %d, of a cluster of %s", i.RaftIndex, cke.Count(i.Members, "member")))
	l.Add("Holds", term.Textf("%s, %s", cke.Count(i.Keys, "key"), cke.Count(i.Leases, "lease")))
	l.Add("Users", term.Textf("%s, %s, authentication %s", cke.Count(i.Users, "user"), cke.Count(i.Roles, "role"), yes[i.Authentication]))
	if i.Alarms > 0 {
		l.Add("Alarms", term.Textf("%s, left out", cke.Count(i.Alarms, "alarm")))
	}
	l.Add("HashKV", term.Textf("%d at revision %d", i.HashKV, p.Revision))
	l.Add("Stored", term.Textf("as %s in %s, and restored from there", p.Source, p.Target))
	return l.Write(w, colour)
}
