package backup

import (
	"runtime/debug"
	"time"

	bolt "go.etcd.io/bbolt"
)

// dbTimeout bounds waiting for the lock of a database file; nobody else opens our files.
const dbTimeout = 5 * time.Second

// openDB opens a database file without a digest at its end. Nothing is synced until Sync is called.
func openDB(path string, readOnly bool) (db *bolt.DB, err error) {
	defer guard(&err)()
	return bolt.Open(path, 0o600, &bolt.Options{
		Timeout: dbTimeout, ReadOnly: readOnly, NoSync: true, NoGrowSync: true, NoFreelistSync: true,
		FreelistType: bolt.FreelistMapType,
	})
}

// guard turns what a broken file or a bad disk does to a reader into an error: a panic of bbolt, or a fault in memory that
// a file is mapped to. For the goroutine that reads: defer guard(&err)()
func guard(err *error) func() {
	before := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(before)
		if p := recover(); p != nil {
			*err = damaged("the database file is broken: %v", p)
		}
	}
}
