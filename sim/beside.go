package sim

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"cke"
)

// target is what lies beside the backups in the cluster's target, and whether the target answers.
type target struct {
	// beside are the identities by incarnation, the newest one last; damaged: that cannot be read.
	beside  map[string][]cke.Identity
	damaged map[string]bool
	// careless: keepers write over whatever cannot be read, which the checker must notice.
	careless bool
	// silent: it neither shows nor takes anything; since is when that last began or ended.
	silent bool
	since  time.Time
}

// keptBeside is how many identities of an incarnation the target keeps.
const keptBeside = 3

// newest is the newest identity that can be read; its zero value: there is none.
func (t *target) newest(incarnation string) (id cke.Identity) {
	all := t.beside[incarnation]
	if t.damaged[incarnation] {
		all = all[:len(all)-1]
	}
	if len(all) > 0 {
		id = all[len(all)-1]
	}
	return id
}

// digest identifies what an identity says.
func digest(id cke.Identity) string {
	id.Freeze, id.Compared = nil, nil
	text, err := json.Marshal(id)
	if err != nil {
		panic(err) // these are plain values
	}
	return fmt.Sprintf("%x", sha256.Sum256(text))
}

// last is the newest identity that was written.
func (t *target) last(incarnation string) (id cke.Identity) {
	if all := t.beside[incarnation]; len(all) > 0 {
		id = all[len(all)-1]
	}
	return id
}

// KeepersWriteOverDamage lets keepers write over what they cannot read.
func (w *World) KeepersWriteOverDamage() {
	w.change("keepers write over damaged identities", func() { w.target.careless = true })
}

// TargetIsACopy lets what lies beside the backups be what lay there when an identity was the newest one: it is another target.
func (w *World) TargetIsACopy(id cke.Identity) {
	w.change("the target is a copy", func() {
		w.target.beside, w.target.damaged = map[string][]cke.Identity{}, nil
		if life := id.BackedUp().Incarnation; life != nil {
			id = cloneIdentity(id)
			id.Freeze, id.Compared = nil, nil
			w.target.beside[life.ID] = []cke.Identity{id}
		}
	})
}

// TargetFallsSilent lets the backup target show and take nothing, or answer again.
func (w *World) TargetFallsSilent(on bool) {
	w.change(fmt.Sprintf("the target is silent: %v", on), func() {
		if t := &w.target; t.silent != on {
			t.silent, t.since = on, w.now()
		}
	})
}

// LoseBeside removes the newest identity beside the backups of each incarnation, or all of them.
func (w *World) LoseBeside(all bool) {
	w.change(fmt.Sprintf("identities beside the backups are lost, all: %v", all), func() {
		for incarnation, ids := range w.target.beside {
			if w.target.beside[incarnation] = ids[:len(ids)-1]; all || len(ids) == 1 {
				delete(w.target.beside, incarnation)
			}
			w.mark(BesideLost)
		}
		w.target.damaged = nil
	})
}

// DamageBeside lets the newest identity beside the backups of each incarnation be one that cannot be read.
func (w *World) DamageBeside() {
	w.change("identities beside the backups are damaged", func() {
		w.target.damaged = map[string]bool{}
		for incarnation := range w.target.beside {
			w.target.damaged[incarnation] = true
			w.mark(BesideDamaged)
		}
	})
}

// UnreadBeside names the identities beside the backups that cannot be read, as an order accepts them.
func (w *World) UnreadBeside() (ids []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for incarnation := range w.target.damaged {
		ids = append(ids, cke.Beside{Incarnation: incarnation}.ID())
	}
	slices.Sort(ids)
	return ids
}

// Beside is the newest identity beside the backups of an incarnation. false: there is none.
func (w *World) Beside(incarnation string) (id cke.Identity, there bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tick()
	return cloneIdentity(w.target.newest(incarnation)), w.target.beside[incarnation] != nil
}

// keeper compares the store with what lies beside the backups, and writes there, for one daemon. Source: backup/keep.
type keeper struct {
	begun bool
	idle  string
	line  line
	told  told
	due   time.Time // zero: nothing is before it is told something
}

// told is what a keeper was last told: versions of what is in the store, and whether backups are taken.
type told struct {
	version    int
	generation int64
	idle       bool
}

// line is the work on one incarnation through the same members.
type line struct {
	incarnation string // empty: there is none
	idle        bool
	ends        string
	opened      time.Time // zero: the target has not answered yet
	resumed     bool      // a member answered, whose history was compared
	unanswered  bool      // none did when the first was asked
	compared    bool
	lacks       []cke.Lacking

	read, stored     told
	readAt, storedAt time.Time
	older, beside    chore
}

// chore is what is done again and again, and rests after it failed.
type chore struct {
	failures int
	until    time.Time
	awaited  bool // a deletion waits for it
}

const (
	// tellsAfter is how long it takes until a keeper is told of a change.
	tellsAfter = time.Second
	// besideEvery is how often the identities are compared though nothing is known to have changed.
	besideEvery = time.Hour
	// comparesFor is how long it takes to compare what lies in a target that was just opened.
	comparesFor = time.Second
	// rests is the pause after a target could not be opened, or a chore failed for the first time; asksEvery that after no member answered, or
	// a comparison failed.
	rests     = 30 * time.Second
	asksEvery = 10 * time.Second
)

// keeps lets the leader's keeper do what is due.
func (w *World) keeps() {
	if len(w.daemons) == 0 {
		return
	}
	d, now := w.daemons[len(w.daemons)-1], w.now()
	k := &d.keeper
	if !k.begun || d.dead || d.frozen || d.ctx.Err() != nil {
		return
	}
	if is := k.isTold(w.store); is != k.told {
		k.told = is
		k.by(now.Add(tellsAfter))
	}
	if !k.due.IsZero() && !k.due.After(now) {
		k.due = time.Time{}
		k.work(w, now)
	}
}

func (k *keeper) isTold(s *Store) told { return told{s.version, s.spec.Generation, k.idle != ""} }

// by lets the keeper work at a time at the latest.
func (k *keeper) by(at time.Time) {
	if k.due.IsZero() || at.Before(k.due) {
		k.due = at
	}
}

// work does what is due.
func (k *keeper) work(w *World, now time.Time) {
	k.turn(w.store)
	l := &k.line
	switch {
	case l.incarnation == "":
		return
	case l.opened.IsZero() && w.target.silent:
		k.by(now.Add(rests))
		return
	case l.opened.IsZero():
		l.opened = now
		if !l.compared {
			l.older.until = now.Add(comparesFor)
		}
	}
	k.by(now.Add(besideEvery))
	k.attempt(&l.older, now, l.read, l.readAt, func() bool { done, _ := k.compare(w, now); return done })
	if l.idle {
		return
	}
	if l.resumed = l.resumed || w.answers(w.store.identity.BackedUp()); !l.resumed {
		l.unanswered = true
		k.by(now.Add(asksEvery))
		return
	}
	k.attempt(&l.beside, now, l.stored, l.storedAt, func() bool { return k.put(w, now) })
}

// attempt does a chore that was last done at a time, when it was told something: if it is due and does not rest.
func (k *keeper) attempt(c *chore, now time.Time, when told, last time.Time, do func() bool) {
	switch {
	case when == k.told && now.Sub(last) < besideEvery:
		return
	case c.until.After(now):
	case do():
		*c = chore{awaited: c.awaited}
		return
	case c.awaited:
		c.until = now.Add(asksEvery)
	default:
		c.until = now.Add(min(rests<<min(c.failures, 10), besideEvery))
		c.failures++
	}
	k.by(c.until)
}

// turn ends the line if another one is wanted, which takes over what is known of what lies beside the same backups.
func (k *keeper) turn(s *Store) {
	id := s.identity.BackedUp()
	if id.Incarnation == nil || id.Incarnation.State != cke.Formed || s.spec.Cluster.Backup.Target == "" {
		k.line = line{}
		return
	}
	var ends strings.Builder
	for _, j := range cke.Chosen(id.Joins) {
		if !j.StartedAt.IsZero() {
			ends.WriteString(j.ClientURL() + " ")
		}
	}
	for _, name := range cke.AuthorityNames() {
		fmt.Fprint(&ends, id.Authorities.Of(name).Signs().Generation, " ")
	}
	next, was := line{incarnation: id.Incarnation.ID, idle: k.idle != "", ends: ends.String()}, &k.line
	if was.incarnation == next.incarnation {
		if was.idle == next.idle && was.ends == next.ends {
			return
		}
		next.compared, next.lacks = was.compared, was.lacks
	}
	k.line = next
}

// answers reports whether a member on record serves through a quorum.
func (w *World) answers(id cke.Identity) bool {
	return slices.ContainsFunc(cke.Chosen(id.Joins), func(j cke.Join) bool {
		if j.StartedAt.IsZero() {
			return false
		}
		e := w.endpoint(j.ClientURL())
		return e.Linearizable && e.ClusterID == id.Incarnation.ClusterID
	})
}

// compare finds out what the store lacks. false: the target or the store does not answer, or, with damaged, not all of it can be read: what
// the store lacks of the rest shows that it is older, and nothing shows that it is not. Of what the store once had all it needs to read nothing.
func (k *keeper) compare(w *World, now time.Time) (done, damaged bool) {
	if w.target.silent || w.store.down {
		return false, false
	}
	l, s, last := &k.line, w.store, digest(w.target.last(k.line.incarnation))
	s.beside = cke.NewestBeside(s.beside, digest(s.identity))
	damaged = w.target.damaged[l.incarnation] && !slices.Contains(s.beside, last)
	lacks := s.identity.LacksBeside(cke.Beside{Incarnation: l.incarnation, Identity: w.target.newest(l.incarnation)})
	if !damaged || lacks != nil {
		l.compared, l.lacks = true, lacks
	}
	if !damaged {
		l.read, l.readAt = k.told, now
		if lacks == nil {
			s.beside = cke.NewestBeside(s.beside, last)
		}
	}
	return !damaged, damaged
}

// put writes the identity, unless the newest one has, or may have, what the store lacks and no operator has accepted that. false: it could not.
func (k *keeper) put(w *World, now time.Time) bool {
	compared, damaged := k.compare(w, now)
	l, t := &k.line, &w.target
	var ids []string
	for _, lack := range l.lacks {
		ids = append(ids, lack.ID)
	}
	accepted := ids != nil && w.store.identity.Freeze.Tolerates(cke.OlderStore(ids))
	switch {
	case !compared && !(damaged && (accepted || t.careless)):
		return false
	case ids != nil && !accepted:
		w.mark(BesideKept)
	case w.refuses:
		return false
	default:
		if accepted {
			w.mark(BesideGivenUp)
		} else {
			w.writesOver(t.last(l.incarnation))
		}
		if t.beside == nil {
			t.beside = map[string][]cke.Identity{}
		}
		id := cloneIdentity(w.store.identity)
		id.Freeze, id.Compared = nil, nil
		all := t.beside[l.incarnation]
		if t.damaged[l.incarnation] {
			all = all[:len(all)-1]
		}
		all = append(all, id)
		t.beside[l.incarnation] = all[max(0, len(all)-keptBeside):]
		delete(t.damaged, l.incarnation)
		if compared {
			l.lacks = nil
		}
	}
	l.stored, l.storedAt = k.told, now
	return true
}

// writesOver judges that a store takes the place of an identity beside the backups, whether that can be read or not: unless an operator has accepted
// what it lacks, it has all of it.
func (c *checker) writesOver(last cke.Identity) {
	id := c.world.store.identity
	for _, l := range id.LacksBeside(cke.Beside{Incarnation: id.BackedUp().Incarnation.ID, Identity: last}) {
		c.violated("an older store writes over the identity beside the backups, which has %s", l.What)
	}
}

// Update sets whether backups are taken. It never waits.
func (b Backups) Update(wanted cke.BackupWanted) {
	w := b.d.world
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tick()
	k := &b.d.keeper
	k.idle = wanted.Idle
	if !k.begun {
		k.begun, k.told = true, k.isTold(w.store)
		k.turn(w.store)
		k.by(w.now().Add(readsFor))
	}
}

// endsBeside judges that an incarnation is to end, for a restore or a deletion: no member of it may serve that the store lacks and the identity
// beside the backups has. What the target did not show while it leads no daemon knows, unless it reads the target for the order; an operator
// may accept that the newest identity cannot be read.
func (c *checker) endsBeside(what string, o cke.RestoreOrder) {
	w, id := c.world, c.world.store.identity
	t, reads := &w.target, o.Target != ""
	if c.formed == nil || !id.BackedUp().Incarnation.Life(c.formed.ID) || !reads && (t.silent || !t.since.Before(w.daemons[len(w.daemons)-1].term.since)) {
		return
	}
	newest := t.newest(c.formed.ID)
	if all := t.beside[c.formed.ID]; reads && len(all) > 0 && !o.Accepts(cke.Beside{Incarnation: c.formed.ID}.ID()) {
		newest = all[len(all)-1]
	}
	for _, j := range newest.BackedUp().Joins {
		if !j.StartedAt.IsZero() && !id.Has(j.ID) && w.votes(j.ID) {
			c.violated("%s is recorded beside the member of %s, which the store lacks and the identity beside the backups has", what, j.Node.Name())
		}
	}
}

// votes reports whether the member of a membership votes in the formed cluster, which has a leader.
func (w *World) votes(id cke.JoinID) bool {
	s := w.standing()
	return s.leader != nil && slices.ContainsFunc(s.running, func(p process) bool { return p.c.Join == id && slices.Contains(s.voters, p.id) })
}

// Lasts reports whether the member of a membership may vote in the formed cluster, now or once it is started again: it holds its data, and was not
// removed from the list.
func (w *World) Lasts(id cke.JoinID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.standing()
	for _, n := range w.nodes {
		for _, c := range n.sorted() {
			if m := c.log(); m != nil && c.Join == id && (!s.quorate || slices.Contains(s.voters, m.id)) {
				return true
			}
		}
		for _, v := range n.volumes {
			if v.join == id && v.wal != nil && (!s.quorate || slices.Contains(s.voters, v.wal.id)) {
				return true
			}
		}
	}
	return false
}
