package sim

import (
	"context"
	"time"

	"cke"
)

// Backups are those of the cluster that a daemon leads.
type Backups struct{ d *Daemon }

var _ cke.Backups = Backups{}

// Backups takes what the cluster holds.
func (d *Daemon) Backups() Backups { return Backups{d} }

// Run waits: all that is done beside the daemon's calls the world does.
func (b Backups) Run(ctx context.Context) { <-ctx.Done() }

// Changed never receives.
func (b Backups) Changed() <-chan struct{} { return nil }

var errSilent = &cke.Error{Code: cke.CodeTarget, What: "the target does not answer", Unchanged: true}

// Flush implements cke.Backups: what the members hold is read through a quorum.
func (b Backups) Flush(ctx context.Context) (stored cke.StoredBackup, err error) {
	err = b.d.call(ctx, Call{Port: "backup", Name: "Flush", Writes: true}, nil, cke.Node{}, func(bool) error {
		w := b.d.world
		switch {
		case w.target.silent:
			return errSilent
		case w.refuses:
			return &cke.Error{Code: cke.CodeTarget, What: "the target takes nothing"}
		}
		life := w.serves()
		for _, l := range w.leaders() {
			if life == nil || hexID(l.cluster) != life.ClusterID || l.commit == 0 || l.log[l.commit-1].term != l.term {
				continue
			}
			w.stored, b.d.term.flushed = l.puts(), true
			stored = cke.StoredBackup{Kind: "delta", ID: "delta", Revision: l.apply().revision()}
			return nil
		}
		return &cke.Error{Code: cke.CodeMemberSilent, What: "no member serves"}
	})
	return stored, err
}

// Full implements cke.Backups.
func (b Backups) Full(ctx context.Context) (cke.StoredBackup, error) { return b.Flush(ctx) }

// readsFor is how long a daemon that starts to lead reads its target, and after it receives what is missing.
const readsFor = 2 * time.Second

// Status implements cke.Backups.
func (b Backups) Status() *cke.BackupStatus {
	w := b.d.world
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tick()
	k, now := &b.d.keeper, b.d.host()
	l := &k.line
	s := cke.BackupStatus{Target: w.store.spec.Cluster.Backup.Target, Idle: k.idle, Lineage: l.incarnation, Compared: l.compared, Lacks: l.lacks}
	if s.Target == "" {
		return nil
	}
	if l.incarnation == "" || l.idle {
		return &s
	}
	flushed := b.d.term.flushed
	if s.Known = !l.opened.IsZero() || flushed; s.Known {
		s.Connected = flushed || w.now().Sub(l.opened) >= readsFor
		s.Full, s.Verified = cke.StoredBackup{Revision: 1, At: now}, &cke.VerifiedBackup{Revision: 1, At: now}
	}
	switch {
	case w.target.silent:
		s.Problem = &cke.BackupTrouble{Code: cke.CodeTarget, Message: errSilent.What, Since: now.Add(-w.now().Sub(w.target.since))}
	case l.unanswered && !l.resumed && s.Known:
		s.Problem = &cke.BackupTrouble{Code: cke.CodeMemberSilent, Message: "no member answers", Since: now.Add(-w.now().Sub(l.opened))}
	case w.refuses && s.Known:
		s.Problem = &cke.BackupTrouble{Code: cke.CodeTarget, Message: "the target takes nothing", Since: now}
	}
	return &s
}
