package etcdnode

import (
	"sync"
	"time"
)

// segments remembers for each container, by name, what was seen of its write-ahead log.
type segments struct {
	mu   sync.Mutex
	last map[string]seenSegment
}

type seenSegment struct {
	name string    // of a segment that was there
	at   time.Time // when it was last seen
	// emptied is when the directory had changed last as it was found to hold no segment, by the node's clock.
	emptied time.Time
	// listing is closed when the listing that is under way ends; nil: none is.
	listing chan struct{}
}

func (s *segments) of(container string) seenSegment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last[container]
}

// keep notes a segment that is there.
func (s *segments) keep(container, segment string) {
	s.change(container, func(l *seenSegment) { l.name, l.at, l.emptied = segment, time.Now(), time.Time{} })
}

// doubt lets the next look ask whether a segment that was seen is there still, however short a time ago that was.
func (s *segments) doubt(container string) {
	s.change(container, func(l *seenSegment) { l.at = time.Time{} })
}

// empty notes that there was none in the directory as it had been since a time.
func (s *segments) empty(container string, since time.Time) {
	s.change(container, func(l *seenSegment) { l.emptied = since })
}

// begin notes that a listing starts, unless one is under way, and returns what is closed when it ends.
func (s *segments) begin(container string) (listed <-chan struct{}, first bool) {
	s.change(container, func(l *seenSegment) {
		if first = l.listing == nil; first {
			l.listing = make(chan struct{})
		}
		listed = l.listing
	})
	return listed, first
}

// end notes that a listing has ended.
func (s *segments) end(container string) {
	s.change(container, func(l *seenSegment) {
		close(l.listing)
		l.listing = nil
	})
}

func (s *segments) change(container string, change func(*seenSegment)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last = map[string]seenSegment{}
	}
	l := s.last[container]
	change(&l)
	s.last[container] = l
}
