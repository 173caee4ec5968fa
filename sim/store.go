package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"cke"
)

// Store holds the state of one cluster. Writes of daemons are fenced by the term; those of operators are not.
type Store struct {
	world    *World
	cluster  string
	spec     cke.Spec
	identity cke.Identity
	requests cke.Requests
	status   cke.Status
	beside   []string // digests of identities beside the backups of which the store has had everything
	records  []cke.Record
	deleted  bool
	// archived are the identities of deleted clusters.
	archived []cke.Identity
	term     int64
	version  int // counts changes of the identity
	// written is the version in which each join was written last, lived that of the incarnation.
	written map[cke.JoinID]int
	lived   int
	down    bool
	// Faults of the store itself, which the checker must notice.
	unfenced, unguarded, drops bool
	guardsOnce                 bool
	// olderLead: daemons may lead that do not know of members that are put aside.
	olderLead bool
}

// errStoreDown is what calls end with while the store is down.
var errStoreDown = &cke.Error{Code: cke.CodeStore, What: "the store does not answer"}

// SetSpec stores a cluster file as a new revision, unless the command that an operator uses for it refuses the file.
func (s *Store) SetSpec(c cke.Cluster) {
	s.world.change("the operator sets the cluster file", func() {
		if s.world.refusesFile(c) {
			return
		}
		s.spec = s.spec.Following(c, s.spec)
		s.spec.SetAt = s.world.now()
	})
}

// refusesFile reports whether the command refuses a file that an operator uses for it.
func (w *World) refusesFile(c cke.Cluster) bool {
	if w.Verify == nil {
		return false
	}
	err := w.Verify(c)
	if err != nil {
		w.log("refused: %v", err)
	}
	return err != nil
}

// RequestDelete is an operator's request to delete the cluster.
func (s *Store) RequestDelete() {
	s.world.change("the operator deletes the cluster", func() { s.spec.DeleteRequestedAt = s.world.now() })
}

// CancelDelete withdraws that request, unless the cluster was deleted meanwhile.
func (s *Store) CancelDelete() {
	s.world.change("the operator cancels the deletion", func() {
		if s.spec.DeleteSealedAt.IsZero() {
			s.spec.DeleteRequestedAt, s.spec.Destroyed, s.spec.DestroyedIDs = time.Time{}, nil, nil
		}
	})
}

// Hibernate is an operator's request that no member run, or its end.
func (s *Store) Hibernate(on bool) {
	s.Ask(fmt.Sprintf("hibernate: %v", on), func(r *cke.Requests) {
		r.Hibernation = nil
		if on {
			r.Hibernation = &cke.Hibernation{By: "eve@host", Since: s.world.now()}
		}
	})
}

// Destroy names machines that are gone for good, for which a deletion does not wait.
func (s *Store) Destroy(nodes ...string) { s.DestroyMembers(nil, nodes...) }

// DestroyMembers is Destroy with the ids of the members that the names mean.
func (s *Store) DestroyMembers(ids []string, nodes ...string) {
	s.world.change("the operator names machines as destroyed", func() {
		s.spec.Destroyed, s.spec.DestroyedIDs = nodes, append(slices.Clone(s.spec.DestroyedIDs), ids...)
		s.identity.Sighted = slices.DeleteFunc(slices.Clone(s.identity.Sighted), func(o cke.Sighting) bool {
			return o.Order == s.spec.DeletionID() && slices.Contains(nodes, o.Node)
		})
		for _, d := range s.world.daemons {
			maps.DeleteFunc(d.sight.saw, func(on wordOn, _ int) bool { return on.order == s.spec.DeletionID() })
		}
	})
}

// Ask changes what operators requested.
func (s *Store) Ask(what string, do func(r *cke.Requests)) {
	s.world.change("the operator requests: "+what, func() {
		do(&s.requests)
		s.world.wereAsked(s.requests.Tasks)
	})
}

// SetDown stops the store from answering, or lets it answer again.
func (s *Store) SetDown(down bool) {
	s.world.change(fmt.Sprintf("store down: %v", down), func() { s.down = down })
}

// Unfence lets deposed daemons write.
func (s *Store) Unfence() { s.world.change("store without fencing", func() { s.unfenced = true }) }

// GuardOncePerMethod lets the guard of a term be asked when a method starts, and not before each of its requests.
func (s *Store) GuardOncePerMethod() {
	s.world.change("the guard is asked once per method", func() { s.guardsOnce = true })
}

// Unguard lets an incarnation that was not abandoned be followed by another one.
func (s *Store) Unguard() { s.world.change("store without guard", func() { s.unguarded = true }) }

// Identity returns the identity of the cluster.
func (s *Store) Identity() cke.Identity {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	id := cloneIdentity(s.identity)
	id.Revision = int64(s.version)
	return id
}

// Spec returns the stored revision of the cluster file.
func (s *Store) Spec() cke.Spec {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	return s.spec
}

// Requests returns what operators requested.
func (s *Store) Requests() cke.Requests {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	return s.asked()
}

// Status returns the status that the leader stored last.
func (s *Store) Status() cke.Status {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	return s.status
}

// Records returns the operations so far.
func (s *Store) Records() []cke.Record {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	return slices.Clone(s.records)
}

// Running returns the operation under way and its last step; empty: there is none.
func (s *Store) Running() (operation, step string) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	if len(s.records) == 0 {
		return "", ""
	}
	r := s.records[len(s.records)-1]
	if r.State != cke.RecordRunning {
		return "", ""
	}
	if len(r.Steps) > 0 {
		step = r.Steps[len(r.Steps)-1].Name
	}
	return r.Operation, step
}

// Deleted reports whether the cluster was moved out of the store.
func (s *Store) Deleted() bool {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	return s.deleted
}

// Tell stores the status that the leader reports.
func (s *Store) Tell(status cke.Status) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	s.status = status
}

func cloneIdentity(id cke.Identity) cke.Identity {
	if id.Incarnation != nil {
		inc := *id.Incarnation
		inc.Founders, inc.Previous = slices.Clone(inc.Founders), slices.Clone(inc.Previous)
		id.Incarnation = &inc
	}
	id.Joins, id.Ended, id.Sighted = slices.Clone(id.Joins), slices.Clone(id.Ended), slices.Clone(id.Sighted)
	if id.Freeze != nil {
		f := *id.Freeze
		id.Freeze = &f
	}
	return id
}
