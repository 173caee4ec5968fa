package sim

import (
	"maps"
	"slices"

	"cke"
)

// StoreCopy is a copy of the store: what it holds of the cluster at one time.
type StoreCopy struct {
	identity cke.Identity
	spec     cke.Spec
	status   cke.Status
	beside   []string
	archived []cke.Identity
	queues   cke.Requests // and the leases of their entries; no other request
	cas      map[string]cke.CA
}

// Copy makes a copy of the store.
func (s *Store) Copy() StoreCopy {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	queues := cke.Requests{Reboots: s.requests.Reboots, Repairs: s.requests.Repairs, Drains: slices.DeleteFunc(slices.Clone(s.requests.Drains), func(d cke.Drain) bool { return d.Entry == "" })}
	return StoreCopy{cloneIdentity(s.identity), s.spec, s.status, s.beside, slices.Clone(s.archived), queues, maps.Clone(s.world.cas)}
}

// Identity returns the identity of the cluster in the copy.
func (c StoreCopy) Identity() cke.Identity { return cloneIdentity(c.identity) }

// life is the incarnation that the copy has; empty: none.
func (c StoreCopy) life() string {
	if c.identity.Incarnation == nil {
		return ""
	}
	return c.identity.Incarnation.ID
}

// Ends reports whether a node of the copy answers where the copy has it, and marks its incarnation as over.
func (s *Store) Ends(c StoreCopy) bool {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	for _, declared := range c.spec.Cluster.Nodes {
		if n := s.world.at(declared.Address); n != nil && n.trouble(declared) == nil && slices.Contains(n.over[s.cluster], c.life()) {
			return true
		}
	}
	return false
}

// Unmark removes the marks on a node.
func (n *Node) Unmark() { n.world.change(n.name+" loses its marks", func() { clear(n.over) }) }

// Gone returns the incarnations that were deleted.
func (s *Store) Gone() []string {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	return slices.Clone(s.world.gone)
}

// With returns the copy with another identity.
func (c StoreCopy) With(id cke.Identity) StoreCopy {
	c.identity = id
	return c
}

// Knowing returns the copy with what another one has of deleted clusters.
func (c StoreCopy) Knowing(other StoreCopy) StoreCopy {
	c.archived = other.archived
	return c
}

// BringBack replaces the store by a copy. Requests are lost.
func (s *Store) BringBack(c StoreCopy) {
	s.world.change("the store is brought back from a copy", func() {
		if s.world.formed != nil && slices.Contains(s.world.gone, c.life()) {
			s.world.mark(BeforeDeletion)
		}
		s.deleted, s.spec, s.requests, s.status, s.beside, s.archived = false, c.spec, c.queues, c.status, c.beside, slices.Clone(c.archived)
		s.world.cas = maps.Clone(c.cas)
		s.world.goesBack = true
		s.put(cloneIdentity(c.identity))
		s.world.goesBack = false
	})
}

// Redeclare declares a deleted cluster again. It has nothing of the one before: no keys, no users, no clients.
func (s *Store) Redeclare(c cke.Cluster) {
	s.world.change("the operator declares the cluster again", func() {
		w := s.world
		w.mark(DeclaredAgain)
		w.auth, w.root, w.cas, w.clients = cke.AuthState{}, false, map[string]cke.CA{}, clientsOf(cke.Authorities{})
		w.users, w.manual = noUsers(), map[string]bool{}
		w.replaced, w.lost = nil, nil
		s.deleted, s.identity, s.requests, s.status, s.beside = false, cke.Identity{}, cke.Requests{}, cke.Status{}, nil
		s.world.stock.goesBack(cke.InventoryPast{InventoryLog: cke.InventoryLog{Template: s.world.stock.template}})
		s.spec = cke.Spec{}.Following(c, cke.Spec{})
		s.spec.SetAt = s.world.now()
	})
}
