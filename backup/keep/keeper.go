// Package keep takes and maintains the backups of one cluster while a daemon leads it: it runs a Taker for the cluster's
// incarnation and, one at a time, pruning, merging, restore drills, and storing the files beside the backups.
package keep

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"sync"
	"time"

	"filippo.io/age"
	"golang.org/x/sync/semaphore"

	"cke"
	"cke/backup"
	"cke/backup/take"
	"cke/internal/contain"
)

// Target is an open bucket.
type Target interface {
	backup.Bucket
	Close() error
}

// Config configures a Keeper. Open, TLS, Escrow and Scratch must be set.
type Config struct {
	Cluster string
	// Open opens the target at a URL, with the credentials that are valid now.
	Open func(ctx context.Context, url string) (Target, error)
	// Credentials returns a different number after the credentials have changed; nil means that they never do.
	Credentials func() int64
	// Endpoint returns where a member is reached; nil means cke.Join.ClientURL.
	Endpoint func(cke.Join) string
	// TLS returns the client certificate that is presented to the members.
	TLS func(ctx context.Context) (*tls.Config, error)
	// Escrow reads what is stored beside the backups.
	Escrow func(ctx context.Context) (cke.Escrow, error)
	// Ordered returns backup.ErrBusy while a restore from the cluster's backups is requested or under way; nil: none ever is.
	Ordered func(ctx context.Context) error
	// Identity decrypts encrypted backups that name it as a recipient; nil means that none can be decrypted.
	Identity func(ctx context.Context) (age.Identity, error)
	// Guard is called before every write; its error means that this daemon no longer leads.
	Guard  func() error
	Writer string
	Term   int64
	// Scratch is a directory for working copies, created when needed.
	Scratch string
	// Turn lets one heavy chore of all clusters run at a time; nil means that each cluster has its own turn.
	Turn *semaphore.Weighted
	// Shutdown bounds storing the last delta.
	Shutdown time.Duration
	Retry    backup.Retry
	Now      func() time.Time
	Log      *slog.Logger
}

// Keeper takes and maintains the backups of one cluster while Run runs. Its other methods are safe for concurrent use.
type Keeper struct {
	c       Config
	updated chan struct{} // receives after Update
	changed chan struct{}

	mu      sync.Mutex
	wanted  cke.BackupWanted
	known   bool // Update was called
	present *line
	fault   *cke.BackupTrouble // why Run does nothing at present
}

var _ cke.Backups = (*Keeper)(nil)

// New makes a Keeper; it reads and writes nothing before Run.
func New(c Config) *Keeper {
	return &Keeper{c: c, updated: make(chan struct{}, 1), changed: make(chan struct{}, 1)}
}

// Changed receives when something that the operator should know of has started or ended: a full, a drill, a problem.
func (k *Keeper) Changed() <-chan struct{} { return k.changed }

// news wakes who waits for a change.
func (k *Keeper) news() {
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// Update sets what is declared now. It never waits.
func (k *Keeper) Update(w cke.BackupWanted) {
	k.mu.Lock()
	k.wanted, k.known = w, true
	line := k.present
	k.mu.Unlock()
	if line != nil {
		line.note(w)
	}
	select {
	case k.updated <- struct{}{}:
	default:
	}
}

// leaveAfter is how long a line that has stored its last delta, or could not, is waited for. One whose target hangs in
// the operating system is left behind: two that write do no harm, since objects are never overwritten.
const leaveAfter = 5 * time.Second

// faultPause is how long what failed by a fault in cke rests.
const faultPause = 5 * time.Second

// Run works until ctx is canceled, and then stores what it has.
func (k *Keeper) Run(ctx context.Context) {
	for {
		err := contain.Do(func() error { k.run(ctx); return nil })
		if err == nil {
			return
		}
		k.c.Log.Error("a panic while working on the backups of one cluster; the others continue", "cluster", k.c.Cluster, "panic", err, "stack", contain.Of(err).Stack)
		k.faulty(err)
		_ = backup.Pause(ctx, faultPause) // once ctx has ended, what is there is still stored
	}
}

// faulty notes why nothing is taken or tended; nil: that is over.
func (k *Keeper) faulty(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	was := k.fault
	if k.fault = nil; err != nil {
		k.fault = &cke.BackupTrouble{Work: "take", Code: cke.CodeBackupFault, Message: err.Error(), Since: k.c.Now().UTC()}
		if was != nil {
			k.fault.Since = was.Since
		}
	}
	if (was == nil) != (k.fault == nil) {
		k.news()
	}
}

func (k *Keeper) run(ctx context.Context) {
	for {
		next := k.next()
		k.faulty(nil)
		if now := k.line(); next.key() != now.key() {
			k.end(now)
			k.begin(ctx, next)
		}
		select {
		case <-ctx.Done():
			k.end(k.line())
			return
		case <-k.updated:
		}
	}
}

// next is the line that is wanted now; nil: none. While no backups are taken of a cluster, what lies beside them is still compared: it may have to
// be known why nothing may be changed.
func (k *Keeper) next() *line {
	k.mu.Lock()
	defer k.mu.Unlock()
	i := k.wanted.Identity.Incarnation
	if !k.known || i == nil || k.wanted.Spec.Cluster.Backup.Target == "" || k.wanted.Idle != "" && i.State != cke.Formed {
		return nil
	}
	return newLine(&k.c, k.wanted, k.news)
}

func (k *Keeper) line() *line {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.present
}

func (k *Keeper) begin(ctx context.Context, l *line) {
	k.mu.Lock()
	defer k.mu.Unlock()
	was := k.present
	k.present = l
	if l == nil {
		return
	}
	l.inherit(was)
	l.note(k.wanted) // before it runs: it must never store what it was not told yet
	var work context.Context
	work, l.cancel = context.WithCancel(ctx)
	go contain.Work(func() {
		defer close(l.ended)
		l.run(work)
	}, func(err error) { k.c.Log.Error("the work on backups stopped", "cluster", k.c.Cluster, "error", err) })()
}

// end ends a line and waits until its last delta is stored, or cannot be.
func (k *Keeper) end(l *line) {
	if l == nil {
		return
	}
	l.cancel()
	timer := time.NewTimer(k.c.Shutdown + leaveAfter)
	defer timer.Stop()
	select {
	case <-l.ended:
	case <-timer.C:
		k.c.Log.Warn("backups: the target does not answer; its worker is abandoned", "cluster", k.c.Cluster)
	}
}

// Status implements cke.Backups.
func (k *Keeper) Status() *cke.BackupStatus {
	k.mu.Lock()
	wanted, l, fault := k.wanted, k.present, k.fault
	k.mu.Unlock()
	if wanted.Spec.Cluster.Backup.Target == "" {
		return nil
	}
	s := cke.BackupStatus{Target: wanted.Spec.Cluster.Backup.Target, TargetID: wanted.TargetID, Idle: wanted.Idle}
	if l != nil && l.backup.Target == s.Target { // else it works on the target before, and is about to end
		l.status(&s)
	}
	if fault != nil {
		s.Problem = fault
	}
	return &s
}

// Full implements cke.Backups.
func (k *Keeper) Full(ctx context.Context) (cke.StoredBackup, error) {
	l, t, err := k.taking(ctx)
	if err != nil {
		return cke.StoredBackup{}, err
	}
	return l.full(ctx, t)
}

// Flush implements cke.Backups.
func (k *Keeper) Flush(ctx context.Context) (cke.StoredBackup, error) {
	l, t, err := k.taking(ctx)
	if err != nil {
		return cke.StoredBackup{}, err
	}
	return l.flush(ctx, t)
}

// openPatience is how long a request for a backup waits for a target that is being opened and read, as by a daemon that has just started
// to lead; openEvery is how often it is checked.
const (
	openPatience = time.Minute
	openEvery    = 10 * time.Millisecond
)

// errOpening: nothing is wrong with the target, it is not open yet.
var errOpening = errors.New("it is being opened and read")

// taking returns the present line and its Taker, or says why there is none.
func (k *Keeper) taking(ctx context.Context) (*line, *take.Taker, error) {
	for end := time.Now().Add(openPatience); ; {
		l, t, err := k.ready()
		if !errors.Is(err, errOpening) || time.Now().After(end) {
			return l, t, err
		}
		if ended := backup.Pause(ctx, openEvery); ended != nil {
			return nil, nil, errors.Join(err, ended)
		}
	}
}

// ready is taking without a wait.
func (k *Keeper) ready() (*line, *take.Taker, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.present != nil && !k.present.idle {
		t, err := k.present.taking()
		return k.present, t, err
	}
	e := &cke.Error{Code: cke.CodeNotBackedUp, What: "no backups are taken of " + k.c.Cluster, Unchanged: true}
	switch {
	case k.known && k.wanted.Spec.Cluster.Backup.Target == "":
		e.Facts, e.Try, e.Err = []string{"its file declares no backup target"}, "declare backup: {target: …}, and: ckecli cluster set FILE", cke.ErrNoTarget
	case k.known && k.wanted.Idle != "":
		e.Facts = []string{k.wanted.Idle}
	case k.fault != nil:
		e.Facts = []string{k.fault.Message}
	default:
		e.What, e.Facts, e.Try = "no backup can be taken of "+k.c.Cluster+" yet", []string{"the leader daemon has just taken charge of the cluster"}, "ckecli backup now"
		if k.known {
			e.Err = errOpening
		}
	}
	return nil, nil, e
}
