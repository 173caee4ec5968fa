//go:build race

package sim_test

// race: the tests run with the race detector.
const race = true
