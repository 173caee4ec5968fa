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
