package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
)

const (
	// maxInventory bounds what operators say about one inventory: its template, mostly.
	maxInventory = 256 << 10 // bytes
	// maxPast leaves room below etcd's limit for a request.
	maxPast = 1 << 20 // bytes
)

// Inventories returns the names of all clusters about whose inventory something is said, sorted: there may be no such cluster yet.
func (s *Store) Inventories(ctx context.Context) ([]string, error) {
	return s.having(ctx, "inventory", "list inventories")
}

// Inventory returns what operators say about the inventory of a cluster. ErrNotFound: nothing.
func (s *Store) Inventory(ctx context.Context, cluster string) (cke.InventorySettings, error) {
	i, _, err := s.inventory(ctx, cluster)
	return i, err
}

func (s *Store) inventory(ctx context.Context, cluster string) (i cke.InventorySettings, mod int64, err error) {
	if err := checkName(cluster); err != nil {
		return i, 0, err
	}
	mod, err = s.get(ctx, s.keys.inventory(cluster), &i)
	if errors.Is(err, cke.ErrNotFound) {
		return i, 0, &cke.Error{Code: cke.CodeCannot, What: fmt.Sprintf("cluster %s has no inventory", cluster), Unchanged: true,
			Try: "ckecli sabakan set-template FILE", Err: cke.ErrNotFound}
	}
	return i, mod, s.fail("read the inventory settings of "+cluster, err)
}

// SetInventory changes what is said about the inventory of a cluster, which need not be declared yet.
func (s *Store) SetInventory(ctx context.Context, cluster, by string, change func(*cke.InventorySettings)) error {
	for {
		i, mod, err := s.inventory(ctx, cluster)
		if err != nil && !errors.Is(err, cke.ErrNotFound) {
			return err
		}
		tried := "change the inventory settings of " + cluster
		change(&i)
		i.SetAt, i.SetBy = time.Now().UTC(), by
		key := s.keys.inventory(cluster)
		op, err := put(key, i)
		if err != nil {
			return err
		}
		if size := len(op.ValueBytes()); size > maxInventory {
			return &cke.Error{Code: cke.CodeConfig, What: fmt.Sprintf("the template of cluster %s is too large for the store", cluster),
				Facts: []string{fmt.Sprintf("with the variables it takes %d KiB; %d KiB are allowed", size>>10, maxInventory>>10)}, Unchanged: true}
		}
		resp, err := s.txn(ctx, []clientv3.Cmp{unchanged(key, mod)}, []clientv3.Op{op})
		if err != nil || resp.Succeeded {
			return s.fail(tried, err)
		}
	}
}

// NodesOfOthers names the other cluster that declares a node, by the node's address and by its serial, or else its host name.
func (s *Store) NodesOfOthers(ctx context.Context, cluster string) (map[string]string, error) {
	of := map[string]string{}
	err := s.eachOther(ctx, cluster, func(name string, n cke.Node) {
		for _, known := range knownAs(n) {
			of[known] = name
		}
	})
	return of, err
}

// knownAs returns what tells which machine a node is: its address, and its serial, or else its host name.
func knownAs(n cke.Node) []string {
	return []string{n.Address, cmp.Or(n.Annotations[cke.AnnotationSerial], n.Name())}
}

// eachOther calls f with each node that another cluster declares.
func (s *Store) eachOther(ctx context.Context, cluster string, f func(name string, n cke.Node)) error {
	all, err := s.Clusters(ctx)
	if err != nil {
		return err
	}
	for _, name := range all {
		if name == cluster {
			continue
		}
		spec, _, err := s.storedSpec(ctx, name)
		if errors.Is(err, cke.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		for _, n := range spec.Cluster.Nodes {
			f(name, n)
		}
	}
	return nil
}

// inventoryTurn is written with each revision that gives machines of an inventory to a cluster.
type inventoryTurn struct {
	Cluster string    `json:"cluster"`
	At      time.Time `json:"at"`
}

// takeTurn refuses a revision that gives a machine of an inventory to a cluster while another one has it, with ErrConflict. Of two clusters
// that get machines at the same time, the condition lets one revision be stored: the other one is to read the nodes of all again.
func (s *Store) takeTurn(ctx context.Context, cluster string, was, next cke.Cluster) (as []clientv3.Cmp, ops []clientv3.Op, err error) {
	known := map[string]bool{}
	for _, n := range was.Nodes {
		for _, id := range knownAs(n) {
			known[id] = true
		}
	}
	gets := map[string]bool{}
	for _, n := range next.Nodes {
		for _, id := range knownAs(n) {
			if !known[id] {
				gets[id] = true
			}
		}
	}
	if len(gets) == 0 {
		return nil, nil, nil
	}
	key := s.keys.inventoryTurn()
	mod, err := s.get(ctx, key, new(inventoryTurn))
	if err != nil && !errors.Is(err, cke.ErrNotFound) {
		return nil, nil, err
	}
	taken := ""
	err = s.eachOther(ctx, cluster, func(name string, n cke.Node) {
		if slices.ContainsFunc(knownAs(n), func(id string) bool { return gets[id] }) {
			taken = fmt.Sprintf("%s is a node of cluster %s", n.Name(), name)
		}
	})
	if err == nil && taken != "" {
		err = &cke.Error{Code: cke.CodeConflict, What: "a machine of the inventory was given to another cluster meanwhile", Facts: []string{taken}, Unchanged: true, Err: cke.ErrConflict}
	}
	if err != nil {
		return nil, nil, err
	}
	op, err := put(key, inventoryTurn{cluster, time.Now().UTC()})
	return []clientv3.Cmp{unchanged(key, mod)}, []clientv3.Op{op}, err
}

// OrderInventory asks the cluster's leader daemon to apply the change with a hash. ErrNotFound: there is no such cluster.
func (s *Store) OrderInventory(ctx context.Context, cluster string, o cke.InventoryOrder) error {
	return s.PutRequest(ctx, cluster, requestInventory, o.By, o)
}

// InventoryPast returns what leaders know of earlier reads of the inventory and of what it changed; zero: nothing.
func (s *Store) InventoryPast(ctx context.Context, cluster string) (cke.InventoryPast, error) {
	var p cke.InventoryPast
	_, err := s.get(ctx, s.keys.inventoryPast(cluster), &p)
	if err != nil && !errors.Is(err, cke.ErrNotFound) {
		return p, s.fail("read the past of the inventory of "+cluster, err)
	}
	if _, err = s.get(ctx, s.keys.inventoryLog(cluster), &p.InventoryLog); errors.Is(err, cke.ErrNotFound) {
		err = nil
	}
	return p, s.fail("read the changes of the inventory of "+cluster, err)
}

// PutInventoryPast stores what is known of earlier reads, without what was changed.
func (t *Term) PutInventoryPast(ctx context.Context, p cke.InventoryPast) error {
	key := t.s.keys.inventoryPast(t.cluster)
	op, err := boundedPast(key, p)
	if err != nil {
		return err
	}
	return t.write(ctx, "store the past of the inventory of "+t.cluster, []clientv3.Cmp{present(t.s.keys.spec(t.cluster))}, op)
}

// boundedPast forgets machines until the document fits: of those that are not of nodes, the highest serials.
func boundedPast(key string, p cke.InventoryPast) (clientv3.Op, error) {
	for most := cke.KeptHosts; ; most /= 2 {
		p = p.Bounded(most)
		op, err := put(key, p)
		if err != nil || len(op.ValueBytes()) <= maxPast || most == 0 {
			return op, err
		}
	}
}

// PutInventoryLog stores what an inventory changed, with the answer to an order, which is over with it; answered: there is one.
func (t *Term) PutInventoryLog(ctx context.Context, l cke.InventoryLog, answered bool) error {
	op, err := put(t.s.keys.inventoryLog(t.cluster), l.Bounded(time.Now()))
	if err != nil {
		return err
	}
	ops := []clientv3.Op{op}
	if answered {
		ops = append(ops, clientv3.OpDelete(t.s.keys.request(t.cluster, requestInventory)))
	}
	return t.write(ctx, "store the changes of the inventory of "+t.cluster, []clientv3.Cmp{present(t.s.keys.spec(t.cluster))}, ops...)
}

// EditSpec stores a revision that an inventory leads to, with the log of its changes, and returns both. The order that asked for it
// is over with it. ErrConflict: the revision that it starts from was replaced, the cluster is being deleted, or another one got machines
// meanwhile; nothing is written.
func (t *Term) EditSpec(ctx context.Context, e cke.InventoryEdit) (cke.Spec, cke.InventoryLog, error) {
	tried := "store the cluster file of " + t.cluster
	now, mod, err := t.spec(ctx)
	if err != nil {
		return now, e.Log, err
	}
	if err := settable(t.cluster, now, SetOptions{IfGeneration: &e.Generation}); err != nil {
		return now, e.Log, err
	}
	next := now.Following(e.Cluster, now)
	next.Source, next.SetAt, next.SetBy, next.Cause = string(e.Source), time.Now().UTC(), e.By, e.Cause
	as, ops, err := t.s.takeTurn(ctx, t.cluster, now.Cluster, next.Cluster)
	if err != nil {
		return now, e.Log, t.s.fail(tried, err)
	}
	log, current, err := t.s.revised(t.cluster, now, next)
	if err != nil {
		return now, e.Log, err
	}
	e.Change.Generation, e.Change.At = next.Generation, next.SetAt
	e.Log.Changes = append(slices.Clone(e.Log.Changes), e.Change)
	ops = append(ops, current)
	if e.Order != nil {
		e.Log.Answer = &cke.InventoryAnswer{Order: *e.Order, At: next.SetAt, Generation: next.Generation}
		ops = append(ops, clientv3.OpDelete(t.s.keys.request(t.cluster, requestInventory)))
	}
	e.Log = e.Log.Bounded(next.SetAt)
	op, err := put(t.s.keys.inventoryLog(t.cluster), e.Log)
	if err != nil {
		return now, e.Log, err
	}
	ops = append(ops, op)
	for _, address := range e.Forget {
		ops = append(ops, clientv3.OpDelete(t.s.keys.hostKey(t.cluster, address)), clientv3.OpDelete(t.s.keys.offeredKey(t.cluster, address)))
	}
	as = append(as, unchanged(t.s.keys.spec(t.cluster), mod))
	for _, write := range [][]clientv3.Op{log, ops} {
		err := t.write(ctx, tried, as, write...)
		if errors.Is(err, errChanged) {
			return now, e.Log, fmt.Errorf("%s: it was changed meanwhile: %w", tried, cke.ErrConflict)
		}
		if err != nil {
			return now, e.Log, err
		}
	}
	return next, e.Log, nil
}
