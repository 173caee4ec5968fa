package sim

import "cke"

// StoreCopy is a copy of the store: what it holds of the cluster at one time.
type StoreCopy struct {
	identity cke.Identity
	spec     cke.Spec
}

// Copy makes a copy of the store.
func (s *Store) Copy() StoreCopy {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	return StoreCopy{cloneIdentity(s.identity), s.spec}
}

// Identity is who the cluster was.
func (c StoreCopy) Identity() cke.Identity { return cloneIdentity(c.identity) }

// With is the copy with another identity.
func (c StoreCopy) With(id cke.Identity) StoreCopy {
	c.identity = id
	return c
}

// BringBack puts a copy in the place of the store. Requests, records and the status are lost.
func (s *Store) BringBack(c StoreCopy) {
	s.world.change("the store is brought back from a copy", func() {
		s.deleted, s.spec, s.requests, s.status = false, c.spec, cke.Requests{}, cke.Status{}
		s.world.goesBack = true
		s.put(cloneIdentity(c.identity))
		s.world.goesBack = false
	})
}

// Redeclare declares a deleted cluster again.
func (s *Store) Redeclare(c cke.Cluster) {
	s.world.change("a person declares the cluster again", func() {
		s.deleted, s.identity, s.requests, s.status = false, cke.Identity{}, cke.Requests{}, cke.Status{}
		s.spec = cke.Spec{}.Following(c, cke.Spec{})
		s.spec.SetAt = s.world.now()
	})
}
