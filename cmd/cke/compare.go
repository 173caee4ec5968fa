package main

import (
	"context"
	"errors"

	"cke"
	"cke/backup"
)

// compare refuses a restore if the identities beside the cluster's own backups in the target show that the store is older than the cluster, or
// cannot be read, whatever is restored from there. A restore on record that was compared before continues where they cannot be read any more.
func (s *snapshots) compare(ctx context.Context, id string, o cke.RestoreOrder, from *backup.Store, progress func(string)) error {
	own := *from
	own.Cluster = s.cluster
	status, _ := s.store.Status(ctx, s.cluster) // where it cannot be read, no digest is known
	refusal, notes, err := own.CompareBeside(ctx, o, status.Beside(o.Target), func(ctx context.Context) (cke.Identity, error) { return s.store.Identity(ctx, s.cluster) })
	if err != nil {
		return cannotExtract(ctx, o, err)
	}
	r, recorded, err := s.onRecord(ctx, id)
	switch {
	case err != nil:
		return err
	case refusal != nil && recorded && r.Compared && refusal.Code == cke.CodeBackupDamaged:
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
