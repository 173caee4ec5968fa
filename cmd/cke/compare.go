package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cke"
	"cke/backup"
	"cke/backup/target"
)

// compare refuses a restore if the identities beside the cluster's own backups in the target show that the store is older than the cluster, or
// cannot be read, whatever is restored from there. A restore on record that was compared before continues where they cannot be read any more, and is not asked
// for a second cluster again: it was judged when it was put on record.
func (s *snapshots) compare(ctx context.Context, id string, o cke.RestoreOrder, from *backup.Store, progress func(string)) error {
	own := *from
	own.Cluster = s.cluster
	status, _ := s.store.Status(ctx, s.cluster) // where it cannot be read, no digest is known
	refusal, notes, err := own.CompareBeside(ctx, o, status.Beside(o.Target), s.identity)
	if err != nil {
		return cannotExtract(ctx, o, err)
	}
	r, recorded, err := s.onRecord(ctx, id)
	if err != nil {
		return err
	}
	judged := recorded && r.Compared // the store names an incarnation since, and not what it deleted before
	if refusal == nil && !judged {
		var more []string
		refusal, more, err = s.compareDeclared(ctx, o, own, status)
		if err != nil {
			return err
		}
		notes = append(notes, more...)
	}
	if refusal == nil && !judged {
		if refusal, err = s.noSecond(ctx, o, own); err != nil {
			return err
		}
	}
	switch {
	case refusal != nil && judged && refusal.Code == cke.CodeBackupDamaged:
		progress(refusal.Error())
	case refusal != nil && recorded:
		refusal.Unchanged, refusal.Try = false, "ckecli restore --cancel"
		return refusal
	case refusal != nil:
		return refusal
	}
	for _, note := range notes {
		progress(note)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.compared == nil {
		s.compared = map[string]bool{}
	}
	s.compared[id] = true
	return nil
}

func (s *snapshots) identity(ctx context.Context) (cke.Identity, error) {
	return s.store.Identity(ctx, s.cluster)
}

const (
	// ownTargetWithin is how long the target of the cluster file is tried, which may be lost with the cluster.
	ownTargetWithin = 30 * time.Second
	// listWithin is how long a target that answers may take to list what it has.
	listWithin = 5 * time.Minute
)

// compareDeclared compares a cluster that was declared to be restored, which no keeper compares, with the target that its cluster file
// names, where the order names another one: that may be a copy of before.
func (s *snapshots) compareDeclared(ctx context.Context, o cke.RestoreOrder, own backup.Store, status cke.Status) (refusal *cke.Error, notes []string, err error) {
	id, err := s.identity(ctx)
	if err != nil || !id.OnlyDeclared() {
		return nil, nil, err
	}
	spec, err := s.store.Spec(ctx, s.cluster)
	url := spec.Wanted().Backup.Target
	if err != nil || url == "" || url == o.Target {
		return nil, nil, err
	}
	credentials, err := targetCredentials(ctx, s.store, s.cluster, url)
	if err != nil {
		return nil, nil, err
	}
	t, err := target.Open(ctx, url, credentials)
	if err == nil {
		defer t.Close()
		own.Bucket, own.Past = t, backup.Past{}
		err = own.Answers(ctx, ownTargetWithin)
	}
	if err == nil {
		within, cancel := context.WithTimeout(ctx, listWithin)
		defer cancel()
		if refusal, notes, err = own.CompareBeside(within, o, status.Beside(url), s.identity); err != nil && within.Err() != nil && ctx.Err() == nil {
			return &cke.Error{Code: cke.CodeTarget, What: fmt.Sprintf("%s, which the cluster file names, answers, but did not list what it has of %s within %s", shown(url), s.cluster, listWithin), Err: err, Unchanged: true,
				Facts: []string{"a newer identity of the cluster may be there"},
				Try:   "if nothing newer is there, let the cluster file name the target of the order, or one of its own: ckecli cluster set, then restore again"}, nil, nil
		}
	}
	switch {
	case err == nil:
		return refusal, notes, nil
	case ctx.Err() != nil:
		return nil, nil, err
	}
	return nil, []string{fmt.Sprintf("the target that the cluster file names cannot be read, so that it is not known whether a newer identity is there: %v", err)}, nil
}

// compareFetched is compare of what was fetched before: the store may have been set back since, or an earlier cke have fetched it. A restore
// on record that was compared does not need its target.
func (s *snapshots) compareFetched(ctx context.Context, id string, o cke.RestoreOrder, progress func(string)) error {
	s.mu.Lock()
	compared := s.compared[id]
	s.mu.Unlock()
	if compared || o.Survivor != "" {
		return nil
	}
	if r, recorded, err := s.onRecord(ctx, id); err != nil || recorded && r.Compared {
		return err
	}
	from, t, err := s.open(ctx, id, o)
	if err != nil {
		return err
	}
	return errors.Join(s.compare(ctx, id, o, from, progress), t.Close())
}

// onRecord is the restoration under way that an order started.
func (s *snapshots) onRecord(ctx context.Context, id string) (cke.Restoration, bool, error) {
	identity, err := s.store.Identity(ctx, s.cluster)
	if err != nil {
		return cke.Restoration{}, false, err
	}
	for _, r := range identity.Restores() {
		if r.ID == id {
			return r, true, nil
		}
	}
	return cke.Restoration{}, false, nil
}
