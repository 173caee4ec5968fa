package sim_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Bounds of the story of one schedule: what it starts with, and what it ends with.
const (
	taleStart = 900
	taleEnd   = 900
)

// tale collects the story of a schedule in at most taleStart + taleEnd lines. Reads that succeed are left out, and lines that
// repeat are counted.
type tale struct {
	start, end []string
	times      int // that the last line was told
	dropped    int
}

// quiet are reads that succeeded: what follows from them is told by the decision.
var quiet = regexp.MustCompile(`^daemon \d+: (look\.|store\.(Spec|Identity)|etcd\.(Endpoint|Members)|ca\.CA|node\.(Container|Clock|Data|Certificates))[^:]*$`)

func (s *tale) tell(format string, args ...any) {
	for _, line := range strings.Split(fmt.Sprintf(format, args...), "\n") {
		if !quiet.MatchString(line) {
			s.add(line)
		}
	}
}

func (s *tale) add(line string) {
	lines := &s.start
	if len(s.start) >= taleStart {
		lines = &s.end
	}
	if n := len(*lines); n > 0 && s.times > 0 && strings.TrimSuffix((*lines)[n-1], s.again()) == line {
		s.times++
		(*lines)[n-1] = line + s.again()
		return
	}
	if s.times = 1; len(s.end) >= 2*taleEnd {
		s.dropped += len(s.end) - taleEnd
		s.end = slices.Clone(s.end[len(s.end)-taleEnd:])
	}
	*lines = append(*lines, line)
}

// again is how a line says that it was told several times.
func (s *tale) again() string {
	if s.times < 2 {
		return ""
	}
	return fmt.Sprintf(" (%d times)", s.times)
}

// String is the story, with what was left out of its middle counted.
func (s *tale) String() string {
	end, dropped := s.end, s.dropped
	if n := len(end) - taleEnd; n > 0 {
		end, dropped = end[n:], dropped+n
	}
	all := slices.Clone(s.start)
	if dropped > 0 {
		all = append(all, fmt.Sprintf("… %d lines left out", dropped))
	}
	return strings.Join(append(all, end...), "\n")
}

// A story stays short whatever happens in it.
func TestTale_StaysShort(t *testing.T) {
	var s tale
	for i := range 100_000 {
		s.tell("daemon 1: look.Node on n%d", i)
		s.tell("daemon 1: node.StopContainer on n%d", i)
		s.tell("a client compacts")
		s.tell("a client compacts")
	}
	text := s.String()
	if n := strings.Count(text, "\n") + 1; n > 2000 || strings.Contains(text, "look.Node") || !strings.Contains(text, "a client compacts (2 times)") || !strings.HasSuffix(text, "n99999\na client compacts (2 times)") {
		t.Errorf("%d lines, ending with %q", n, text[max(0, len(text)-100):])
	}
}
