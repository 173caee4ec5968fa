package storage

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cke"
)

func TestWatchClusters_DeliversTheSetAtOnceAndWhenItChanges(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	sets := s.WatchClusters(ctx)
	is := func(want ...string) {
		t.Helper()
		await(t, sets, func(got []string) bool { return slices.Equal(got, want) })
	}
	is()
	setCluster(t, s, "b")
	is("b")
	setCluster(t, s, "a")
	is("a", "b")
	// What does not change the set is not delivered.
	if err := s.RequestDelete(ctx, "b", "me"); err != nil {
		t.Fatal(err)
	}
	term := campaign(t, s, "b", "here")
	if err := term.FinishDelete(ctx); err != nil {
		t.Fatal(err)
	}
	if got := <-sets; !slices.Equal(got, []string{"a"}) {
		t.Errorf("got %v", got)
	}
}

func TestStatuses_AreThoseOfAllClusters(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	if texts, err := s.Statuses(ctx); err != nil || len(texts) != 0 {
		t.Fatalf("%s, %v", texts, err)
	}
	for _, name := range []string{"a", "b", "c"} {
		setCluster(t, s, name)
		if name == "c" {
			continue // no daemon has reported it
		}
		if err := campaign(t, s, name, "here").PutStatus(ctx, cke.Status{Cluster: name, Summary: "of " + name}); err != nil {
			t.Fatal(err)
		}
	}
	texts, err := s.Statuses(ctx)
	if err != nil || len(texts) != 2 {
		t.Fatalf("%s, %v", texts, err)
	}
	for name, text := range texts {
		want, err := s.Status(ctx, name)
		var got cke.Status
		if err != nil || json.Unmarshal(text, &got) != nil || !reflect.DeepEqual(got, want) || got.Summary != "of "+name {
			t.Errorf("%s: %s, want %+v, %v", name, text, want, err)
		}
	}
}

func TestWatchCluster_DeliversEveryKindOfChange(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	if err := s.OpenSecrets(ctx); err != nil {
		t.Fatal(err)
	}
	states := s.WatchCluster(ctx, "prod")
	if state := <-states; state.Spec.Generation != 0 {
		t.Errorf("got %+v", state)
	}
	setCluster(t, s, "prod")
	last := await(t, states, func(c ClusterState) bool { return c.Spec.Generation == 1 })
	for _, cluster := range []string{"", "prod"} {
		if err := s.SetSSHKey(ctx, cluster, "", newSSHKey(t, "")); err != nil {
			t.Fatal(err)
		}
		last = await(t, states, func(c ClusterState) bool { return c.SSHKeyRevision != last.SSHKeyRevision })
	}
	if err := s.DeleteSSHKey(ctx, "prod", ""); err != nil {
		t.Fatal(err)
	}
	await(t, states, func(c ClusterState) bool { return c.SSHKeyRevision != last.SSHKeyRevision })
	if err := s.PinHostKey(ctx, "prod", "fd00::11", "ssh-ed25519 AAAA"); err != nil {
		t.Fatal(err)
	}
	await(t, states, func(c ClusterState) bool { return c.HostKeys["fd00::11"] == "ssh-ed25519 AAAA" })
	term := campaign(t, s, "prod", "here")
	if err := term.OfferHostKey(ctx, "fd00::11", "ssh-ed25519 BBBB"); err != nil {
		t.Fatal(err)
	}
	await(t, states, func(c ClusterState) bool { return c.OfferedKeys["fd00::11"].Line == "ssh-ed25519 BBBB" })
	if err := s.RequestDelete(ctx, "prod", "me"); err != nil {
		t.Fatal(err)
	}
	await(t, states, func(c ClusterState) bool { return c.Spec.Deleting() })
	if err := term.FinishDelete(ctx); err != nil {
		t.Fatal(err)
	}
	await(t, states, func(c ClusterState) bool { return c.Spec.Generation == 0 })
}

func TestWatch_ASlowReaderGetsTheNewest(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	setCluster(t, s, "prod")
	term := campaign(t, s, "prod", "here")
	slow := s.WatchStatus(ctx, "prod")
	fast := s.WatchStatus(ctx, "prod")
	const last = 50
	for i := range int64(last) {
		if err := term.PutStatus(ctx, cke.Status{Generation: i + 1}); err != nil {
			t.Fatal(err)
		}
	}
	await(t, fast, func(st cke.Status) bool { return st.Generation == last })
	read := 0
	await(t, slow, func(st cke.Status) bool { read++; return st.Generation == last })
	if read > last/2 {
		t.Errorf("read %d values, none was left out", read)
	}
}

func TestWatch_GoesOnAfterARestartOfTheStore(t *testing.T) {
	c := testConfig(t)
	e := startEmbeddedStore(t, c)
	s := openStore(t, c)
	ctx := testContext(t)
	setCluster(t, s, "prod")
	states, sets := s.WatchCluster(ctx, "prod"), s.WatchClusters(ctx)
	await(t, states, func(c ClusterState) bool { return c.Spec.Generation == 1 })
	e.Close()
	startEmbeddedStore(t, c)
	setter := openStore(t, c)
	setCluster(t, setter, "test")
	changed := testCluster("prod")
	changed.Options.Etcd.ClientPort = 1
	if _, err := setter.SetSpec(ctx, "prod", changed, nil, "me", SetOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, states, func(c ClusterState) bool { return c.Spec.Generation == 2 })
	await(t, sets, func(names []string) bool { return len(names) == 2 })
}

func TestWatch_GoesOnAfterCompactionWentPastIt(t *testing.T) {
	external := startExternal(t)
	w, c := newWire(t, external)
	s, setter := openStore(t, c), openStore(t, external)
	ctx := testContext(t)
	setCluster(t, setter, "prod")
	term := campaign(t, setter, "prod", "here")
	states, records := s.WatchCluster(ctx, "prod"), s.WatchRecords(ctx, "prod", 0)
	await(t, states, func(c ClusterState) bool { return c.Spec.Generation == 1 })
	w.stop()
	for i := range 10 {
		changed := testCluster("prod")
		changed.Options.Etcd.ClientPort = 1 + i
		if _, err := setter.SetSpec(ctx, "prod", changed, nil, "me", SetOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := term.AppendRecord(ctx, cke.Record{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := adminClient(t, external, "root").Compact(ctx, revision(t, setter)); err != nil {
		t.Fatal(err)
	}
	w.resume()
	await(t, states, func(c ClusterState) bool { return c.Spec.Generation == 11 })
	next := int64(1)
	await(t, records, func(r cke.Record) bool {
		if r.ID != next {
			t.Errorf("record %d after %d", r.ID, next-1)
		}
		next++
		return r.ID == 10
	})
}

func TestWatch_ClosesWithItsContextAndWithTheStore(t *testing.T) {
	s := newStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	states := s.WatchCluster(ctx, "prod")
	cancel()
	for range states {
	}
	sets := s.WatchClusters(t.Context())
	s.Close()
	for range sets {
	}
	for range s.WatchClusters(t.Context()) {
		t.Error("a closed store delivers")
	}
}

// TestWatchRecords_NeverLosesTheFinalState writes records at random, with a reader that is slow at random.
func TestWatchRecords_NeverLosesTheFinalState(t *testing.T) {
	s := newStore(t)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		name := fmt.Sprintf("c%d", n)
		setCluster(t, s, name)
		term := campaign(t, s, name, "here")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		after := rapid.Int64Range(0, 2).Draw(rt, "after")
		var written, read []cke.Record
		records := s.WatchRecords(ctx, name, after)
		write := func(r cke.Record) {
			if r.ID == 0 {
				stored, err := term.AppendRecord(ctx, r)
				if err != nil {
					rt.Fatal(err)
				}
				written = append(written, stored)
				return
			}
			written[r.ID-1] = r
			if err := term.PutRecord(ctx, r); err != nil {
				rt.Fatal(err)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"append": func(*rapid.T) { write(cke.Record{}) },
			"change": func(t *rapid.T) {
				if len(written) == 0 {
					t.Skip("nothing to change")
				}
				r := written[rapid.IntRange(0, len(written)-1).Draw(t, "record")]
				r.Generation++
				write(r)
			},
			"read": func(t *rapid.T) {
				select {
				case r := <-records:
					read = append(read, r)
				default:
				}
			},
		})
		state := map[int64]int64{}
		for _, r := range read {
			state[r.ID] = r.Generation
		}
		right := func() bool {
			for _, r := range written {
				if r.ID > after && state[r.ID] != r.Generation {
					return false
				}
			}
			return len(state) == max(0, len(written)-int(after))
		}
		for !right() {
			r := await(t, records, func(cke.Record) bool { return true })
			if r.ID <= after || r.Generation < state[r.ID] {
				rt.Fatalf("got %+v after generation %d", r, state[r.ID])
			}
			state[r.ID] = r.Generation
		}
	})
}
