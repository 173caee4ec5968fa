package keep

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"gopkg.in/yaml.v3"

	"cke"
	"cke/backup"
)

// digest identifies contents.
type digest [sha256.Size]byte

// note takes in what ought to lie beside the backups.
func (l *line) note(w cke.BackupWanted) {
	id := w.Identity
	id.Freeze, id.Compared = nil, nil
	text, err := json.Marshal([]any{w.Spec, id, w.Identity.Freeze.Tolerated()})
	if err != nil {
		panic(err) // these are plain values
	}
	d := digest(sha256.Sum256(text))
	l.mu.Lock()
	changed := l.beside != d
	l.beside, l.spec, l.clock, l.lives, l.freeze = d, w.Spec, w.Clock, w.Identity.BackedUpLives(), w.Identity.Freeze
	l.knows(w)
	if w.Spec.Cluster.Backup.Target == l.backup.Target {
		l.had = cke.NewestBeside(w.Beside, l.had...)
	}
	if i := w.Identity.Incarnation; i != nil && i.ID == l.lineage && w.Spec.Cluster.Backup.Target == l.backup.Target {
		l.recorded = max(l.recorded, w.Stored)
	}
	l.mu.Unlock()
	if changed {
		l.rouse()
	}
}

func (l *line) noted() (digest, cke.Spec) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.beside, l.spec
}

func (w *chores) besideDue(now time.Time) bool {
	d, _ := w.l.noted()
	return w.compared() && (d != w.stored || now.Sub(w.storedAt).Abs() >= besideEvery)
}

// compared reports whether a member answered and its history was compared with the target's: the cluster of this store, which
// may be an old one, still serves.
func (w *chores) compared() bool { return w.taker.Status().Resumed }

// putBeside stores the cluster file and the sealed identity beside the backups, unless the newest ones are the same, or the
// identity there has what this store does not, or may have it: by it a new management host knows whom to stop.
func (w *chores) putBeside(ctx context.Context) error {
	d, spec := w.l.noted()
	identity, unread := w.readBeside(ctx)
	lacks, accepted := w.lacking()
	if unread != nil && !(backup.IsDamage(unread) && lacks && accepted) {
		return unread
	}
	if lacks && !accepted {
		w.stored, w.storedAt = d, w.l.c.Now()
		return nil
	}
	text, err := []byte(spec.Source), error(nil)
	if len(text) == 0 {
		if text, err = yaml.Marshal(spec.Cluster); err != nil {
			return err
		}
	}
	for _, f := range []struct {
		kind backup.FileKind
		data []byte
	}{{backup.FileSpec, text}, {backup.FileIdentity, identity}} {
		if err := w.files.PutFile(ctx, w.l.lineage, f.kind, f.data); err != nil {
			return fmt.Errorf("store the %s beside the backups: %w", f.kind, err)
		}
	}
	w.stored, w.storedAt = d, w.l.c.Now()
	if unread == nil {
		w.l.lack(nil)
	}
	return nil
}

func (w *chores) olderDue(now time.Time) bool {
	d, _ := w.l.noted()
	w.l.mu.Lock() // a prune compares, too, beside the others
	defer w.l.mu.Unlock()
	return d != w.read || now.Sub(w.readAt).Abs() >= besideEvery
}

// compareBeside finds out whether this store is older than the cluster: the identity beside the backups shows it also where no
// node does.
func (w *chores) compareBeside(ctx context.Context) error {
	_, err := w.readBeside(ctx)
	return err
}

// readBeside returns the identity that is to lie beside the backups, after it was compared with what lies there. That is read first: what
// this store wrote there, it still has. With a damage error it was compared only with what can be read: what this store lacks
// of that shows that it is older, and nothing shows that it is not.
func (w *chores) readBeside(ctx context.Context) (identity []byte, err error) {
	d, _ := w.l.noted()
	var there cke.Escrow
	f, err := w.files.TrustedFile(ctx, w.l.lineage, backup.FileIdentity)
	switch {
	case err != nil && !errors.Is(err, backup.ErrNotFound) && !backup.IsDamage(err):
		return nil, fmt.Errorf("read the identity beside the backups: %w", err)
	case err == nil && (f.Trusted || w.files.Signer == nil): // else it is in doubt
		if there, err = cke.ParseEscrow(f.Data); err != nil {
			return nil, err
		}
	}
	e, err := w.l.c.Escrow(ctx)
	if err != nil {
		return nil, err
	}
	if identity, err = json.MarshalIndent(e, "", "  "); err != nil {
		return nil, err
	}
	identity = append(identity, '\n')
	has := []string{fmt.Sprintf("%x", sha256.Sum256(identity))}
	lacks, damage := e.Identity.LacksBeside(cke.Beside{Incarnation: w.l.lineage, Identity: there.Identity}), f.Doubted(e.Identity, w.l.lineage, func(sum string) bool {
		known := sum == has[0] || w.l.hadAll(sum)
		if known {
			has = append(has, sum)
		}
		return known
	})
	w.l.has(has...)
	if damage == nil || lacks != nil {
		w.l.lack(lacks)
	}
	if damage != nil {
		return identity, fmt.Errorf("the newest identity beside the backups cannot be compared with the store: %w", damage)
	}
	if lacks == nil && f.Trusted {
		w.l.has(f.Sum)
	}
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	w.read, w.readAt = d, w.l.c.Now()
	return identity, nil
}

// has notes digests of identities of which this store has everything. It never loses that. Those that lie there are noted whenever they are read,
// and so stay among the newest.
func (l *line) has(sums ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, sum := range sums {
		if !slices.Contains(l.had, sum) {
			l.news()
		}
		l.had = cke.NewestBeside(l.had, sum)
	}
}

func (l *line) hadAll(sum string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(l.had, sum)
}

// lack takes in what this store does not have.
func (l *line) lack(all []cke.Lacking) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.compared || !slices.Equal(l.lacks, all) {
		l.news()
	}
	l.compared, l.lacks = true, all
}

// lacking reports whether this store is older than the cluster, and whether an operator has accepted that.
func (w *chores) lacking() (lacks, accepted bool) {
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	var ids []string
	for _, l := range w.l.lacks {
		ids = append(ids, l.ID)
	}
	return ids != nil, w.l.freeze.Tolerates(cke.OlderStore(ids))
}
