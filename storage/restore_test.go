package storage

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"cke"
)

func TestLedger_ARestoreTakesThePlaceOfALifeAndKeepsItsMemberships(t *testing.T) {
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
	identity := func() cke.Identity {
		t.Helper()
		id, err := term.Identity(ctx)
		must("read", err, nil)
		return id
	}
	first := cke.NewIncarnation(spec, nil, time.Now())
	must("create", term.CreateIncarnation(ctx, first), nil)
	first.State, first.ClusterID = cke.Formed, "abc"
	must("form", term.UpdateIncarnation(ctx, first), nil)
	must("freeze", term.PutFreeze(ctx, cke.NewFreeze(cke.FreezeClusterID, "found", cke.Problem{Code: cke.CodeSplitBrain}, cke.EtcdStatus{})), nil)
	was := identity()

	restore := func(id string) cke.Incarnation {
		must("ask", s.AddTask(ctx, term.Cluster(), cke.Task{ID: id, Kind: cke.TaskRestore}), nil)
		return cke.NewRestoration(spec, identity(), cke.Restoration{ID: id, Snapshot: cke.Snapshot{Revision: 9}, Bump: 10}, time.Now())
	}
	// Whoever was told that a restore failed must not see it begin later on.
	gone := restore("gone")
	must("finish", term.FinishTask(ctx, "gone"), nil)
	must("begin what nobody asks for any more", term.BeginRestore(ctx, gone), cke.ErrConflict)

	one, other := restore("one"), restore("other")
	must("begin", term.BeginRestore(ctx, one), nil)
	must("begin again", term.BeginRestore(ctx, one), nil)
	must("another beside it", term.BeginRestore(ctx, other), cke.ErrConflict)
	must("finish", term.FinishTask(ctx, "other"), nil)
	id := identity()
	if len(id.Joins) != 3 || len(id.Ended) != 3 || id.Freeze != nil || !id.Incarnation.Life(one.ID) || id.Incarnation.ClusterID == "" || len(id.Superseded()) != 3 || len(id.MayRun()) != 6 {
		t.Fatalf("%+v", id)
	}
	must("bootstrap", term.CreateIncarnation(ctx, cke.NewIncarnation(spec, nil, time.Now())), cke.ErrConflict)
	old := id.Ended[0]
	old.KeepUntil = time.Now().UTC()
	must("an archived membership", term.PutJoins(ctx, identity(), old), nil)
	old.KeepUntil = time.Time{}
	must("an archived membership", term.PutJoins(ctx, identity(), old), nil)

	must("cancel", term.CancelRestore(ctx, one), nil)
	must("cancel again", term.CancelRestore(ctx, one), nil)
	was.Incarnation.Previous = []string{one.ID} // and it is as frozen as before
	if r, err := s.RequestsOf(ctx, "prod"); err != nil || len(r.Tasks) != 0 {
		t.Fatalf("the order would be begun again: %+v %v", r.Tasks, err)
	}
	if d := gocmp.Diff(was, identity(), anyRevision); d != "" {
		t.Fatalf("after the restore was called off:\n%s", d)
	}

	two := restore("two")
	must("begin", term.BeginRestore(ctx, two), nil)
	now := identity()
	started := slices.Clone(now.Joins)
	started[0].StartedAt = time.Now().UTC()
	must("start", term.PutJoins(ctx, now, started...), nil)
	must("cancel what was started", term.CancelRestore(ctx, two), cke.ErrConflict)
	three := restore("three")
	must("restore again", term.BeginRestore(ctx, three), nil)
	id = identity()
	if got := len(id.Superseded()); got != 6 {
		t.Errorf("%d memberships are to be fenced, not those of both lives before", got)
	}
	three.State = cke.Formed
	must("form", term.UpdateIncarnation(ctx, three), nil)
	if id = identity(); len(id.MayRun()) != 3 || len(id.Incarnation.Replaced) != 2 || id.Incarnation.Restore.Floor() != 19 {
		t.Errorf("%+v", id.Incarnation)
	}
}

// Whoever confirms that a declaration is deleted confirms no deletion of what a restore has started to replace since.
func TestDeleteDeclaration_NotOnceARestoreWasStarted(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	spec := setCluster(t, s, "prod").Cluster.WithDefaults()
	if err := s.DeleteDeclaration(ctx, "prod", "me"); !errors.Is(err, cke.ErrConflict) {
		t.Errorf("of a cluster that was not declared to be restored: %v", err)
	}
	term := campaign(t, s, "prod", "here")
	inc := cke.NewAwaiting(time.Now())
	if err := term.CreateIncarnation(ctx, inc); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteDeclaration(ctx, "prod", "me"); err != nil {
		t.Fatal(err)
	}
	if err := s.CancelDelete(ctx, "prod"); err != nil {
		t.Fatal(err)
	}
	id, err := term.Identity(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.AddTask(ctx, "prod", cke.Task{ID: "t1", Kind: cke.TaskRestore}), term.BeginRestore(ctx, cke.NewRestoration(spec, id, cke.Restoration{ID: "t1"}, time.Now()))); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteDeclaration(ctx, "prod", "me"); !errors.Is(err, cke.ErrConflict) {
		t.Errorf("once a restore was started: %v", err)
	}
	if err := s.RequestDelete(ctx, "prod", "me"); err != nil {
		t.Error(err)
	}
}

func TestAskRestore_HandsOverOneOrderWithWhatItNeeds(t *testing.T) {
	c := testConfig(t)
	startEmbeddedStore(t, c)
	s := openStore(t, c)
	ctx := testContext(t)
	if err := s.OpenSecrets(ctx); err != nil {
		t.Fatal(err)
	}
	task := cke.NewTask(cke.TaskRestore, "", "", "me@here", time.Now())
	task.Restore = &cke.RestoreOrder{Target: "file:///b", Source: "prod", Revision: 7}
	if err := s.AskRestore(ctx, "prod", task, RestoreAsked{}); !errors.Is(err, cke.ErrNotFound) {
		t.Fatalf("without a cluster: %v", err)
	}
	inc := cke.NewIncarnation(testCluster("prod").WithDefaults(), nil, time.Now().Add(-time.Hour))
	was := cke.NewIdentity(&inc, inc.Founders)
	was.Authorities = cke.Authorities{Peer: cke.AuthorityRecord{Current: cke.CA{Fingerprint: "ab"}, Next: &cke.CA{Generation: 1, Fingerprint: "cd"}, Phase: cke.AuthorityIssues}}
	pem := newSSHKey(t, "")
	asked := RestoreAsked{Key: []byte("AGE"), Declare: &Declared{
		SSHKeys: map[string][]byte{"cp1": pem},
		Cluster: testCluster("prod"), Source: []byte("name: prod"),
		Secrets: map[string][]byte{"pki/peer-ca": []byte("CA")}, HostKeys: map[string]string{"10.0.0.11": "ssh-ed25519 AAAA"},
		Identity: was,
	}}
	if err := s.AskRestore(ctx, "prod", task, asked); err != nil {
		t.Fatal(err)
	}
	if err := s.AskRestore(ctx, "prod", task, asked); !errors.Is(err, cke.ErrConflict) {
		t.Fatalf("declared twice: %v", err)
	}
	state := <-s.WatchCluster(ctx, "prod")
	if inc := state.Identity.Incarnation; inc == nil || inc.State != cke.Awaiting || state.Spec.Generation != 1 || state.HostKeys["10.0.0.11"] == "" {
		t.Fatalf("%+v", state)
	}
	if d := gocmp.Diff([]cke.Task{task}, state.Asked().Tasks); d != "" {
		t.Fatal(d)
	}
	if d := gocmp.Diff(was.Authorities, state.Identity.Authorities); d != "" {
		t.Fatal(d)
	}
	if d := gocmp.Diff(was.Joins, state.Identity.Joins, cmpopts.SortSlices(func(a, b cke.Join) bool { return a.ID < b.ID })); d != "" || !state.Identity.Incarnation.WasReplaced(inc.ID) {
		t.Fatal(d)
	}
	key, err := s.RestoreKey(ctx, "prod", task.ID)
	ca, caErr := s.Secrets("prod").Secret(ctx, "pki/peer-ca")
	if err != nil || caErr != nil || string(key) != "AGE" || string(ca) != "CA" {
		t.Fatalf("%q, %v; %q, %v", key, err, ca, caErr)
	}
	if login, err := s.SSHKey(ctx, "prod", "cp1"); err != nil || !bytes.Equal(login, pem) { // the order is never without it
		t.Errorf("the key of a node: %v", err)
	}
	// Nothing is ever bootstrapped in its place.
	term := campaign(t, s, "prod", "here")
	if err := term.CreateIncarnation(ctx, cke.NewIncarnation(testCluster("prod").WithDefaults(), nil, time.Now())); !errors.Is(err, cke.ErrConflict) {
		t.Errorf("a bootstrap: %v", err)
	}
	if err := term.FinishRestore(ctx, task.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.RestoreKey(ctx, "prod", task.ID); !errors.Is(err, cke.ErrNotFound) {
		t.Errorf("the key that was lent is still there: %v", err)
	}
	if err := s.WithdrawRestore(ctx, "prod", task.ID); err != nil {
		t.Fatal(err)
	}
	if left := (<-s.WatchCluster(ctx, "prod")).Asked().Tasks; len(left) != 0 {
		t.Errorf("%+v", left)
	}
	raw, err := s.client.Get(ctx, s.keys.prefix, under(s.keys.prefix).options()...)
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range raw.Kvs {
		if bytes.Contains(kv.Value, []byte("AGE")) && bytes.Contains(kv.Key, []byte("restore-key")) {
			t.Errorf("%s", fmt.Sprintf("%s is not sealed", kv.Key))
		}
	}
}

// A restore on a new management host is cut off between lending what it declares and declaring it, and the cluster is declared anew.
func TestSetCluster_TakesNothingOverOfARestoreThatWasCutOff(t *testing.T) {
	c := testConfig(t)
	startEmbeddedStore(t, c)
	s := openStore(t, c)
	ctx := testContext(t)
	inc := cke.NewIncarnation(testCluster("prod").WithDefaults(), nil, time.Now().Add(-time.Hour))
	inc.State = cke.Formed
	was := cke.NewIdentity(&inc, inc.Founders)
	task := cke.NewTask(cke.TaskRestore, "", "", "me@here", time.Now())
	if _, err := s.lend(ctx, "prod", task, map[string]string{"10.0.0.11": "ssh-ed25519 AAAA"}, was.Awaiting(task.At).Joins); err != nil {
		t.Fatal(err)
	}
	setCluster(t, s, "prod")
	id, err := s.Identity(ctx, "prod")
	if err != nil || len(id.Joins) > 0 {
		t.Errorf("%d memberships of another incarnation, %v", len(id.Joins), err)
	}
	if keys, err := s.HostKeys(ctx, "prod"); err != nil || len(keys) > 0 {
		t.Errorf("host keys %v, %v", keys, err)
	}
}

// A cluster is declared with an identity in which a member is put aside: a daemon of before that may lead would start the member again
// when the restore is canceled.
func TestAskRestore_DeclaresMembersThatArePutAsideOnlyWhereNoOlderDaemonLeads(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	c := cke.Cluster{Name: "prod", Nodes: []cke.Node{{Address: "10.0.0.11", ControlPlane: true}}}.WithDefaults()
	inc := cke.NewIncarnation(c, nil, time.Now())
	inc.State = cke.Formed
	j := inc.Founders[0]
	j.Apart, j.StartedAt = true, time.Now()
	task := cke.NewTask(cke.TaskRestore, "", "", "me", time.Now())
	task.Restore = &cke.RestoreOrder{Target: "file:///b", Source: "prod"}
	asked := RestoreAsked{Declare: &Declared{Cluster: c, Identity: cke.NewIdentity(&inc, []cke.Join{j})}}
	if err := s.AskRestore(ctx, "prod", task, asked); !schemaCode(err) {
		t.Errorf("a daemon of before may lead: %v", err)
	}
	if names, err := s.Clusters(ctx); err != nil || len(names) > 0 {
		t.Errorf("declared: %v, %v", names, err)
	}
	if _, err := s.RaiseSchema(ctx, "me"); err != nil {
		t.Fatal(err)
	}
	if err := s.AskRestore(ctx, "prod", task, asked); err != nil {
		t.Error(err)
	}
}
