package pages

import (
	"runtime/debug"
	"time"

	bolt "go.etcd.io/bbolt"

	"cke/backup/internal/damage"
)

// lockTimeout bounds waiting for the lock of a database file; no other process opens our files.
const lockTimeout = 5 * time.Second

// Open opens a database file without a digest at its end. Nothing is synced until Sync is called.
func Open(path string, readOnly bool) (db *bolt.DB, err error) {
	defer Guard(&err)()
	return bolt.Open(path, 0o600, &bolt.Options{
		Timeout: lockTimeout, ReadOnly: readOnly, NoSync: true, NoGrowSync: true, NoFreelistSync: true,
		FreelistType: bolt.FreelistMapType,
	})
}

// Guard turns the effects of a broken file or a bad disk on a reader into an error: a panic of bbolt, or a fault in
// mapped memory. In the goroutine that reads: defer pages.Guard(&err)()
func Guard(err *error) func() {
	before := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(before)
		if p := recover(); p != nil {
			*err = damage.Errorf("the database file is broken: %v", p)
		}
	}
}
