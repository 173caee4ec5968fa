package take

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
	"cke/backup"
)

// quietSession is a session without a cluster, in which changes from revision 6 on are taken.
func quietSession(t *testing.T, now *time.Time) *session {
	c := Config{Now: func() time.Time { return *now }, Notify: func(Event) {}, Log: slog.New(slog.DiscardHandler)}
	c.Delta.Period = cke.Duration(time.Second)
	builder, err := backup.NewDeltaWriter(6, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &session{t: &Taker{c: c}, o: newObserver(nil, &c), builder: builder, age: stopped(), authTry: stopped()}
}

// A member that has hours of changes to read first is silent for long, with each watch anew: the next one is given longer.
func TestSilentWatch_IsGivenLongerEachTime(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	s := quietSession(t, &now)
	s.heard(told{revision: 9, asked: now})
	restarted := func(after time.Duration) bool {
		now = now.Add(after)
		s.life.silent = mostSilent
		return s.silentWatch() != nil
	}
	for i, row := range []struct {
		after time.Duration
		want  bool
	}{{9 * time.Second, false}, {2 * time.Second, true}, {11 * time.Second, false}, {10 * time.Second, true}, {39 * time.Second, false}, {2 * time.Second, true}} {
		if got := restarted(row.after); got != row.want {
			t.Errorf("step %d: %t", i, got)
		}
	}
	s.receive()
	if !restarted(11 * time.Second) {
		t.Error("what brought changes is given as long as the first one")
	}
}

// One member is watched only while watches are silent: afterwards that member may be the one that fails.
func TestSilentWatch_AllMembersAreWatchedAgainOnceChangesCome(t *testing.T) {
	c := Config{Endpoints: []string{"http://a:1", "http://b:1", "http://c:1"}, Now: time.Now, Notify: func(Event) {}, Log: slog.New(slog.DiscardHandler)}
	k, err := dial(&c)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	builder, err := backup.NewDeltaWriter(6, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &session{t: &Taker{c: c}, k: k, builder: builder, authTry: time.NewTimer(time.Hour)}
	all := strings.Join(c.Endpoints, " ")
	for i, want := range []string{all, "http://b:1", "http://c:1", all, "http://a:1", "http://b:1"} {
		switch want {
		case all:
			s.receive()
		default:
			s.life.silent, s.life.ahead.asked, s.life.begun = mostSilent, time.Time{}, time.Time{}
			if s.silentWatch() == nil {
				t.Fatalf("watch %d: the one before is not given up", i)
			}
		}
		if got := strings.Join(s.watched().Endpoints(), " "); got != want {
			t.Errorf("watch %d goes to %s, want %s", i, got, want)
		}
	}
}

// The first changes come late behind a long backlog, and where the cluster answers nothing else: they were made by the history that was
// compared after the watch had started, and only when they were made is unknown.
func TestTake_ChangesThatComeLateAreKept(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	s := quietSession(t, &now)
	s.prime()
	s.suspect()
	s.settled(s.doubt.raised)
	s.heard(told{revision: 9, asked: now})
	for revision := int64(6); revision <= 7; revision++ {
		now = now.Add(2 * s.limit())
		kv := &mvccpb.KeyValue{Key: []byte("k"), CreateRevision: revision, ModRevision: revision, Version: 1}
		if err := s.take(clientv3.WatchResponse{Events: []*clientv3.Event{{Type: mvccpb.PUT, Kv: kv}}}, true); err != nil {
			t.Fatalf("revision %d: %v", revision, err)
		}
		if last := s.builder.Last(); last != revision || !s.at.watched.Equal(now) {
			t.Errorf("revision %d of %d, watched since %s at %s", last, revision, s.at.watched, now)
		}
	}
}
