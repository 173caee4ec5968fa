package cke

import "time"

// Sample is one point of the curves of a cluster: what its leader daemon observed at one time.
type Sample struct {
	At time.Time
	// Tolerance is as in Status.
	Tolerance int
	DBSize    int64 // bytes, of the largest database; 0: no member answered, and Lag and Entries are unknown
	Lag       int64 // entries, of the slowest member
	// Took is how long the observation took.
	Took time.Duration
	// Entries is how many raft entries were committed in a second.
	Entries float64
}
