package sim_test

import (
	_ "embed"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

var writeNoticed = flag.Bool("noticed", false, "write into testdata/marks/noticed.txt which schedule notices each mutation")

// noticedBy has the schedule that noticed each mutation, one line for each: its seed, and the name of the mutation. It is played first, so
// that most mutations cost one schedule. It may be out of date: then the others are played.
//
//go:embed testdata/marks/noticed.txt
var noticedBy string

// firstToPlay is the schedule that noticed a mutation when the list was written; 0: none is known.
func firstToPlay(mutation string) (seed uint64) {
	for line := range strings.Lines(noticedBy) {
		if number, name, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name == mutation {
			fmt.Sscan(number, &seed)
		}
	}
	return seed
}

// noticedList collects the schedules that notice mutations.
type noticedList struct {
	mu    sync.Mutex
	lines []string
}

func (l *noticedList) add(seed uint64, mutation string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf("%d %s\n", seed, mutation))
}

// write replaces the list in testdata, sorted by the names of the mutations.
func (l *noticedList) write(t *testing.T) {
	name := func(line string) string { _, name, _ := strings.Cut(line, " "); return name }
	slices.SortFunc(l.lines, func(a, b string) int { return strings.Compare(name(a), name(b)) })
	if err := os.WriteFile("testdata/marks/noticed.txt", []byte(strings.Join(l.lines, "")), 0o666); err != nil {
		t.Error(err)
	}
}

// Without any one of its safeguards the proof fails, within a bounded number of schedules.
func TestProof_FailsWithoutEachSafeguard(t *testing.T) {
	if race && testing.Short() {
		t.Skip("too slow with the race detector")
	}
	const limit = 2000
	var list noticedList
	if *writeNoticed {
		t.Cleanup(func() { list.write(t) })
	}
	for _, m := range slices.Concat(mutations, queueMutations, wordMutations, inventoryMutations, successorMutations, outsiderMutations, []mutation{unbounded}, agentsAtOnce) {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			for i := range uint64(limit + 1) {
				seed := i
				if i == 0 {
					seed = firstToPlay(m.name)
				}
				for _, v := range mutant(t, m, seed) {
					if slices.ContainsFunc(m.wants, func(want string) bool { return strings.Contains(v, want) }) {
						t.Logf("noticed by schedule %d: %s", seed, v)
						list.add(seed, m.name)
						return
					}
				}
			}
			t.Error("not noticed")
		})
	}
}
