package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strings"

	"cke"
	"cke/backup"
)

// store is the backups of one cluster: the one that was chosen, or the only one in the target.
func (b *backups) store(ctx context.Context) (*backup.Store, error) {
	names, err := b.clusters(ctx)
	if err != nil {
		return nil, err
	}
	if own := slices.DeleteFunc(slices.Clone(names), backup.IsImport); len(own) == 1 {
		names = own // what was imported has to be named
	}
	if len(names) == 1 {
		return b.of(names[0]), nil
	}
	return nil, &cke.Error{Code: cke.CodeCluster, What: fmt.Sprintf("%s has backups of %d clusters and none was chosen", b.where, len(names)),
		Facts: []string{strings.Join(names, ", ")}, Unchanged: true, Try: "name one with --backup-cluster"}
}

// clusters is the cluster that was chosen, or else all in the target.
func (b *backups) clusters(ctx context.Context) ([]string, error) {
	if b.cluster != "" {
		return []string{b.cluster}, nil
	}
	names, err := backup.Clusters(ctx, b.bucket)
	if err == nil && len(names) == 0 {
		err = fmt.Errorf("%w in this target", backup.ErrEmpty)
	}
	if err != nil {
		return nil, b.fail(ctx, "list the backups", err)
	}
	return names, nil
}

func (b *backups) of(cluster string) *backup.Store {
	s := &backup.Store{Bucket: b.bucket, Cluster: cluster, Identities: b.identities, Scratch: b.scratch,
		Signer: b.signer, Trusted: b.trusted, AllowUntrusted: b.anyone, Verdicts: new(backup.Verdicts)}
	if cluster == b.cluster {
		s.Past = b.past
	}
	if b.orders != nil {
		s.Ordered = func(ctx context.Context) error { return backup.Ordered(ctx, b.orders, cluster) }
	}
	return s
}

// lineages are the backups of the cluster that store is of, with it.
func (b *backups) lineages(ctx context.Context) (*backup.Store, []backup.Lineage, error) {
	s, err := b.store(ctx)
	if err != nil {
		return nil, nil, err
	}
	all, err := s.Lineages(ctx)
	return s, all, b.fail(ctx, "list the backups of "+s.Cluster, err)
}

// full is the full that a user means, with its lineage and the store that holds it.
func (b *backups) full(ctx context.Context, id string) (*backup.Store, backup.Entry, *backup.Lineage, error) {
	s, all, err := b.lineages(ctx)
	if err != nil {
		return nil, backup.Entry{}, nil, err
	}
	e, l, err := b.findFull(all, id)
	return s, e, l, err
}

// findFull finds the full that a user means: by its id, by LINEAGE/REVISION, or by its revision alone.
func (b *backups) findFull(lineages []backup.Lineage, id string) (backup.Entry, *backup.Lineage, error) {
	var found []backup.Entry
	var of *backup.Lineage
	for i := range lineages {
		for _, f := range lineages[i].Fulls {
			if f.ID() == id {
				return f, &lineages[i], nil
			}
			if shortID(f.Place) == id || fmt.Sprint(f.Revision) == id || strings.HasSuffix(f.ID(), "/"+id) {
				found, of = append(found, f), &lineages[i]
			}
		}
	}
	for i := range lineages {
		for _, u := range lineages[i].Untrusted {
			if u.Kind == backup.KindFull && u.ID() == id {
				found, of = append(found, u.Entry), &lineages[i]
			}
		}
	}
	switch len(found) {
	case 1:
		return found[0], of, nil
	case 0:
		return backup.Entry{}, nil, &cke.Error{Code: cke.CodeNoBackup, What: "there is no full backup " + id, Unchanged: true, Try: b.command("list -o name")}
	}
	return backup.Entry{}, nil, &cke.Error{Code: cke.CodeNoBackup, What: fmt.Sprintf("%s matches %d full backups", id, len(found)), Unchanged: true,
		Facts: []string{commaList(found, func(e backup.Entry) string { return e.ID() })}, Try: b.command("list -o name")}
}

// shortID is LINEAGE/REVISION, which nearly always distinguishes one full from the others.
func shortID(p backup.Place) string { return fmt.Sprintf("%s/%d", p.Lineage, p.Revision) }

// fail turns an error of package backup into what a user can act on; this is the only place that does. tried says what
// was tried, as "verify prod". An error that comes of the end of ctx keeps its own words.
func (b *backups) fail(ctx context.Context, tried string, err error) error {
	var coded *cke.Error
	if err == nil || ctx.Err() != nil || errors.As(err, &coded) {
		return err
	}
	e := &cke.Error{Code: cke.CodeTarget, What: "cannot " + tried, Err: err, Unchanged: !b.bucket.changed.Load(), Facts: []string{"target " + b.where}}
	var damage *backup.DamagedError
	var notWhole *backup.NotWholeError
	switch {
	case errors.As(err, &notWhole):
		b.notWhole(e, notWhole)
	case errors.Is(err, backup.ErrUntrusted):
		e.Code = cke.CodeUntrusted
		if errors.As(err, &damage) {
			e.Err, e.Facts = nil, append(e.Facts, damage.Object, damageText(damage), lastGood(damage.LastGood))
		}
	case errors.As(err, &damage):
		e.Code, e.What, e.Err = cke.CodeBackupDamaged, "cannot "+tried+": a backup is damaged", nil
		e.Facts = append(e.Facts, damage.Object, damageText(damage), lastGood(damage.LastGood))
		if errors.Is(err, backup.ErrHash) {
			e.Facts = append(e.Facts, backup.HashAdvice)
		}
	case backup.IsDamage(err), errors.Is(err, backup.ErrNotServed):
		e.Code = cke.CodeBackupDamaged
	case errors.Is(err, backup.ErrLost):
		e.Code, e.Try = cke.CodeLostBackups, b.command("list")
	case errors.Is(err, backup.ErrUnread):
		e.Code = cke.CodeStore
	case errors.Is(err, backup.ErrNotCovered), errors.Is(err, backup.ErrAmbiguousTime):
		e.Code, e.Try = cke.CodeNotCovered, b.command("list")
	case errors.Is(err, backup.ErrKey):
		e.Code = cke.CodeBackupKey
		e.Facts = append(e.Facts, "give the private part of one of the recipients with --key FILE")
	case errors.Is(err, backup.ErrEmpty):
		e.Code = cke.CodeBackupEmpty
		e.Facts = append(append(e.Facts, b.noDirectory()...), b.others(ctx)...)
	case errors.Is(err, backup.ErrBusy):
		e.Code = cke.CodeBackupsBusy
	case errors.Is(err, backup.ErrClock):
		e.Code = cke.CodeClock
	case errors.Is(err, backup.ErrOlderUsers):
		e.Code, e.Try = cke.CodeBackupRefused, "ckecli backup now"
	case errors.Is(err, backup.ErrExists), errors.Is(err, backup.ErrOnlyFull), errors.Is(err, backup.ErrProtected):
		e.Code = cke.CodeBackupRefused
	case errors.Is(err, backup.ErrNotFound):
		e.Code, e.Try = cke.CodeNoBackup, b.command("list -o name")
	}
	return e
}

// notWhole says what to do where nothing was deleted on account of a full that is damaged: other fulls can be restored.
func (b *backups) notWhole(e *cke.Error, is *backup.NotWholeError) {
	e.Code, e.Err, e.Try = cke.CodeBackupDamaged, nil, "ckecli backup now"
	e.What += ": a full backup that was to stay is damaged, and nothing was deleted"
	why := is.Err.Error()
	if damage := new(backup.DamagedError); errors.As(is.Err, &damage) {
		why = damageText(damage)
	}
	e.Facts = append(e.Facts, is.Full.Name(), why)
	if is.Record != nil {
		e.Facts = append(e.Facts, "this could not be recorded in the target: "+is.Record.Error())
		return
	}
	if b.signer != nil || len(b.trusted) == 0 || b.anyone {
		e.Facts = append(e.Facts, "it does not count any more: take a new full backup, or repeat the command to delete on account of other ones")
	}
	if b.signer == nil {
		e.Facts = append(e.Facts, "this host has no key to sign that, so the full still counts for all that check signatures: repeat the command on a management host")
	}
}

// command is a command on the same target.
func (b *backups) command(args string) string {
	text := "ckecli backup " + args
	if b.given {
		text += " --target " + shellQuote(b.where)
	}
	return text
}

// damageText is what is wrong with an object, without its name.
func damageText(d *backup.DamagedError) string {
	return strings.TrimPrefix(d.Err.Error(), d.Object+": ")
}

func lastGood(revision int64) string {
	if revision == 0 {
		return "no revision can be restored"
	}
	return fmt.Sprintf("the last good revision is %d", revision)
}

// noDirectory says that a directory is not there, for those who wrote another one.
func (b *backups) noDirectory() []string {
	u, err := url.Parse(b.where)
	if err != nil || u.Scheme != "file" {
		return nil
	}
	if _, err := os.Stat(u.Path); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return []string{"there is no directory " + u.Path + " on this host"}
}

// others says of which clusters a target has backups, for those who asked for another.
func (b *backups) others(ctx context.Context) []string {
	if b.cluster == "" {
		return nil
	}
	names, err := backup.Clusters(ctx, b.bucket)
	if names = slices.DeleteFunc(names, func(n string) bool { return n == b.cluster }); err != nil || len(names) == 0 {
		return nil
	}
	return []string{"it has backups of " + strings.Join(names, ", ")}
}
