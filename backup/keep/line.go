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
	"sync/atomic"
	"time"

	"filippo.io/age"
	"github.com/cenkalti/backoff/v5"

	"cke"
	"cke/backup"
	"cke/backup/boot"
	"cke/backup/take"
	"cke/internal/contain"
)

// line is the work on one lineage in one target with unchanging settings.
type line struct {
	c       *Config
	backup  cke.Backup
	lineage string
	origin  *backup.Origin
	name    string // differs for lines that differ
	// idle: nothing is taken, written or deleted, and what lies beside the backups is compared.
	idle bool
	ends []string
	// clusterID is etcd's: what answers with another one is not backed up.
	clusterID string

	news   func() // tells that something changed which people ought to know of
	cancel context.CancelFunc
	ended  chan struct{}
	wake   chan struct{} // for the chores

	verdicts              backup.Verdicts // on what the target holds
	fulls, drills, merges take.Schedule   // nil: never
	faulty                error           // of the settings

	mu     sync.Mutex
	taker  *take.Taker   // nil: the target is not open
	store  *backup.Store // what the Taker writes to; nil as taker
	beside digest        // shows changes of what is to be beside the backups
	spec   cke.Spec      // as it is known by now
	freeze *cke.Freeze   // the last one
	// compared: it is known what lacks in the store by the identity beside the backups.
	compared bool
	lacks    []cke.Lacking
	had      []string // digests of identities beside the backups of which the store has had everything
	lives    []string // the incarnations of the cluster on record
	clock    string   // why this host's clock cannot be trusted
	target   string   // the id of the target's marker; empty: it is not known to have one
	marked   *backup.Marked
	// unwritable: the last probe that wrote something failed.
	unwritable bool
	// doubt: the target was another one, or silent, since it was read. What is believed of it has to be compared.
	doubt bool
	// completed is when a flush last saw all that is believed to be in the target.
	completed time.Time
	lost      string // what is known to have been stored and was missing when the target was read last
	// recorded is the newest revision that the target is on record to have led to. loss is the last loss that was noticed.
	recorded int64
	loss     *cke.BackupTrouble
	look     chan struct{} // asks for a probe at once
	working  bool          // a chore that is not brief is under way

	known       bool      // the target was read
	begun       time.Time // when it was: drills count from here while there has been none
	newest      cke.StoredBackup
	fullsAt     []time.Time      // of the newest fulls, when the target was listed last, and those stored since
	since       time.Time        // every moment from then on can be restored
	delta       cke.StoredBackup // the last one stored here
	reached     int64            // newest revision in the target when it was read, and its time
	reachedAt   time.Time
	events      int64 // changes since the newest full, and the size of the deltas that hold them
	bytes       int64
	mergedAt    time.Time // when this line last merged, or found nothing to
	gap         bool      // changes are missing after it
	wrong       bool      // the target has fulls that were found wrong: they are not among the above
	pruneDue    bool
	verified    *cke.VerifiedBackup
	drilled     time.Time    // when a drill last succeeded from the newest full; zero: none is known
	whole       backup.Whole // fulls that were read whole since the target was read, or that a drill restored
	readsBack   atomic.Bool  // the target reads back what it stores
	problem     *cke.BackupTrouble
	from        take.EventType // that the problem comes from; "": the target is not open
	troubles    map[string]cke.BackupTrouble
	fault       string // the last one logged
	behind      int64  // a revision that was not in the target, and when that was first seen
	behindSince time.Time
	caughtUp    bool // all that the cluster was known to hold was in the target once since this line began
}

func newLine(c *Config, w cke.BackupWanted, news func()) *line {
	l := &line{c: c, news: news, backup: w.Spec.Cluster.Backup, lineage: w.Identity.Incarnation.ID, idle: w.Idle != "", origin: originOf(c.Cluster, *w.Identity.Incarnation), clusterID: w.Identity.Incarnation.ClusterID, ended: make(chan struct{}), wake: make(chan struct{}, 1), look: make(chan struct{}, 1),
		troubles: map[string]cke.BackupTrouble{}}
	endpoint := cke.Join.ClientURL
	if c.Endpoint != nil {
		endpoint = c.Endpoint
	}
	for _, j := range cke.Chosen(w.Identity.Joins) {
		if !j.StartedAt.IsZero() {
			l.ends = append(l.ends, endpoint(j))
		}
	}
	var credentials int64
	if c.Credentials != nil {
		credentials = c.Credentials()
	}
	// With other authorities there are other certificates to show and to trust.
	name, err := json.Marshal([]any{l.backup, l.lineage, l.idle, l.ends, credentials, w.Identity.Authorities})
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

// toldReplaced bounds how many replaced incarnations the header of each backup names: of those on record, and of those that no record named
// when they were found.
const toldReplaced = 8

// originOf is what an incarnation was restored from, and the lives that it took the place of.
func originOf(cluster string, i cke.Incarnation) *backup.Origin {
	r := i.Restore
	if r == nil {
		return nil
	}
	var o backup.Origin
	before := r.Before.BeforeRestores() // one that took the place of another was never formed
	switch {
	case before == nil:
	case before.State != cke.Awaiting:
		o.Replaces = before.ID
	case len(before.Replaced) > 0: // the id of a declaration is in no store or backup
		o.Replaces = before.Replaced[len(before.Replaced)-1]
	}
	found := slices.Index(i.Replaced, o.Replaces) + 1 // the record has them after the one that ended
	for _, some := range [][]string{i.Replaced[:found], i.Replaced[found:]} {
		o.Replaced = append(o.Replaced, some[max(0, len(some)-toldReplaced):]...)
	}
	switch {
	case r.Snapshot.Lineage != "" && r.Order.Source == cluster:
		o.Lineage, o.Revision = r.Snapshot.Lineage, r.Snapshot.Revision
	case r.Order.Survivor != "":
		o.Lineage, o.Revision = o.Replaces, r.Snapshot.Revision
	}
	return &o
}

// key identifies lines.
func (l *line) key() string {
	if l == nil {
		return ""
	}
	return l.name
}

// run works until ctx ends. Whatever goes wrong is reported, and tried again.
func (l *line) run(ctx context.Context) {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 500*time.Millisecond, 30*time.Second
	for {
		begun := time.Now()
		session := l.session
		if l.idle {
			session = l.compareOnly
		}
		err := contain.Do(func() error { return session(ctx) })
		if ctx.Err() != nil {
			return
		}
		if time.Since(begun) > time.Minute {
			pause.Reset()
		}
		if errors.Is(err, backup.ErrLost) {
			l.forget()
			pause.Reset()
		} else if err != nil && l.idle {
			l.suffer("older", err)
		} else if err != nil {
			l.fail("", cke.CodeTarget, err)
		}
		if err != nil {
			l.c.Log.Warn("backups", "cluster", l.c.Cluster, "error", err)
		}
		if backup.Pause(ctx, pause.NextBackOff()) != nil {
			return
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
	store := l.storeIn(t, config.Scratch, config.Signer)
	marked, err := l.mark(ctx, store)
	if err != nil {
		return err
	}
	config.Bucket, store.Bucket, store.Whole = marked, marked, &l.whole
	l.readsBack.Store(backup.ReadsBack(marked))
	l.settle("overwriting")
	if marked.Overwrites {
		l.suffer("overwriting", &cke.Error{Code: cke.CodeOverwrites, What: "the target allows objects to be overwritten"})
	}
	if err := l.survey(ctx, store, marked); err != nil {
		return err
	}
	config.Renew = l.misses()
	taker, err := take.New(config)
	if err != nil {
		return err
	}
	work, stop := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	wg.Go(contain.Work(func() { newChores(l, store, taker).run(work) }, stop))
	wg.Go(contain.Work(func() { l.watch(work, stop, store, marked) }, stop))
	defer wg.Wait()
	defer stop(nil)
	l.settle("objects")
	l.settle("list")
	l.use(taker, store)
	defer l.use(nil, nil)
	err = taker.Run(work)
	if f := contain.Of(context.Cause(work)); f != nil {
		return f
	}
	if lost := context.Cause(work); errors.Is(lost, backup.ErrLost) {
		return lost
	}
	if errors.Is(err, take.ErrDiverged) {
		return &cke.Error{Code: cke.CodeOtherHistory, What: "nothing is backed up", Err: err}
	}
	return err
}

func (l *line) storeIn(t Target, scratch string, signer *backup.Signer) *backup.Store {
	s := &backup.Store{Bucket: t, Cluster: l.c.Cluster, Scratch: scratch, Retry: l.c.Retry, Now: l.c.Now, Signer: signer, Verdicts: &l.verdicts, Ordered: l.c.Ordered, Guard: l.c.Guard}
	if signer != nil {
		s.Trusted = []backup.PublicKey{signer.Public()}
	}
	return s
}

// signer signs what is written; nil: nobody does.
func (l *line) signer(ctx context.Context) (*backup.Signer, error) {
	if l.c.Identity == nil {
		return nil, nil
	}
	id, err := l.c.Identity(ctx)
	if err != nil {
		return nil, err
	}
	return backup.NewSigner(id), nil
}

func (l *line) use(t *take.Taker, s *backup.Store) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taker, l.store = t, s
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
		return take.Config{}, fmt.Errorf("the client certificate for etcd: %w", err)
	}
	recipients, err := recipientsOf(l.backup.Encryption)
	if err != nil {
		return take.Config{}, err
	}
	signer, err := l.signer(ctx)
	if err != nil {
		return take.Config{}, err
	}
	return take.Config{
		Signer: signer, Verdicts: &l.verdicts,
		Bucket: t, Cluster: l.c.Cluster, Lineage: l.lineage, Origin: l.origin, Endpoints: l.ends, ClusterID: l.clusterID, TLS: tls,
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

// scratch makes the cluster's own part of the scratch directory and removes what a daemon that was killed left there.
func (l *line) scratch() (string, error) {
	dir := filepath.Join(l.c.Scratch, l.c.Cluster)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("the scratch directory of backups: %w", err)
	}
	return dir, backup.SweepScratch(dir)
}

// survey reads what the target holds already. Nothing counts that was believed of it before.
func (l *line) survey(ctx context.Context, store *backup.Store, m *backup.Marked) error {
	lineage, wrong, err := l.read(ctx, store)
	if err != nil {
		return err
	}
	mark, drill, err := store.LastDrills(ctx, l.lineage)
	if err != nil && !backup.IsDamage(err) {
		return fmt.Errorf("read the target: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.news()
	before := max(l.reached, l.recorded)
	l.delta, l.verified, l.drilled = cke.StoredBackup{}, nil, time.Time{}
	l.known, l.doubt, l.pruneDue = true, false, l.backup.Retention != cke.Retention{}
	if l.begun.IsZero() {
		l.begun = l.c.Now()
	}
	l.whole.Forget()
	if mark != nil {
		l.whole.Add(mark.Full)
		l.verified, l.drilled = verifiedOf(*mark), mark.Proved
	}
	if _, here := l.troubles["verify"]; drill != nil && l.drills != nil && !here { // this daemon drills again, and reports when it is over
		l.troubles["verify"] = l.trouble("verify", cke.CodeBackupDamaged, drill)
	}
	l.measure(lineage, wrong)
	for _, st := range lineage.Streams {
		m.Expect(st.Deltas[len(st.Deltas)-1].Place)
	}
	if n := len(lineage.Fulls); n > 0 {
		m.Expect(lineage.Fulls[n-1].Place)
	}
	if l.reached < before && !holds(before, lineage, wrong) {
		l.lost = fmt.Sprintf("the target held backups up to revision %d, but those in it led only to revision %d when it was read", before, l.reached)
		l.c.Log.Warn("backups are missing", "cluster", l.c.Cluster, "stored to", before, "restorable to", l.reached)
		t := l.trouble("take", cke.CodeLostBackups, errors.New(l.lost))
		l.loss = &t
	}
	if l.lost != "" {
		t := l.trouble("take", cke.CodeLostBackups, errors.New(l.lost+"; a full follows"))
		l.problem, l.from = &t, missing
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
	case contain.Of(err) != nil:
		code = cke.CodeBackupFault
		l.tellFault(contain.Of(err))
	case errors.Is(err, backup.ErrUntrusted):
		code = cke.CodeUntrusted
	case errors.Is(err, backup.ErrKey):
		code = cke.CodeBackupKey
	case backup.IsDamage(err), errors.Is(err, backup.ErrNotServed):
		code = cke.CodeBackupDamaged
	case errors.Is(err, boot.ErrNotBooted):
		code = cke.CodeNotBooted
	case errors.Is(err, take.ErrDiverged):
		code = cke.CodeOtherHistory
	case errors.Is(err, backup.ErrLost):
		code = cke.CodeLostBackups
	case errors.Is(err, backup.ErrOtherTarget):
		code = cke.CodeOtherTarget
	case errors.Is(err, backup.ErrClock):
		code = cke.CodeClock
	case code == cke.CodeInternal:
		code = or
	}
	return cke.BackupTrouble{Work: work, Code: code, Message: err.Error(), Since: l.c.Now().UTC()}
}

// tellFault logs a fault with its stack, unless it is the one before. The caller holds the lock.
func (l *line) tellFault(f *contain.Fault) {
	if l.fault != f.Error() {
		l.fault = f.Error()
		l.c.Log.Error("a panic while working on the backups of one cluster; the others continue", "cluster", l.c.Cluster, "panic", f.Value, "stack", f.Stack)
	}
}

// rouse makes the chores check what is due.
func (l *line) rouse() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}
