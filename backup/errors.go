package backup

import (
	"errors"
	"fmt"
	"strings"

	"cke/backup/internal/damage"
	"cke/backup/internal/stream"
)

// Sentinel errors; check them with errors.Is.
var (
	// ErrExists reports that an object of that name already exists. Objects are never overwritten.
	ErrExists = errors.New("the object already exists")
	// ErrEmpty reports that the store answers and holds no full backup of what was requested.
	ErrEmpty = errors.New("no full backup")
	// ErrNotCovered reports that there are backups, but none reaches the requested revision or time.
	ErrNotCovered = errors.New("not covered by any backup")
	// ErrOnlyFull reports that without this full, no state of its incarnation, or not the newest one, could be restored.
	ErrOnlyFull = errors.New("the only full")
	// ErrProtected reports that the target does not allow the object to be deleted: it is immutable, or locked for a
	// time.
	ErrProtected = errors.New("the target protects it from deletion")
	// ErrKey reports that a backup is encrypted and no given identity decrypts it.
	ErrKey = stream.ErrNoKey
	// ErrAmbiguousTime reports that the clock of the backup host jumped, and a time matches more than one revision.
	ErrAmbiguousTime = errors.New("the time matches more than one revision: name a revision")
	// errLimit reports that an object requests more memory than a reader grants.
	errLimit = stream.ErrTooLarge
)

// DamagedError reports that an object is missing, truncated, altered or in the wrong place, and how far the backup can be
// trusted. Nothing was written when it is returned. Extract with AllowPartial goes as far as LastGood.
type DamagedError struct {
	// Object is the name of the damaged or missing object.
	Object string
	// LastGood is the newest revision that can be restored in spite of the damage; 0 means none.
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

// Lineage returns the incarnation that the object belongs to; empty if its name has none.
func (e *DamagedError) Lineage() string {
	if parts := strings.Split(e.Object, "/"); len(parts) > 2 {
		return parts[1]
	}
	return ""
}

// LocalError reports that a file of this host could not be written: the store is not at fault.
type LocalError struct {
	Path string
	Err  error
}

func (e *LocalError) Error() string { return fmt.Sprintf("write %s: %v", e.Path, e.Err) }

func (e *LocalError) Unwrap() error { return e.Err }

// errMissing: an object that a listing had is not there. Somebody may have deleted it since.
var errMissing = errors.New("it is missing")

// errNotThat: another full is at the place of one that deltas name.
var errNotThat = errors.New("it is not the full")

func damaged(format string, args ...any) error { return damage.Errorf(format, args...) }

// IsDamage reports whether err is about the content of a backup rather than about access to it.
func IsDamage(err error) bool {
	var d *DamagedError
	return errors.As(err, &d) || damage.Is(err)
}
