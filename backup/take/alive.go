package take

import (
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"cke/backup"
)

// A watch that is open may say nothing although the cluster changes, and etcd's client starts one that was cut again without a word. So the
// cluster is asked for its revision now and then.

// mostSilent is how often a watch may be found behind what the cluster reported before, without having brought anything.
const mostSilent = 2

// mostDoubled is how often the time that a watch is given is doubled while none brings anything: a member that first has to read hours of
// changes is silent for long, and is reset with each watch.
const mostDoubled = 8

// life is what the session knows of the watch from what the cluster itself reports.
type life struct {
	newest   int64     // revision that the cluster has told
	ahead    told      // what the watch has to bring; older than newest as long as it has not
	last     int64     // what the watch had brought by the last answer
	silent   int       // answers since then
	proof    time.Time // all changes made before were received when they were made, or there were none
	answered time.Time // the cluster, last
	watches  int       // how many watches were given up because they were silent
	vain     int       // how many of them since the last changes came
	begun    time.Time // the watch that took the place of the last of them
}

// told is a revision that the cluster had reached at some time after it was asked.
type told struct {
	revision int64
	asked    time.Time
}

// limit is how long the watch may be behind, or unproved.
func (s *session) limit() time.Duration {
	return max(2*time.Duration(s.t.c.Delta.Period), DefaultPeriod)
}

// heard records what the cluster reported, if it did.
func (s *session) heard(t told) {
	l, last := &s.life, s.builder.Last()
	l.newest = max(l.newest, t.revision)
	switch {
	case t.revision < s.stored: // a member that lags, or nothing
		return
	case l.ahead.revision <= last:
		l.ahead, l.silent = t, 0
	case l.last != last || s.suspended() || s.doubted() && s.begun == nil:
		l.silent = 0
	default:
		l.silent++
	}
	l.last = last
	s.prove()
	s.seen()
}

// prove notes that the watch has delivered what the cluster reported.
func (s *session) prove() {
	if l := &s.life; l.ahead.revision > 0 && l.ahead.revision <= s.builder.Last() {
		l.proof = l.ahead.asked
	}
}

// receive is called when changes come. They may have been made long ago if nothing has proved the watch since. They are of the history that was
// compared after it had started: a watch ends with its connection.
func (s *session) receive() {
	s.life.vain = 0
	if s.unproved() {
		s.prime()
	}
}

func (s *session) unproved() bool { return backup.Since(s.life.proof, s.t.c.Now()) > s.limit() }

// prime counts the watch as unbroken from now on.
func (s *session) prime() {
	s.life.proof = s.t.c.Now()
	s.at.watched = s.life.proof.UTC()
}

// silentWatch returns an error if the watch has to start again, through another member.
func (s *session) silentWatch() error {
	l, now := &s.life, s.t.c.Now()
	if l.silent < mostSilent || min(backup.Since(l.ahead.asked, now), backup.Since(l.begun, now)) <= s.limit()<<min(l.vain, mostDoubled) {
		return nil
	}
	s.t.tell(Event{Type: ClusterFailed, Err: fmt.Errorf("the watch delivers no changes after revision %d, but the cluster is at %d: the watch is restarted, on another member if there is one", s.builder.Last(), l.newest)})
	l.silent, l.begun = 0, now
	l.watches++
	l.vain++
	return errWatchAgain
}

// watched returns the client for the next watch: of all members, or of one after the other as long as watches are silent.
func (s *session) watched() *clientv3.Client {
	if l := &s.life; l.vain > 0 {
		ends := s.k.all.Endpoints()
		if cli, err := s.k.member(ends[l.watches%len(ends)]); err == nil {
			return cli
		}
	}
	return s.k.all
}

// unanswered reports a cluster that has reported nothing for so long that backups may be late.
func (s *session) unanswered(err error) {
	l, now := &s.life, s.t.c.Now()
	if backup.Since(l.answered, now) > max(time.Minute, 3*time.Duration(s.t.c.Delta.Period)) {
		l.answered = now // it is told again after as long
		s.t.tell(Event{Type: ClusterFailed, Err: err})
	}
}

// seen records how far the cluster is known to be, and what waits for the target.
func (s *session) seen() { s.t.setSeen(max(s.builder.Last(), s.life.newest), s.buffered()) }
