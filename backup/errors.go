package backup

import (
	"errors"
	"fmt"
	"strings"

	"cke/backup/internal/damage"
	"cke/backup/internal/stream"
)

// Sentinel errors; ask with errors.Is.
var (
	// ErrExists: an object of that name is there already. Objects are never overwritten.
	ErrExists = errors.New("the object is there already")
	// ErrEmpty: the store answers and holds no full backup of what was asked for.
	ErrEmpty = errors.New("no full backup")
	// ErrNotCovered: backups are there, and none reaches the revision or the time asked for.
	ErrNotCovered = errors.New("not covered by any backup")
	// ErrOnlyFull: without this full, nothing of its lineage or not its newest state could be restored.
	ErrOnlyFull = errors.New("the only full")
	// ErrProtected: the target keeps the object from being deleted: it is immutable, or locked for a time.
	ErrProtected = errors.New("the target protects it from being deleted")
	// ErrKey: a backup is encrypted and no identity given opens it.
	ErrKey = stream.ErrNoKey
	// ErrAmbiguousTime: the clock of the backup host jumped, and a time stands for more than one revision.
	ErrAmbiguousTime = errors.New("the time stands for more than one revision: name a revision")
	// ErrLimit: an object asks for more memory than a reader grants.
	ErrLimit = stream.ErrTooLarge
)

// DamagedError tells that an object is missing, truncated, altered or at the wrong place, and how far the backup can be
// trusted. Nothing was written when it is returned. Extract with AllowPartial goes as far as LastGood.
type DamagedError struct {
	// Object is the name of the damaged or missing object.
	Object string
	// LastGood is the newest revision that can be restored in spite of the damage; 0: none.
	LastGood int64
	Err      error
}

func (e *DamagedError) Error() string {
	why := damage.Why(e.Err)
	if e.LastGood == 0 {
		return fmt.Sprintf("%s is damaged: %s; no revision can be restored from this backup", e.Object, why)
	}
	return fmt.Sprintf("%s is damaged: %s; the last good revision is %d", e.Object, why, e.LastGood)
}

func (e *DamagedError) Unwrap() error { return e.Err }

// Lineage is the lineage that the object is of; empty: it tells none.
func (e *DamagedError) Lineage() string {
	if parts := strings.Split(e.Object, "/"); len(parts) > 2 {
		return parts[1]
	}
	return ""
}

// LocalError tells that a file of this host could not be written: nothing is wrong with the store.
type LocalError struct {
	Path string
	Err  error
}

func (e *LocalError) Error() string { return fmt.Sprintf("write %s: %v", e.Path, e.Err) }

func (e *LocalError) Unwrap() error { return e.Err }

// errMissing: an object that a listing had is not there. Somebody may have deleted it since.
var errMissing = errors.New("it is missing")

func damaged(format string, args ...any) error { return damage.Errorf(format, args...) }

// IsDamage reports whether err speaks of the content of a backup rather than of the way to it.
func IsDamage(err error) bool {
	var d *DamagedError
	return errors.As(err, &d) || damage.Is(err)
}
