package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"cke"
)

// InventoryFault is why an inventory does not answer.
type InventoryFault int

// Faults.
const (
	InventoryAnswers InventoryFault = iota
	InventoryAway                   // nothing listens
	InventoryGarbage                // its answer cannot be understood
	InventoryHangs                  // it takes requests and does not answer
	InventoryFaults                 // how many there are
)

var inventoryErrors = map[InventoryFault]error{InventoryAway: errors.New("connection refused"), InventoryGarbage: errors.New("its answer is not whole JSON of machines")}

// inventory is what another system says of the machines, and what cke stores of it.
type inventory struct {
	options *cke.InventoryOptions // by which daemons work; nil: there is none
	// template is the hash of the template that the cluster file follows.
	template string
	fault    InventoryFault
	// machines are those of which it says more than that they have been healthy for long.
	machines map[*Node]*registered
	// taken are clusters that have machines, by address; gives: the store gives these to another one.
	taken map[string]string
	gives bool
	// What is stored of it.
	past  cke.InventoryPast
	log   cke.InventoryLog
	order *cke.InventoryOrder
	// told are the states that daemons were told of, by serial, with the number of the first of them; moved is what was exchanged since the store was brought back last.
	told  map[string]map[cke.HostState]int
	moved []exchanged
}

// registered is what an inventory says of one machine.
type registered struct {
	state cke.HostState
	since time.Time
	lacks int // so many answers lack it; negative: all
}

// longAgo is for how long the machines of a new world have been healthy.
const longAgo = 1000 * time.Hour

// RunInventory lets there be an inventory of all machines, which daemons work with as these options say.
func (w *World) RunInventory(o cke.InventoryOptions, template string) {
	w.change("there is an inventory, mode "+string(o.Mode), func() {
		w.stock = inventory{options: &o, template: template, machines: map[*Node]*registered{}, taken: map[string]string{}, told: map[string]map[cke.HostState]int{},
			log: cke.InventoryLog{Template: template}}
	})
}

// InventoryFails lets the inventory fail, or answer again.
func (w *World) InventoryFails(f InventoryFault) {
	w.change(fmt.Sprintf("inventory: fault %d", f), func() { w.stock.fault = f })
}

// InventorySays lets the inventory say that a machine has been in a state for a time.
func (n *Node) InventorySays(s cke.HostState, since time.Duration) {
	n.change(fmt.Sprintf("the inventory says %s for %v", s, since), func() {
		*n.registered() = registered{state: s, since: n.world.now().Add(-since)}
	})
}

// InventoryLacks lets so many answers of the inventory lack a machine; negative: all of them.
func (n *Node) InventoryLacks(answers int) {
	n.change(fmt.Sprintf("the inventory lacks it in %d answers", answers), func() { n.registered().lacks = answers })
}

// GiveTo declares a machine as a node of another cluster in the store; empty: of none.
func (n *Node) GiveTo(cluster string) {
	n.change(fmt.Sprintf("is declared as a node of %q", cluster), func() {
		if cluster == "" {
			delete(n.world.stock.taken, n.address)
		} else if !slices.ContainsFunc(n.world.store.spec.Cluster.Nodes, func(d cke.Node) bool { return d.Address == n.address }) {
			n.world.stock.taken[n.address] = cluster
		}
	})
}

// GiveTwice lets the store give machines of another cluster to this one: for mutations.
func (s *Store) GiveTwice() {
	s.world.change("the store gives machines to two clusters", func() { s.world.stock.gives = true })
}

// OrderInventory is an operator's order to apply the change with a hash.
func (s *Store) OrderInventory(hash string) {
	s.world.change("the operator orders what the inventory suggests", func() {
		o := cke.NewInventoryOrder(hash, "eve@host", s.world.host(0))
		s.world.stock.order = &o
	})
}

// InventoryOrder is the order that waits; nil: none does.
func (s *Store) InventoryOrder() *cke.InventoryOrder {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	return s.world.stock.order
}

// InventoryLog is what the inventory changed.
func (s *Store) InventoryLog() cke.InventoryLog {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	return s.world.stock.log
}

func (n *Node) registered() *registered {
	r := n.world.stock.machines[n]
	if r == nil {
		r = &registered{state: cke.HostHealthy, since: n.world.now().Add(-longAgo)}
		n.world.stock.machines[n] = r
	}
	return r
}

// stock is the inventory as a daemon reads it.
type stock struct{ d *Daemon }

// Inventory is the daemon's way to the inventory of machines.
func (d *Daemon) Inventory() cke.Inventory { return stock{d} }

// String implements fmt.Stringer.
func (stock) String() string { return "the inventory" }

// ask takes one request to the inventory.
func (s stock) ask(ctx context.Context, name string, do func(*inventory)) error {
	hangs := false
	err := s.d.call(WithActor(ctx, "inventory: "+name), Call{Port: "inventory", Name: name}, nil, cke.Node{}, func(bool) error {
		i := &s.d.world.stock
		if hangs = i.fault == InventoryHangs; hangs {
			return nil
		}
		if err := inventoryErrors[i.fault]; err != nil {
			return err
		}
		do(i)
		return nil
	})
	if hangs && err == nil {
		<-ctx.Done()
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return err
}

// Hosts implements cke.Inventory.
func (s stock) Hosts(ctx context.Context) (cke.HostList, error) {
	var l cke.HostList
	w := s.d.world
	err := s.ask(ctx, "Hosts", func(i *inventory) {
		l.ReadAt = s.d.host()
		for _, n := range w.nodes {
			h := cke.Host{ID: n.name, Addresses: []string{n.address}, Zone: zoneAt(n.address), State: cke.HostHealthy, For: longAgo}
			if r := i.machines[n]; r != nil {
				if r.lacks != 0 {
					r.lacks--
					continue
				}
				h.State, h.For = r.state, w.now().Sub(r.since)
			}
			l.Hosts = append(l.Hosts, h)
		}
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	s.d.wasTold(l, err)
	return l, err
}

// Registered implements cke.Inventory.
func (s stock) Registered(ctx context.Context, serial string) (is bool, err error) {
	w := s.d.world
	err = s.ask(ctx, "Registered", func(i *inventory) {
		n := w.Node(serial)
		is = n != nil && !n.left && (i.machines[n] == nil || i.machines[n].lacks == 0)
	})
	return is, err
}

// CheckMachines returns what keeps each of some machines from carrying a member, by address.
func (d *Daemon) CheckMachines(ctx context.Context, nodes []cke.Node, forgotten []string) (map[string]string, error) {
	found := map[string]string{}
	err := d.call(WithActor(ctx, "inventory: check"), Call{Port: "inventory", Name: "Check"}, nil, cke.Node{}, func(bool) error {
		for _, declared := range nodes {
			n := d.world.at(declared.Address)
			switch {
			case n == nil:
				found[declared.Address] = "nothing answers"
			case n.trouble(declared) != nil && !(n.hostKey != n.pinned && slices.Contains(forgotten, declared.Address) && d.world.connected(Management, n.name)):
				found[declared.Address] = n.trouble(declared).What
			case n.hung:
				found[declared.Address] = "its engine does not answer"
			case n.full:
				found[declared.Address] = "its disk is full"
			case len(n.taken) > 0:
				found[declared.Address] = "a port is taken"
			case len(n.containers) > 0:
				found[declared.Address] = "there are containers of etcd"
			}
		}
		return nil
	})
	return found, err
}

// InventoryPast returns what is stored of earlier reads and changes.
func (t *Term) InventoryPast(ctx context.Context) (p cke.InventoryPast, err error) {
	err = t.read(WithActor(ctx, "inventory"), "InventoryPast", func(s *Store) error {
		p = s.world.stock.past
		p.InventoryLog = s.world.stock.log
		return nil
	})
	return p, err
}

// NodesOfOthers names the other cluster that a node belongs to, by address.
func (t *Term) NodesOfOthers(ctx context.Context) (of map[string]string, err error) {
	err = t.read(WithActor(ctx, "inventory"), "NodesOfOthers", func(s *Store) error {
		of = maps.Clone(s.world.stock.taken)
		return nil
	})
	return of, err
}

// PutInventoryPast stores what is known of earlier reads.
func (t *Term) PutInventoryPast(ctx context.Context, p cke.InventoryPast) error {
	return t.write(WithActor(ctx, "inventory"), "PutInventoryPast", func(s *Store) error {
		t.ofInventory()
		s.world.stock.past = p
		for address := range p.Serials {
			if n := s.world.at(address); n != nil {
				n.read = true
			}
		}
		return nil
	})
}

// PutInventoryLog stores what an inventory changed, with the answer to an order.
func (t *Term) PutInventoryLog(ctx context.Context, l cke.InventoryLog, answered bool) error {
	return t.write(WithActor(ctx, "inventory"), "PutInventoryLog", func(s *Store) error {
		t.ofInventory()
		if s.world.stock.log = l; answered {
			s.world.stock.order = nil
		}
		return nil
	})
}

// ofInventory notes that what is written now is not written by what the daemon decided: to that, it is something that happened.
func (t *Term) ofInventory() {
	if !t.d.world.late && t.d.world.store.term == t.number {
		t.d.own--
	}
}

// EditSpec stores a revision that an inventory leads to.
func (t *Term) EditSpec(ctx context.Context, e cke.InventoryEdit) (next cke.Spec, log cke.InventoryLog, err error) {
	chosen := t.d.stock.chosen
	err = t.write(WithActor(ctx, "inventory"), "EditSpec", func(s *Store) error {
		i := &s.world.stock
		if e.Generation != s.spec.Generation || s.spec.Deleting() {
			return fmt.Errorf("it has revision %d: %w", s.spec.Generation, cke.ErrConflict)
		}
		for _, n := range e.Cluster.Nodes {
			if other := i.taken[n.Address]; other != "" && !i.gives {
				return fmt.Errorf("%s is a node of cluster %s: %w", n.Name(), other, cke.ErrConflict)
			}
		}
		t.ofInventory()
		s.world.wasExchanged(t.d, e, chosen)
		next = s.spec.Following(e.Cluster, s.spec)
		next.SetAt, next.SetBy, next.Cause = t.d.host(), e.By, e.Cause
		e.Change.Generation, e.Change.At = next.Generation, next.SetAt
		log = e.Log
		log.Changes = append(slices.Clone(log.Changes), e.Change)
		if e.Order != nil {
			log.Answer, i.order = &cke.InventoryAnswer{Order: *e.Order, At: next.SetAt, Generation: next.Generation}, nil
		}
		s.spec, i.log = next, log
		for _, address := range e.Forget {
			if n := s.world.at(address); n != nil {
				n.pinned = n.hostKey
			}
		}
		s.world.log("revision %d follows from the inventory: %s, %s → %s", next.Generation, e.Cause, e.Change.Old, e.Change.New)
		return nil
	})
	return next, log, err
}

// goesBack sets what is stored of the inventory back to a copy, which knows of no later exchange.
func (i *inventory) goesBack(p cke.InventoryPast) {
	i.past, i.log, i.order, i.moved = p, p.InventoryLog, nil, nil
}

// InventoryIsRight lets the inventory say of a machine what is true.
func (n *Node) InventoryIsRight() {
	n.change("the inventory is right", func() {
		r := n.registered()
		switch r.lacks = 0; {
		case !n.on && r.state == cke.HostHealthy:
			r.state, r.since = cke.HostUnreachable, n.world.now()
		case n.on && r.state != cke.HostHealthy && r.state != cke.HostRetired:
			r.state, r.since = cke.HostHealthy, n.world.now()
		}
	})
}
