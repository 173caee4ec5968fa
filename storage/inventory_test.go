package storage

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// What is said about an inventory is there before the cluster is, and goes with it.
func TestInventory_IsThereBeforeTheCluster(t *testing.T) {
	s, ctx := newStore(t), testContext(t)
	if _, err := s.Inventory(ctx, "prod"); !errors.Is(err, cke.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	must(t, s.SetInventory(ctx, "prod", "me@here", func(i *cke.InventorySettings) { i.URL = "http://10.0.0.1:10080" }))
	must(t, s.SetInventory(ctx, "prod", "you@here", func(i *cke.InventorySettings) { i.Enabled = true }))
	i, err := s.Inventory(ctx, "prod")
	if must(t, err); i.URL != "http://10.0.0.1:10080" || !i.Enabled || i.SetBy != "you@here" {
		t.Errorf("%+v", i)
	}
	names, err := s.Inventories(ctx)
	if must(t, err); !slices.Equal(names, []string{"prod"}) {
		t.Errorf("%v", names)
	}
	if all, err := s.Clusters(ctx); err != nil || len(all) > 0 {
		t.Errorf("%v, %v", all, err)
	}
	if err := s.OrderInventory(ctx, "prod", cke.NewInventoryOrder("abc", "me", time.Now())); !errors.Is(err, cke.ErrNotFound) {
		t.Errorf("an order without a cluster: %v", err)
	}
	setCluster(t, s, "prod")
	states := s.WatchCluster(ctx, "prod")
	must(t, s.OrderInventory(ctx, "prod", cke.NewInventoryOrder("abc", "me", time.Now())))
	await(t, states, func(c ClusterState) bool {
		return c.Inventory != nil && c.Inventory.Enabled && c.Order() != nil && c.Order().Hash == "abc"
	})
	term := campaign(t, s, "prod", "here")
	must(t, term.PutInventoryPast(ctx, cke.InventoryPast{ReadAt: time.Now()}))
	must(t, term.PutInventoryLog(ctx, cke.InventoryLog{Template: "t"}, false))
	must(t, s.RequestDelete(ctx, "prod", "me"))
	must(t, term.FinishDelete(ctx))
	for _, prefix := range []string{s.keys.cluster("prod"), s.keys.inventories("prod")} {
		if resp, err := s.client.Get(ctx, prefix, clientv3.WithPrefix()); err != nil || len(resp.Kvs) > 0 {
			t.Errorf("%s: %v, %v", prefix, resp, err)
		}
	}
	if err := s.SetInventory(ctx, "prod", "me", func(i *cke.InventorySettings) { i.Template = strings.Repeat("x", maxInventory) }); cke.CodeOf(err) != cke.CodeConfig {
		t.Errorf("too large: %v", err)
	}
}

func TestTerm_StoresARevisionThatAnInventoryLeadsTo(t *testing.T) {
	s, ctx := newStore(t), testContext(t)
	was := setCluster(t, s, "prod")
	must(t, s.PinHostKey(ctx, "prod", "10.0.0.13", "ssh-ed25519 AAAA"))
	must(t, s.PinHostKey(ctx, "prod", "10.0.0.12", "ssh-ed25519 AAAA"))
	order := cke.NewInventoryOrder("abc", "me@here", time.Now())
	must(t, s.OrderInventory(ctx, "prod", order))
	term := campaign(t, s, "prod", "here")
	c := testCluster("prod")
	c.Nodes[2] = cke.Node{Address: "10.0.0.14", Hostname: "cp4", ControlPlane: true}
	e := cke.InventoryEdit{Generation: was.Generation, Cluster: c, Source: []byte("text"), By: "inventory", Cause: cke.CauseRetired, Forget: []string{"10.0.0.13"}, Order: &order,
		Change: cke.InventoryChange{Cause: cke.CauseRetired, Old: "cp3", New: "cp4"}}
	const kept = 50
	moved := time.Now().UTC().Add(-time.Hour)
	e.Log.Changes = []cke.InventoryChange{{Cause: cke.CauseMore, New: "cp3", At: moved}}
	for range kept + 5 {
		e.Log.Changes = append(e.Log.Changes, cke.InventoryChange{Cause: cke.CauseDescribed, At: moved})
	}
	spec, log, err := term.EditSpec(ctx, e)
	must(t, err)
	stored, err := s.Spec(ctx, "prod")
	must(t, err)
	if diff := cmp.Diff(spec, stored); diff != "" || spec.Generation != 2 || spec.SetBy != "inventory" || spec.Cause != cke.CauseRetired || spec.Source != "text" || spec.Etcd != was.Etcd {
		t.Errorf("%s %+v", diff, spec)
	}
	past, err := s.InventoryPast(ctx, "prod")
	must(t, err)
	if diff := cmp.Diff(log, past.InventoryLog); diff != "" {
		t.Error(diff)
	}
	if last := log.Changes[len(log.Changes)-1]; len(log.Changes) != kept || log.Changes[0].New != "cp3" || last.Generation != 2 || last.At.IsZero() || last.Old != "cp3" || log.Answer == nil || log.Answer.Generation != 2 || log.Answer.Order.ID != order.ID {
		t.Errorf("%+v", log)
	}
	if keys, err := s.HostKeys(ctx, "prod"); err != nil || keys["10.0.0.13"] != "" || keys["10.0.0.12"] == "" {
		t.Errorf("%v, %v", keys, err)
	}
	if all, err := s.SpecLog(ctx, "prod"); err != nil || len(all) != 2 || all[1].SetBy != "me@here" {
		t.Errorf("%+v, %v", all, err)
	}
	if o, err := s.client.Get(ctx, s.keys.request("prod", requestInventory)); err != nil || len(o.Kvs) > 0 {
		t.Errorf("the order waits still: %v", err)
	}
	// Another one that starts from the same revision is too late, and so is a term that is over.
	if _, _, err := term.EditSpec(ctx, e); !errors.Is(err, cke.ErrConflict) {
		t.Errorf("got %v", err)
	}
	must(t, term.Resign(ctx))
	e.Generation = 2
	if _, _, err := term.EditSpec(ctx, e); !errors.Is(err, cke.ErrDeposed) {
		t.Errorf("got %v", err)
	}
	if now, err := s.Spec(ctx, "prod"); err != nil || now.Generation != 2 {
		t.Errorf("%+v, %v", now, err)
	}
}

// gaining is what an inventory does when it declares a machine as a further node.
func gaining(was cke.Spec, serial, address string) cke.InventoryEdit {
	c := was.Cluster
	c.Nodes = append(slices.Clone(c.Nodes), cke.Node{Address: address, Hostname: serial, Annotations: map[string]string{cke.AnnotationSerial: serial}})
	return cke.InventoryEdit{Generation: was.Generation, Cluster: c, Source: []byte("text"), By: "inventory", Cause: cke.CauseSpare, Change: cke.InventoryChange{Cause: cke.CauseSpare, New: serial}}
}

// Two clusters that follow one inventory never get one machine, however close to each other they choose it.
func TestTerm_OneMachineIsGivenToOneCluster(t *testing.T) {
	s, ctx := newStore(t), testContext(t)
	names := []string{"one", "two"}
	var terms []*Term
	for _, name := range names {
		setCluster(t, s, name)
		terms = append(terms, campaign(t, s, name, "here"))
	}
	declares := func(name, serial string) bool {
		spec, err := s.Spec(ctx, name)
		must(t, err)
		_, has := spec.Cluster.Node(serial)
		return has
	}
	for i := range 10 {
		serial, results := fmt.Sprintf("m%d", i), make([]error, len(terms))
		var wg sync.WaitGroup
		for j, term := range terms {
			was, err := s.Spec(ctx, names[j])
			must(t, err)
			wg.Go(func() { _, _, results[j] = term.EditSpec(ctx, gaining(was, serial, fmt.Sprintf("10.0.1.%d", i))) })
		}
		wg.Wait()
		if has := [2]bool{declares("one", serial), declares("two", serial)}; has[0] == has[1] || (results[0] == nil) != has[0] || (results[1] == nil) != has[1] {
			t.Fatalf("%s: %v, %v", serial, has, results)
		}
		for _, err := range results {
			if err != nil && !errors.Is(err, cke.ErrConflict) {
				t.Error(err)
			}
		}
	}
	// One that has read the nodes of all clusters is too late once another one has got a machine, whichever it is.
	one, err := s.Spec(ctx, "one")
	must(t, err)
	as, ops, err := s.takeTurn(ctx, "one", one.Cluster, gaining(one, "late", "10.0.2.1").Cluster)
	must(t, err)
	two, err := s.Spec(ctx, "two")
	must(t, err)
	_, _, err = terms[1].EditSpec(ctx, gaining(two, "other", "10.0.2.2"))
	must(t, err)
	if resp, err := s.txn(ctx, as, ops); err != nil || resp.Succeeded {
		t.Errorf("%v, %v", resp, err)
	}
	// A serial is one machine, at whichever address. A revision without another machine needs no turn.
	if _, _, err := terms[0].EditSpec(ctx, gaining(one, "other", "10.0.2.3")); !errors.Is(err, cke.ErrConflict) || !strings.Contains(err.Error(), "other is a node of cluster two") {
		t.Errorf("%v", err)
	}
	manual := testCluster("manual")
	manual.Nodes[0] = cke.Node{Address: "10.0.3.1", Hostname: "named", ControlPlane: true}
	_, err = s.SetSpec(ctx, "manual", manual, nil, "me", SetOptions{})
	must(t, err)
	if _, _, err := terms[0].EditSpec(ctx, gaining(one, "named", "10.0.3.2")); !errors.Is(err, cke.ErrConflict) || !strings.Contains(err.Error(), "named is a node of cluster manual") {
		t.Errorf("a host name that is the serial: %v", err)
	}
	if as, ops, err := s.takeTurn(ctx, "one", one.Cluster, one.Cluster); as != nil || ops != nil || err != nil {
		t.Errorf("%v, %v, %v", as, ops, err)
	}
	// The first revision of a cluster that follows from an inventory is one, too.
	none, third := int64(0), testCluster("three")
	third.Nodes = gaining(two, "other", "10.0.2.2").Cluster.Nodes[len(two.Cluster.Nodes):]
	third.Nodes[0].ControlPlane = true
	if _, err := s.SetSpec(ctx, "three", third, nil, "me", SetOptions{IfGeneration: &none, Cause: cke.CauseBootstrap}); !errors.Is(err, cke.ErrConflict) {
		t.Errorf("%v", err)
	}
}

func TestInventoryPast_IsBounded(t *testing.T) {
	p := cke.InventoryPast{Hosts: map[string]cke.HostPast{}, Serials: map[string]string{"10.0.0.1": "zz"}}
	for i := range 3 * cke.KeptHosts {
		p.Hosts[fmt.Sprintf("%s-%06d", strings.Repeat("s", 200), i)] = cke.HostPast{State: cke.HostHealthy, Address: "10.0.0.2", Reads: 7, Turned: []time.Time{time.Now(), time.Now()}}
	}
	p.Hosts["zz"] = cke.HostPast{State: cke.HostHealthy}
	op, err := boundedPast("key", p)
	if must(t, err); len(op.ValueBytes()) > maxPast || !strings.Contains(string(op.ValueBytes()), `"zz":`) {
		t.Errorf("%d bytes", len(op.ValueBytes()))
	}
}

// What a later cke has written beside what this one knows is kept; machines that are gone go.
func TestInventory_KeepsWhatALaterCkeHasWritten(t *testing.T) {
	s, ctx := newStore(t), testContext(t)
	setCluster(t, s, "prod")
	term := campaign(t, s, "prod", "here")
	for key, text := range map[string]string{
		s.keys.inventory("prod"):     `{"template":"a","later":1}`,
		s.keys.inventoryPast("prod"): `{"hosts":{"a":{"state":"healthy","reads":1,"later":2},"b":{"state":"healthy","reads":1}},"later":3}`,
		s.keys.inventoryLog("prod"):  `{"template":"x","later":4}`,
	} {
		_, err := s.client.Put(ctx, key, text)
		must(t, err)
	}
	must(t, s.SetInventory(ctx, "prod", "me", func(i *cke.InventorySettings) { i.URL = "/hosts.yml" }))
	must(t, term.PutInventoryPast(ctx, cke.InventoryPast{Hosts: map[string]cke.HostPast{"a": {State: cke.HostRetired, Reads: 2}}}))
	must(t, term.PutInventoryLog(ctx, cke.InventoryLog{Template: "y"}, false))
	for key, want := range map[string][]string{
		s.keys.inventory("prod"): {`"later":1`, `"template":"a"`, `"url":"/hosts.yml"`}, s.keys.inventoryPast("prod"): {`"later":2`, `"later":3`, `"state":"retired"`},
		s.keys.inventoryLog("prod"): {`"later":4`, `"template":"y"`},
	} {
		resp, err := s.client.Get(ctx, key)
		must(t, err)
		for _, part := range want {
			if text := string(resp.Kvs[0].Value); !strings.Contains(text, part) || strings.Contains(text, `"b":`) {
				t.Errorf("%s: %s, want %s", key, text, part)
			}
		}
	}
}

// A machine may be known by its serial in one cluster and by an address in another one.
func TestNodesOfOthers_ByAddressAndSerial(t *testing.T) {
	s, ctx := newStore(t), testContext(t)
	c := testCluster("other")
	c.Nodes[0].Annotations = map[string]string{cke.AnnotationSerial: "1234abc"}
	_, err := s.SetSpec(ctx, "other", c, nil, "me", SetOptions{})
	must(t, err)
	all, err := s.NodesOfOthers(ctx, "prod")
	must(t, err)
	for _, key := range []string{c.Nodes[0].Address, "1234abc", c.Nodes[1].Address, c.Nodes[1].Name()} {
		if all[key] != "other" {
			t.Errorf("%s: %q", key, all[key])
		}
	}
	if all[c.Nodes[0].Hostname] != "" {
		t.Errorf("%v", all)
	}
	if own, err := s.NodesOfOthers(ctx, "other"); err != nil || len(own) > 0 {
		t.Errorf("%v, %v", own, err)
	}
}
