package keep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"filippo.io/age"
	"github.com/cenkalti/backoff/v5"

	"cke"
	"cke/backup"
	"cke/backup/boot"
	"cke/backup/take"
)

// line is the work on one lineage in one target with unchanging settings.
type line struct {
	c       *Config
	backup  cke.Backup
	lineage string
	name    string // differs for lines that differ
	ends    []string
	// clusterID is etcd's: what answers with another one is not backed up.
	clusterID string

	news   func() // tells that something changed which people ought to know of
	cancel context.CancelFunc
	ended  chan struct{}
	wake   chan struct{} // for the chores

	fulls, drills, merges take.Schedule // nil: never
	faulty                error         // of the settings

	mu     sync.Mutex
	taker  *take.Taker // nil: the target is not open
	beside digest      // tells changes of what ought to lie beside the backups
	spec   cke.Spec    // as it is known by now

	known       bool      // the target was read
	begun       time.Time // when it was: drills count from here while there has been none
	newest      cke.StoredBackup
	delta       cke.StoredBackup // the last one stored here
	reached     int64            // newest revision in the target when it was read, and its time
	reachedAt   time.Time
	events      int64 // changes since the newest full, and the size of the deltas that hold them
	bytes       int64
	mergedAt    time.Time // when this line last merged, or found nothing to
	gap         bool      // changes are missing after it
	pruneDue    bool
	verified    *cke.VerifiedBackup
	problem     *cke.BackupTrouble
	from        take.EventType // that the problem comes from; "": the target is not open
	troubles    map[string]cke.BackupTrouble
	behind      int64 // a revision that was not in the target, and when that was first seen
	behindSince time.Time
}

func newLine(c *Config, w cke.BackupWanted, news func()) *line {
	l := &line{c: c, news: news, backup: w.Spec.Cluster.Backup, lineage: w.Identity.Incarnation.ID, clusterID: w.Identity.Incarnation.ClusterID, ended: make(chan struct{}), wake: make(chan struct{}, 1),
		troubles: map[string]cke.BackupTrouble{}}
	endpoint := cke.Join.ClientURL
	if c.Endpoint != nil {
		endpoint = c.Endpoint
	}
	for _, j := range w.Identity.Joins {
		if !j.StartedAt.IsZero() {
			l.ends = append(l.ends, endpoint(j))
		}
	}
	var credentials int64
	if c.Credentials != nil {
		credentials = c.Credentials()
	}
	// With other authorities there are other certificates to show and to trust.
	name, err := json.Marshal([]any{l.backup, l.lineage, l.ends, credentials, w.Identity.Authorities})
	if err != nil {
		panic(err) // these are plain values
	}
	l.name = string(name)
	var fulls, drills, merges error
	l.fulls, fulls = take.ParseSchedule(l.backup.Full)
	l.drills, drills = take.ParseSchedule(l.backup.Verify)
	l.merges, merges = take.ParseSchedule(l.backup.Compaction.When())
	l.faulty = errors.Join(fulls, drills, merges)
	return l
}

// key tells lines apart.
func (l *line) key() string {
	if l == nil {
		return ""
	}
	return l.name
}

// run works until ctx ends. Whatever goes wrong is told, and tried again.
func (l *line) run(ctx context.Context) {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 500*time.Millisecond, 30*time.Second
	for {
		begun := time.Now()
		err := l.session(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(begun) > time.Minute {
			pause.Reset()
		}
		if err != nil {
			l.fail("", cke.CodeTarget, err)
			l.c.Log.Warn("backups", "cluster", l.c.Cluster, "error", err)
		}
		timer := time.NewTimer(pause.NextBackOff())
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// session opens the target and works on it until ctx ends or something fails that a new session may cure.
func (l *line) session(ctx context.Context) error {
	t, err := l.c.Open(ctx, l.backup.Target)
	if err != nil {
		return err
	}
	defer t.Close()
	config, err := l.config(ctx, t)
	if err != nil {
		return err
	}
	store := &backup.Store{Bucket: t, Cluster: l.c.Cluster, Scratch: config.Scratch, Retry: l.c.Retry, Now: l.c.Now}
	if err := l.survey(ctx, store); err != nil {
		return err
	}
	taker, err := take.New(config)
	if err != nil {
		return err
	}
	work, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { newChores(l, store, taker).run(work) })
	defer wg.Wait()
	defer stop()
	l.use(taker)
	defer l.use(nil)
	err = taker.Run(ctx)
	if errors.Is(err, take.ErrDiverged) {
		return &cke.Error{Code: cke.CodeStaleBackup, What: "nothing is backed up", Err: err}
	}
	return err
}

func (l *line) use(t *take.Taker) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taker = t
}

// config is the Taker's.
func (l *line) config(ctx context.Context, t Target) (take.Config, error) {
	if l.faulty != nil {
		return take.Config{}, l.faulty
	}
	scratch, err := l.scratch()
	if err != nil {
		return take.Config{}, err
	}
	tls, err := l.c.TLS(ctx)
	if err != nil {
		return take.Config{}, fmt.Errorf("the certificate that is shown to etcd: %w", err)
	}
	recipients, err := recipientsOf(l.backup.Encryption)
	if err != nil {
		return take.Config{}, err
	}
	return take.Config{
		Bucket: t, Cluster: l.c.Cluster, Lineage: l.lineage, Endpoints: l.ends, ClusterID: l.clusterID, TLS: tls,
		Delta: l.backup.Delta, Fulls: l.fulls, Recipients: recipients, Shutdown: l.c.Shutdown, Scratch: scratch,
		Guard: l.c.Guard, Writer: l.c.Writer, Term: l.c.Term, Retry: l.c.Retry, Notify: l.notify, Now: l.c.Now, Log: l.c.Log,
	}, nil
}

func recipientsOf(e cke.Encryption) ([]age.Recipient, error) {
	var all []age.Recipient
	for _, text := range e.Recipients {
		some, err := age.ParseRecipients(strings.NewReader(text))
		if err != nil {
			return nil, fmt.Errorf("backup.encryption.recipients: %w", err)
		}
		all = append(all, some...)
	}
	return all, nil
}

// leftovers are what a daemon that was killed may have left in the scratch directory.
var leftovers = []string{"cke-full-*", "cke-compact-*", "cke-drill-*", "cke-boot-*"}

// scratch makes the cluster's own part of the scratch directory and empties it of what is left over.
func (l *line) scratch() (string, error) {
	dir := filepath.Join(l.c.Scratch, l.c.Cluster)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("the scratch directory of backups: %w", err)
	}
	for _, pattern := range leftovers {
		left, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return "", err
		}
		for _, path := range left {
			if err := os.RemoveAll(path); err != nil {
				return "", fmt.Errorf("the scratch directory of backups: %w", err)
			}
		}
	}
	return dir, nil
}

// survey reads what the target holds already.
func (l *line) survey(ctx context.Context, store *backup.Store) error {
	lineage, err := store.Lineage(ctx, l.lineage)
	if err != nil {
		return fmt.Errorf("read the target: %w", err)
	}
	mark, err := store.LastVerified(ctx, l.lineage)
	if err != nil && !backup.IsDamage(err) {
		return fmt.Errorf("read the target: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.news()
	l.known, l.pruneDue = true, l.backup.Retention != cke.Retention{}
	if l.begun.IsZero() {
		l.begun = l.c.Now()
	}
	if mark != nil {
		l.verified = &cke.VerifiedBackup{Revision: mark.Revision, At: mark.At, HashChecked: mark.HashChecked, Booted: mark.Booted}
	}
	for _, c := range lineage.Chains() {
		f := c.Full
		if f.Time.Before(l.newest.At) {
			continue
		}
		l.newest = cke.StoredBackup{Kind: string(f.Kind), ID: f.ID(), Revision: f.Revision, Size: f.Size, At: f.Time}
		l.reached, l.reachedAt = c.Last, c.End
		l.events = c.Last - f.Revision // at least so many; every transaction over several keys had more
		l.bytes = 0
		for _, d := range c.Deltas {
			l.bytes += d.Size
		}
	}
	return nil
}

// fail notes why no backups are taken or stored.
func (l *line) fail(from take.EventType, or cke.Code, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.trouble("take", or, err)
	if l.problem != nil {
		t.Since = l.problem.Since
	}
	if l.problem == nil || l.from != from {
		l.news()
	}
	l.problem, l.from = &t, from
	l.gap = l.gap || from == take.Gap
}

// well forgets the problem if it comes from one of these.
func (l *line) well(from ...take.EventType) {
	if l.problem != nil && slices.Contains(from, l.from) {
		l.problem = nil
		l.news()
	}
}

func (l *line) trouble(work string, or cke.Code, err error) cke.BackupTrouble {
	code := cke.CodeOf(err)
	switch {
	case errors.Is(err, backup.ErrKey):
		code = cke.CodeBackupKey
	case backup.IsDamage(err), errors.Is(err, boot.ErrNotServed):
		code = cke.CodeBackupDamaged
	case errors.Is(err, boot.ErrNotBooted):
		code = cke.CodeNotBooted
	case errors.Is(err, take.ErrDiverged):
		code = cke.CodeStaleBackup
	case code == cke.CodeInternal:
		code = or
	}
	return cke.BackupTrouble{Work: work, Code: code, Message: err.Error(), Since: l.c.Now().UTC()}
}

// rouse lets the chores look at what is due.
func (l *line) rouse() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}
