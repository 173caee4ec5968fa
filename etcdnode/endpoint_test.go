package etcdnode

import (
	"context"
	"crypto/tls"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cke"
)

// etcdFleet is a fleet that shows members a certificate of the authority.
func etcdFleet(t testing.TB, ca *TestCA) *Fleet {
	t.Helper()
	c := ca.TLS("cke")
	f := New(Config{ClientTLS: func(context.Context) (*tls.Config, error) { return c, nil }, Probe: time.Hour})
	t.Cleanup(f.Close)
	return f
}

func TestEndpoint_TellsAllOfAHealthyMember(t *testing.T) {
	t.Parallel()
	ca := NewTestCA(t)
	server := ca.TLS("server", "127.0.0.1")
	m, f := newFakeEtcd(t, server), etcdFleet(t, ca)
	got := f.Endpoint(t.Context(), m.url())
	want := cke.EndpointStatus{
		URL: m.url(), Serializable: true, Linearizable: true, ClusterID: "c1", MemberID: "a1", LeaderID: "a1", Version: "3.6.16",
		StorageVersion: "3.6.0", Revision: 7, DBSize: 20480, DBSizeInUse: 16384, RaftTerm: 2, RaftIndex: 9, RaftApplied: 9,
		CertNotBefore: server.Certificates[0].Leaf.NotBefore, CertNotAfter: server.Certificates[0].Leaf.NotAfter,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if err := f.ProveWrite(t.Context(), m.url()); err != nil || m.count("alarm") != 1 {
		t.Errorf("ProveWrite: %v", err)
	}
	id, members, err := f.Members(t.Context(), m.url())
	if err != nil || id != "c1" || len(members) != 1 || members[0].ID != "a1" {
		t.Errorf("Members: %s %+v %v", id, members, err)
	}
}

// Requirement C5: reached, no error of its own, and reads succeed through it.
func TestEndpoint_TellsWhatDoesNotWork(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*fakeEtcd)
		want   func(cke.EndpointStatus) bool
		reads  int // that need a quorum
	}{
		"silent":            {func(m *fakeEtcd) { m.silent = true }, func(e cke.EndpointStatus) bool { return e.Problem == NoAnswer(endpointLimit) && !e.Healthy() }, 0},
		"no leader":         {func(m *fakeEtcd) { m.status.Leader = 0; m.noQuorum = true }, func(e cke.EndpointStatus) bool { return e.Serializable && !e.Linearizable && e.LeaderID == "" }, 0},
		"no quorum":         {func(m *fakeEtcd) { m.noQuorum = true }, func(e cke.EndpointStatus) bool { return e.Serializable && !e.Linearizable && e.Healthy() }, 1},
		"learner":           {func(m *fakeEtcd) { m.status.IsLearner = true }, func(e cke.EndpointStatus) bool { return e.Serializable && !e.Linearizable && e.Learner }, 0},
		"permission denied": {func(m *fakeEtcd) { m.denied = true }, func(e cke.EndpointStatus) bool { return e.Serializable && e.Linearizable && e.Healthy() && e.Denied }, 1},
		"corrupt": {func(m *fakeEtcd) {
			m.noQuorum, m.localFail = true, status.Error(codes.DataLoss, "etcdserver: corrupt cluster")
		}, func(e cke.EndpointStatus) bool {
			return !e.Serializable && e.Problem == "etcdserver: corrupt cluster" && e.ClusterID == "c1"
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ca := NewTestCA(t)
			m, f := newFakeEtcd(t, ca.TLS("server", "127.0.0.1")), etcdFleet(t, ca)
			m.set(func() { test.change(m) })
			if got := f.Endpoint(t.Context(), m.url()); !test.want(got) {
				t.Errorf("%+v", got)
			}
			if n := m.count("linearizable"); n != test.reads { // one that cannot succeed is not waited for
				t.Errorf("%d reads that need a quorum", n)
			}
		})
	}
}

// A user that may read is refused all the same what cke has to do. Orders of every kind would find out first.
func TestEndpoint_TellsThatItMayOnlyRead(t *testing.T) {
	t.Parallel()
	ca := NewTestCA(t)
	m, f := newFakeEtcd(t, ca.TLS("server", "127.0.0.1")), etcdFleet(t, ca)
	for _, reader := range []bool{false, true} {
		m.set(func() { m.reader = reader })
		e, err := f.member(m.url())
		if err != nil {
			t.Fatal(err)
		}
		if got := e.ask(t.Context(), true, endpointFacts{}); got.status.Denied != reader || !got.status.Healthy() || !got.status.Linearizable || len(got.members) != 1 {
			t.Errorf("a reader: %v, %+v", reader, got)
		}
	}
}

func TestEndpoint_RefusesWhomItCannotTrust(t *testing.T) {
	t.Parallel()
	ca, other := NewTestCA(t), NewTestCA(t)
	stranger := newFakeEtcd(t, other.TLS("server", "127.0.0.1"))
	elsewhere := newFakeEtcd(t, ca.TLS("server", "127.0.0.9"))
	member := newFakeEtcd(t, ca.TLS("server", "127.0.0.1"))
	good, foreign, careless := ca.TLS("cke"), other.TLS("cke"), ca.TLS("cke")
	foreign.RootCAs = good.RootCAs
	careless.InsecureSkipVerify = true
	for name, test := range map[string]struct {
		tls  *tls.Config
		err  error
		url  string
		says string
	}{
		"another authority":  {good, nil, stranger.url(), "unknown authority"},
		"another address":    {good, nil, elsewhere.url(), "127.0.0.9"},
		"we are refused":     {foreign, nil, member.url(), ""}, // TLS 1.3 tells it after the handshake, or merely hangs up
		"no check":           {careless, nil, member.url(), "never left unchecked"},
		"no authority yet":   {nil, nil, member.url(), errNoTLS.Error()},
		"authority in error": {nil, errors.New("store does not answer"), member.url(), "store does not answer"},
		"no TLS":             {good, nil, strings.Replace(member.url(), "https", "http", 1), "no https URL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := New(Config{ClientTLS: func(context.Context) (*tls.Config, error) { return test.tls, test.err }})
			defer f.Close()
			got := f.Endpoint(t.Context(), test.url)
			if got.Problem == "" || !strings.Contains(got.Problem, test.says) || got.Healthy() {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestEndpoint_IsReachedAsSoonAsItServes(t *testing.T) {
	t.Parallel()
	ca := NewTestCA(t)
	m, f := newFakeEtcd(t, ca.TLS("server", "127.0.0.1")), etcdFleet(t, ca)
	var all []int
	for range 5 {
		m.stop()
		tick := time.NewTicker(10 * time.Millisecond) // as an operation asks
		refused := time.Now()
		for time.Since(refused) < 300*time.Millisecond { // long enough for a back-off to grow
			e := f.Endpoint(t.Context(), m.url())
			if !slices.ContainsFunc([]string{"refused", "EOF", "clos", "reset"}, func(word string) bool { return strings.Contains(e.Problem, word) }) {
				t.Fatalf("while it is down: %+v", e)
			}
			<-tick.C
		}
		m.restart()
		began, questions := time.Now(), 1
		for ; !f.Endpoint(t.Context(), m.url()).Linearizable; questions++ {
			if time.Since(began) > patience {
				t.Fatal("it is not reached again")
			}
			<-tick.C
		}
		all = append(all, questions)
		tick.Stop()
	}
	slices.Sort(all)
	t.Logf("reached again with questions %v", all)
	if half := all[2]; half > 25 { // 1 or 2; during a back-off of a second 100 are asked
		t.Errorf("reached again with question %d", half)
	}
}

func TestEndpoint_SilentMemberIsReachedAgain(t *testing.T) {
	t.Parallel()
	ca := NewTestCA(t)
	m, f := newFakeEtcd(t, ca.TLS("server", "127.0.0.1")), etcdFleet(t, ca)
	f.Endpoint(t.Context(), m.url())
	f.proposal = 200 * time.Millisecond
	m.set(func() { m.silent = true })
	if e := f.Endpoint(t.Context(), m.url()); e.Problem != NoAnswer(endpointLimit) {
		t.Fatalf("%+v", e)
	}
	if err := f.ProveWrite(t.Context(), m.url()); cke.CodeOf(err) != cke.CodeMemberSilent {
		t.Errorf("ProveWrite: %v", err)
	}
	m.set(func() { m.silent = false })
	e := f.Endpoint(t.Context(), m.url())
	for tries := 1; !e.Healthy() && tries < 5; tries++ { // a busy machine may take more than the second that an answer is given
		e = f.Endpoint(t.Context(), m.url())
	}
	if !e.Healthy() {
		t.Errorf("%+v", e)
	}
}

func TestEndpoint_RenewedCertificateIsSeenAfterFilesWerePut(t *testing.T) {
	t.Parallel()
	ca := NewTestCA(t)
	old := ca.TLS("server", "127.0.0.1")
	m, f := newFakeEtcd(t, old), etcdFleet(t, ca)
	f.Endpoint(t.Context(), m.url())
	cert, key := ca.Issue("server", time.Now().Add(30*time.Minute), "127.0.0.1")
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	renewed := old.Clone()
	renewed.Certificates = []tls.Certificate{pair}
	m.set(func() { m.tls = renewed })
	f.redial(m.url())
	if e := f.Endpoint(t.Context(), m.url()); !e.CertNotAfter.Equal(pair.Leaf.NotAfter) {
		t.Errorf("%s, want %s", e.CertNotAfter, pair.Leaf.NotAfter)
	}
}

// joinOn is a join whose member is m.
func joinOn(m *fakeEtcd, id cke.JoinID) cke.Join {
	port := 0
	for _, c := range m.address[strings.LastIndex(m.address, ":")+1:] {
		port = port*10 + int(c-'0')
	}
	return cke.Join{ID: id, Node: cke.Node{Address: "127.0.0.1"}, ClientPort: port, PeerPort: 1}
}

// Requirements A2, I13, N7, D8: every endpoint is asked on its own, and one that is silent holds up no other.
func TestObserve_EtcdStatusOfSeveralMembers(t *testing.T) {
	t.Parallel()
	ca := NewTestCA(t)
	server := ca.TLS("server", "127.0.0.1")
	a, b, c := newFakeEtcd(t, server), newFakeEtcd(t, server), newFakeEtcd(t, server)
	b.status.Errors = []string{"memberID:161  alarm:NOSPACE "}
	b.alarms = []*pb.AlarmMember{{MemberID: 161, Alarm: pb.AlarmType_NOSPACE}}
	c.silent = true
	f := etcdFleet(t, ca)
	f.Update(cke.Cluster{Name: "demo"}, cke.Identity{Joins: []cke.Join{joinOn(a, "a"), joinOn(b, "b"), joinOn(c, "c")}})
	o := f.Observe(t.Context()).Etcd
	if !o.Quorate || o.MembersSource != cke.MembersLinearizable || len(o.Members) != 1 || len(o.Endpoints) != 3 {
		t.Errorf("%+v", o)
	}
	if d := cmp.Diff([]cke.Alarm{{MemberID: "a1", Kind: "NOSPACE"}}, o.Alarms); d != "" {
		t.Error(d)
	}
	if e, _ := o.Endpoint("c"); e.Problem != NoAnswer(endpointLimit) || e.URL != c.url() {
		t.Errorf("%+v", e)
	}
	if a.count("alarm") != 0 {
		t.Error("a member without alarm was asked for alarms, which goes through raft")
	}
	// The silent one is known now and not waited for.
	least := time.Hour // of some: to wait for it takes all its time, every time
	for range 3 {
		began := time.Now()
		f.Observe(t.Context())
		least = min(least, time.Since(began))
	}
	if least >= allowed(endpointLimit) {
		t.Errorf("later observations took %s", least)
	}
	// Without a quorum the list is each member's own.
	a.set(func() { a.noQuorum = true })
	b.set(func() { b.noQuorum = true })
	awaitEtcd(t, f, "quorum is lost", func(s cke.EtcdStatus) bool {
		return !s.Quorate && s.MembersSource == cke.MembersLocal && len(s.Alarms) == 1
	})
	// A member that ends is noticed without anybody asking.
	for len(f.changed) > 0 {
		<-f.changed
	}
	a.stop()
	awaitEtcd(t, f, "the end of a member is seen", func(s cke.EtcdStatus) bool { e, _ := s.Endpoint("a"); return e.Problem != "" })
}

func awaitEtcd(t testing.TB, f *Fleet, what string, done func(cke.EtcdStatus) bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		o := f.Observe(t.Context())
		if done(o.Etcd) {
			return
		}
		select {
		case <-f.Changed():
		case <-deadline.C:
			t.Fatalf("waited until %s; there is %+v", what, o.Etcd)
		}
	}
}

func TestAlarmsIn(t *testing.T) {
	for _, test := range []struct {
		text string
		want []cke.Alarm
	}{
		{"memberID:161 alarm:NOSPACE ", []cke.Alarm{{MemberID: "a1", Kind: "NOSPACE"}}},
		{"alarm:CORRUPT", []cke.Alarm{{MemberID: "0", Kind: "CORRUPT"}}},
		{"memberID:10501334649042878790  alarm:CORRUPT", []cke.Alarm{{MemberID: "91bc3c398fb3c146", Kind: "CORRUPT"}}},
		{"etcdserver: no leader", nil},
	} {
		if d := cmp.Diff(test.want, alarmsIn([]string{test.text})); d != "" {
			t.Errorf("%q: %s", test.text, d)
		}
	}
}

func TestEndpoint_WhatIsUnderWayOutlivesALookThatLosesPatience(t *testing.T) {
	t.Parallel()
	ca := NewTestCA(t)
	m, f := newFakeEtcd(t, ca.TLS("server", "127.0.0.1")), etcdFleet(t, ca)
	m.set(func() { m.noQuorum = true })
	done := make(chan error, 1)
	go func() { done <- f.ProveWrite(t.Context(), m.url()) }()
	m.await("alarm")
	m.set(func() { m.silent = true })
	if e := f.Endpoint(t.Context(), m.url()); e.Problem != NoAnswer(endpointLimit) {
		t.Fatalf("%+v", e)
	}
	select {
	case err := <-done:
		t.Errorf("cut off: %v", err)
	default:
	}
	f.Close() // ends it all the same
	if err := <-done; err == nil {
		t.Error("it succeeded without a quorum")
	}
}
