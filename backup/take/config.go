// Package take makes the backups of a running etcd cluster: full snapshots, and deltas from one unbroken watch.
package take

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"os"
	"time"

	"filippo.io/age"

	"cke"
	"cke/backup"
)

// Sentinel errors; check them with errors.Is.
var (
	// ErrDiverged reports that the cluster's history differs from the one that was backed up, for example after a restore
	// by other means. It needs its own incarnation or target.
	ErrDiverged = errors.New("the cluster's history differs from that of its backups")
	// ErrStopped reports that the Taker does not run, or stopped before the work was done.
	ErrStopped = errors.New("backups are not being taken")
)

// Defaults of a Config.
const (
	DefaultPeriod = 10 * time.Second
	DefaultSize   = 10 << 20
	DefaultBuffer = 64 << 20
	// DefaultShutdown is less than what service managers grant.
	DefaultShutdown = 20 * time.Second

	// patience is how long the other members have to report their status once one has.
	patience = 300 * time.Millisecond
	// catchUp is how long a member may take to reach a revision that another has; it is looked again after catchUpPause.
	catchUp      = 3 * time.Second
	catchUpPause = 20 * time.Millisecond

	// What bounds single requests to etcd.
	requestTimeout = 10 * time.Second
	hashTimeout    = 2 * time.Minute

	// deltaRetry is the pause after a delta could not be written, and deltaRetryMax the longest, unless Config.Retry says
	// otherwise.
	deltaRetry    = time.Second
	deltaRetryMax = 30 * time.Second

	// maxLag is how many raft entries behind the newest member a snapshot's source may be.
	maxLag = 1000
	// HashKV reads the whole database. Unless it takes no longer than hashCheap, it may take one part in hashShare of a
	// member's time.
	hashCheap = 200 * time.Millisecond
	hashShare = 50
	// hashWait is how long a delta waits for its hash. What comes later is part of a later delta.
	hashWait = time.Second
)

// Config configures a Taker. `Bucket`, `Cluster`, `Lineage` and `Endpoints` must be set.
type Config struct {
	Bucket  backup.Bucket
	Cluster string
	// Lineage names the incarnation of the cluster; it is never used again after a restore.
	Lineage string
	// Origin is the state that this incarnation was restored from; nil: it was bootstrapped.
	Origin *backup.Origin

	// Endpoints are the client URLs of all members. The user, or the certificate's, needs the role root.
	Endpoints []string
	// ClusterID is etcd's, in hex: a member that answers with a different one is not backed up. Empty: it is not known.
	ClusterID string
	TLS       *tls.Config
	Username  string
	Password  string

	// Delta bounds what one delta holds; zero fields: DefaultPeriod and DefaultSize (bytes of keys and values).
	Delta cke.BackupDelta
	// Fulls is the schedule of fulls; nil: only when one is needed or requested.
	Fulls      Schedule
	Recipients []age.Recipient
	// Signer signs what is written; nil: it is not signed.
	Signer *backup.Signer
	// Verdicts caches which key signed what in the bucket; nil: no cache.
	Verdicts *backup.Verdicts

	// Buffer bounds the memory of deltas while the target is slow or unavailable; zero: DefaultBuffer. One batch of
	// etcd's watch may be added to it. When it is full, the watch is stopped, and started again when there is room.
	Buffer int64
	// Shutdown bounds storing the last delta when Run stops; zero: DefaultShutdown.
	Shutdown time.Duration
	// Scratch is a directory with room for one snapshot and its compressed copy; empty: the system's temporary directory.
	Scratch string

	// Renew means that stored backups are missing, so a full is taken first, whatever the target holds.
	Renew bool
	// Guard is called before every write; its error stops Run. So the term stops a deposed daemon. nil: none.
	Guard  func() error
	Writer string // who writes, for people
	Term   int64

	Retry backup.Retry
	// Notify receives events in order, and must not block. nil: events are dropped.
	Notify func(Event)
	Now    func() time.Time // nil: time.Now
	Log    *slog.Logger     // nil: none
}

func (c Config) withDefaults() (Config, error) {
	if c.Bucket == nil || len(c.Endpoints) == 0 {
		return c, errors.New("take backups: bucket or endpoints are missing")
	}
	if err := backup.CheckNames(c.Cluster, c.Lineage); err != nil {
		return c, err
	}
	if c.Delta.Period == 0 {
		c.Delta.Period = cke.Duration(DefaultPeriod)
	}
	if c.Delta.Size == 0 {
		c.Delta.Size = DefaultSize
	}
	if c.Buffer == 0 {
		c.Buffer = DefaultBuffer
	}
	if c.Shutdown == 0 {
		c.Shutdown = DefaultShutdown
	}
	if c.Scratch == "" {
		c.Scratch = os.TempDir()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Notify == nil {
		c.Notify = func(Event) {}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// store is the target as this Taker reads it and marks it. Where it signs, it believes what its own key signed, and what is from before.
func (c *Config) store() *backup.Store {
	s := &backup.Store{Bucket: c.Bucket, Cluster: c.Cluster, Scratch: c.Scratch, Retry: c.Retry, Now: c.Now, Signer: c.Signer, Verdicts: c.Verdicts}
	if c.Signer != nil {
		s.Trusted = []backup.PublicKey{c.Signer.Public()}
	}
	return s
}

// signs reports whether an object is signed with this Taker's key.
func (c *Config) signs(h backup.Header) bool {
	return c.Signer != nil && h.Signature != nil && h.Signature.Key == c.Signer.Public()
}
