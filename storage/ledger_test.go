package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
)

func sortedNames[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// anyRevision compares identities whenever they were read.
var anyRevision = cmpopts.IgnoreFields(cke.Identity{}, "Revision")

// A write that its caller gave up may reach the store after whatever its caller did next: it is made from what was read
// before, and must not take a member back to how it ran then.
func TestLedger_AJoinIsNotPutBackByAWriteMadeFromAnOlderRead(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	spec := setCluster(t, s, "prod").Cluster.WithDefaults()
	term := campaign(t, s, "prod", "here")
	inc := cke.NewIncarnation(spec, nil, time.Now())
	read := func() cke.Identity {
		t.Helper()
		id, err := term.Identity(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	with := func(id cke.Identity, i int, version string) cke.Join {
		j, _ := id.Join(inc.Founders[i].ID) // whatever stands beside it
		j.Etcd.Version = version
		return j
	}
	before := read()
	if err := term.CreateIncarnation(ctx, inc); err != nil {
		t.Fatal(err)
	}
	created := read()
	fresh := cke.NewJoin(spec, spec.ControlPlane()[0], inc.ID)
	another := cke.NewJoin(spec, spec.ControlPlane()[0], inc.ID)
	for _, step := range []struct {
		what  string
		read  cke.Identity
		joins func(cke.Identity) []cke.Join
		want  error
	}{
		{"made before the cluster had a life", before, func(cke.Identity) []cke.Join { return inc.Founders[:1] }, cke.ErrConflict},
		{"made of nothing that was read", cke.NewIdentity(&inc, inc.Founders), func(cke.Identity) []cke.Join { return inc.Founders[:1] }, cke.ErrConflict},
		{"the first", created, func(id cke.Identity) []cke.Join { return []cke.Join{with(id, 0, "3.6.15")} }, nil},
		{"of the same read, of another join", created, func(id cke.Identity) []cke.Join { return []cke.Join{with(id, 1, "3.6.15")} }, nil},
		{"of the same read again", created, func(id cke.Identity) []cke.Join { return []cke.Join{with(id, 0, "3.5.35")} }, cke.ErrConflict},
		{"of the same read, with one that was not written", created, func(id cke.Identity) []cke.Join {
			return []cke.Join{with(id, 2, "3.5.35"), with(id, 0, "3.5.35")}
		}, cke.ErrConflict},
		{"a new one, of an old read", created, func(cke.Identity) []cke.Join { return []cke.Join{fresh} }, cke.ErrConflict},
	} {
		if err := term.PutJoins(ctx, step.read, step.joins(step.read)...); !errors.Is(err, step.want) {
			t.Errorf("%s: got %v", step.what, err)
		}
	}
	now := read()
	if err := term.PutJoins(ctx, now, fresh); err != nil {
		t.Errorf("a new one: %v", err)
	}
	if err := term.PutJoins(ctx, now, another); !errors.Is(err, cke.ErrConflict) {
		t.Errorf("another one in its place: %v", err)
	}
	if err := term.PutJoins(ctx, read(), with(read(), 0, "3.7.3")); err != nil {
		t.Errorf("read anew: %v", err)
	}
	var got []string
	for _, j := range read().Joins {
		got = append(got, j.Etcd.Version)
	}
	if want := []string{"3.7.3", "3.6.15", cke.DefaultEtcdVersion, cke.DefaultEtcdVersion}; !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
		t.Errorf("got %v", got)
	}
}

func TestLedger_KeepsOneLifeUntilItIsAbandoned(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	spec := setCluster(t, s, "prod").Cluster.WithDefaults()
	term := campaign(t, s, "prod", "here")
	must := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Fatalf("%s: got %v", what, err)
		}
	}
	is := func(want cke.Identity) {
		t.Helper()
		for _, read := range []func() (cke.Identity, error){
			func() (cke.Identity, error) { return term.Identity(ctx) },
			func() (cke.Identity, error) { return s.Identity(ctx, "prod") },
			func() (cke.Identity, error) { return (<-s.WatchCluster(ctx, "prod")).Identity, nil },
		} {
			got, err := read()
			if err != nil {
				t.Fatal(err)
			}
			if d := gocmp.Diff(want, got, anyRevision); d != "" {
				t.Fatalf("identity:\n%s", d)
			}
		}
	}
	is(cke.Identity{})
	first := cke.NewIncarnation(spec, nil, time.Now())
	now := func() cke.Identity {
		t.Helper()
		id, err := term.Identity(ctx)
		must("read", err, nil)
		return id
	}
	must("joins without a life", term.PutJoins(ctx, now(), first.Founders...), cke.ErrConflict)
	must("create", term.CreateIncarnation(ctx, first), nil)
	must("create again", term.CreateIncarnation(ctx, first), nil)
	is(cke.Identity{Incarnation: &first, Joins: first.Founders})

	second := cke.NewIncarnation(spec, &first, time.Now())
	must("create another", term.CreateIncarnation(ctx, second), cke.ErrConflict)
	must("update another", term.UpdateIncarnation(ctx, second), cke.ErrConflict)
	must("joins of another", term.PutJoins(ctx, now(), first.Founders[0], second.Founders[1]), cke.ErrConflict)

	joins := slices.Clone(first.Founders)
	joins[0].StartedAt, joins[2].MemberID = time.Now().UTC(), "8e9e05c52164694d"
	must("joins", term.PutJoins(ctx, now(), joins...), nil)
	is(cke.Identity{Incarnation: &first, Joins: joins})

	changed := first
	changed.State, changed.Founders, changed.Token = cke.Abandoned, nil, "other"
	must("abandon", term.UpdateIncarnation(ctx, changed), nil)
	abandoned := first
	abandoned.State = cke.Abandoned
	is(cke.Identity{Incarnation: &abandoned, Joins: joins})
	revived := first
	must("revive", term.UpdateIncarnation(ctx, revived), cke.ErrConflict)

	must("create after an abandoned one", term.CreateIncarnation(ctx, second), nil)
	is(cke.Identity{Incarnation: &second, Joins: second.Founders})
	second.State, second.ClusterID, second.FormedAt = cke.Formed, "cdf818194e3a8c32", time.Now().UTC()
	must("form", term.UpdateIncarnation(ctx, second), nil)
	is(cke.Identity{Incarnation: &second, Joins: second.Founders})
	must("another after a formed one", term.CreateIncarnation(ctx, cke.NewIncarnation(spec, &second, time.Now())), cke.ErrConflict)
}

func TestFinishDelete_LeavesTheArchiveAndNothingElse(t *testing.T) {
	c := testConfig(t)
	startEmbeddedStore(t, c)
	s, other := openStore(t, c), openStore(t, c)
	ctx := testContext(t)
	setCluster(t, s, "prod-2")
	setCluster(t, s, "prod")
	if err := s.OpenSecrets(ctx); err != nil {
		t.Fatal(err)
	}
	term := campaign(t, s, "prod", "here")
	next := make(chan error, 1)
	go func() {
		_, err := other.Campaign(context.Background(), "prod", "next")
		next <- err
	}()
	awaitQueue(t, s, "prod", 2)
	inc := cke.NewIncarnation(testCluster("prod").WithDefaults(), nil, time.Now())
	for what, err := range map[string]error{
		"incarnation": term.CreateIncarnation(ctx, inc),
		"secret":      s.Secrets("prod").CreateSecret(ctx, "ca", []byte("x")),
		"ssh key":     s.SetSSHKey(ctx, "prod", "cp1", newSSHKey(t, "")),
		"pin":         term.PinHostKey(ctx, "10.0.0.11", "ssh-ed25519 AAAA"),
		"offer":       term.OfferHostKey(ctx, "10.0.0.12", "ssh-ed25519 AAAA"),
		"status":      term.PutStatus(ctx, cke.Status{}),
		"request":     s.PutRequest(ctx, "prod", "defrag", "me", nil),
	} {
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	if _, err := term.AppendRecord(ctx, cke.Record{}); err != nil {
		t.Fatal(err)
	}
	if err := term.FinishDelete(ctx); !errors.Is(err, cke.ErrConflict) {
		t.Fatalf("deleted without being asked: %v", err)
	}
	if err := s.RequestDelete(ctx, "prod", "me@here"); err != nil {
		t.Fatal(err)
	}
	if err := term.FinishDelete(ctx); err != nil {
		t.Fatal(err)
	}
	awaitDone(t, term.Done(), limit)
	if err := await(t, next, func(error) bool { return true }); !errors.Is(err, cke.ErrNotFound) {
		t.Errorf("the next candidate got %v", err)
	}
	archives, err := s.Deleted(ctx)
	if err != nil || len(archives) != 1 {
		t.Fatalf("got %v, %v", archives, err)
	}
	a := archives[0]
	if a.Cluster != "prod" || a.Spec.DeleteRequestedBy != "me@here" || a.Identity.Incarnation.ID != inc.ID || len(a.Identity.Joins) != 3 ||
		a.HostKeys["10.0.0.11"] != "ssh-ed25519 AAAA" || len(a.Sealed) != 1 || a.Sealed[0].Name != "ca" {
		t.Errorf("got %+v", a)
	}
	all, err := s.client.Get(ctx, "/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range all.Kvs {
		key := string(kv.Key)
		if strings.Contains(key, "/prod") && !strings.Contains(key, "/prod-2") && !strings.HasPrefix(key, s.keys.archives("prod")) {
			t.Errorf("%s is left", key)
		}
	}
	// A cluster of that name starts anew.
	if spec := setCluster(t, s, "prod"); spec.Generation != 1 {
		t.Errorf("generation %d", spec.Generation)
	}
	if term := campaign(t, s, "prod", "here"); term.Number() != 1 {
		t.Errorf("term %d", term.Number())
	}
}

func TestRecords_CountUpAndTheOldestGo(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	setCluster(t, s, "prod")
	term := campaign(t, s, "prod", "here")
	const more = 3
	for i := range int64(keptRecords + more) {
		r, err := term.AppendRecord(ctx, cke.Record{Operation: "x", State: cke.RecordCompleted})
		if err != nil {
			t.Fatal(err)
		}
		if r.ID != i+1 || r.Term != 1 || r.Cluster != "prod" {
			t.Fatalf("got %+v after %d", r, i)
		}
	}
	all, err := s.Records(ctx, "prod", 0)
	if err != nil || len(all) != keptRecords || all[0].ID != keptRecords+more || all[keptRecords-1].ID != more+1 {
		t.Errorf("kept %d, %v", len(all), err)
	}
	if two, err := s.Records(ctx, "prod", 2); err != nil || len(two) != 2 || two[1].ID != keptRecords+more-1 {
		t.Errorf("got %v, %v", two, err)
	}
	if _, err := s.Record(ctx, "prod", 1); !errors.Is(err, cke.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

// A leader that dies between the end of an operation and the removal of its task leaves a task that would be carried out once more.
func TestInterruptRunning_RemovesTasksOfOperationsThatEnded(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	setCluster(t, s, "prod")
	first := campaign(t, s, "prod", "boot-1")
	var want []string
	for _, row := range []struct {
		state cke.RecordState
		part  bool
		stays bool
	}{{cke.RecordCompleted, false, false}, {cke.RecordFailed, false, false}, {cke.RecordCompleted, true, true}, {cke.RecordInterrupted, false, true}, {cke.RecordRunning, false, true}} {
		task := askFor(t, s, cke.TaskDefragment)
		if _, err := first.AppendRecord(ctx, cke.Record{State: row.state, Part: row.part, Task: task.ID, Host: "boot-1"}); err != nil {
			t.Fatal(err)
		}
		if row.stays {
			want = append(want, task.ID)
		}
	}
	first.Resign(ctx)
	second := campaign(t, s, "prod", "boot-2")
	if err := second.InterruptRunning(ctx); err != nil {
		t.Fatal(err)
	}
	asked, err := s.RequestsOf(ctx, "prod")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, k := range asked.Tasks {
		got = append(got, k.ID)
	}
	if d := gocmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// A record that cannot be decoded may be that of a task that was requested before it: its operator decides. Nothing else waits.
func TestInterruptRunning_NamesTasksOfARecordThatCannotBeDecoded(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	setCluster(t, s, "prod")
	first := campaign(t, s, "prod", "boot-1")
	task := askFor(t, s, cke.TaskDefragment)
	for range 2 {
		if _, err := first.AppendRecord(ctx, cke.Record{State: cke.RecordRunning, Task: task.ID, Host: "boot-1"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.client.Put(ctx, s.keys.record("prod", 2), "{"); err != nil {
		t.Fatal(err)
	}
	first.Resign(ctx)
	later := askFor(t, s, cke.TaskDefragment)
	second := campaign(t, s, "prod", "boot-2")
	err := second.InterruptRunning(ctx)
	if text := fmt.Sprint(err); cke.CodeOf(err) != cke.CodeRecord || !strings.Contains(text, task.ID) || !strings.Contains(text, "record 2") || strings.Contains(text, later.ID) {
		t.Fatal(err)
	}
	if r, err := second.AppendRecord(ctx, cke.Record{State: cke.RecordCompleted, Host: "boot-2"}); err != nil || r.ID != 3 {
		t.Errorf("the next operation: record %d, %v", r.ID, err)
	}
	all, err := s.Records(ctx, "prod", 0)
	if err != nil || len(all) != 2 || all[1].State != cke.RecordInterrupted {
		t.Errorf("%+v, %v", all, err)
	}
	if err := s.WithdrawTask(ctx, "prod", task.ID); err != nil { // although record 1 has started it
		t.Fatal(err)
	}
	if err := second.InterruptRunning(ctx); err != nil {
		t.Error(err)
	}
	if err := s.WithdrawTask(ctx, "prod", later.ID); err != nil {
		t.Error(err)
	}
}

// Of a request that cannot be decoded it is not known what it asks for: its key is reported.
func TestInterruptRunning_NamesTheKeyOfARequestThatCannotBeDecoded(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	setCluster(t, s, "prod")
	first := campaign(t, s, "prod", "boot-1")
	if _, err := first.AppendRecord(ctx, cke.Record{State: cke.RecordRunning, Host: "boot-1"}); err != nil {
		t.Fatal(err)
	}
	first.Resign(ctx)
	second := campaign(t, s, "prod", "boot-2")
	key := s.keys.request("prod", taskOf("t7"))
	put := func(text string) {
		t.Helper()
		if _, err := s.client.Put(ctx, key, text); err != nil {
			t.Fatal(err)
		}
	}
	put("{")
	err := second.InterruptRunning(ctx)
	if text := fmt.Sprint(err); cke.CodeOf(err) != cke.CodeRecord || !strings.Contains(text, key) {
		t.Error(err)
	}
	if all, err := s.Records(ctx, "prod", 0); err != nil || len(all) != 1 || all[0].State != cke.RecordInterrupted {
		t.Errorf("%+v, %v", all, err)
	}
	put(`{"kind": "task t7", "args": {"id": "t7"}}`)
	if err := second.InterruptRunning(ctx); err != nil {
		t.Error(err)
	}
}

func TestInterruptRunning_MarksWhatEarlierTermsLeft(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	setCluster(t, s, "prod")
	first := campaign(t, s, "prod", "boot-1")
	for _, state := range []cke.RecordState{cke.RecordCompleted, cke.RecordRunning, cke.RecordFailed} {
		if _, err := first.AppendRecord(ctx, cke.Record{State: state, Host: "boot-1"}); err != nil {
			t.Fatal(err)
		}
	}
	first.Resign(ctx)
	second := campaign(t, s, "prod", "boot-2")
	if _, err := second.AppendRecord(ctx, cke.Record{State: cke.RecordRunning, Host: "boot-2"}); err != nil {
		t.Fatal(err)
	}
	if err := second.InterruptRunning(ctx); err != nil {
		t.Fatal(err)
	}
	all, err := s.Records(ctx, "prod", 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []cke.RecordState
	for _, r := range all {
		got = append(got, r.State)
	}
	want := []cke.RecordState{cke.RecordRunning, cke.RecordFailed, cke.RecordInterrupted, cke.RecordCompleted}
	if d := gocmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if r := all[2]; r.EndedAt.IsZero() || !strings.Contains(r.Error, "boot-1") {
		t.Errorf("got %+v", r)
	}
	if err := second.PutRecord(ctx, cke.Record{ID: 1, Cluster: "other"}); !errors.Is(err, cke.ErrConflict) {
		t.Errorf("got %v", err)
	}
}
