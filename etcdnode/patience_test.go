package etcdnode

import "time"

// patience is how long a test waits for what must happen.
const patience = time.Minute

// BePatient stretches the limits of answers: no machine is too slow for them, even one that stands still for a while.
func BePatient() { slowness = 5 }

// NoAnswer is what is told of whoever let this limit pass.
func NoAnswer(limit time.Duration) string { return "no answer in " + allowed(limit).String() }
