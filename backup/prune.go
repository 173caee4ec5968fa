package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"cke"
)

// sweepAge is how old a half-written local file must be to count as left behind.
const sweepAge = 24 * time.Hour

// Prune deletes what a retention does not keep. With dryRun it only returns the plan. It can be interrupted at any point:
// what the plan keeps is never touched. Objects that cannot be deleted are skipped and reported in the plan, with those
// that they need for a restore; that the target protects an object is not an error.
//
// The newest full that counts, of each incarnation that loses something, is read back first, see NotWholeError. ErrUntrusted:
// nothing can be pruned, because only keys that are not trusted signed what there is; else see PrunePlan.Signed.
func (s *Store) Prune(ctx context.Context, r cke.Retention, dryRun bool) (plan PrunePlan, err error) {
	if dryRun {
		_, plan, err = s.planPrune(ctx, r, s.Whole)
		return plan, err
	}
	err = s.onWhole(ctx, func(known *Whole) (unread []Entry, err error) {
		plan, unread, err = s.prune(ctx, r, known)
		return unread, err
	})
	return plan, err
}

// prune is Prune, unless fulls have to be read back first.
func (s *Store) prune(ctx context.Context, r cke.Retention, known *Whole) (PrunePlan, []Entry, error) {
	l, clock, now, err := s.deleting(ctx, "prune "+s.Cluster)
	if err != nil {
		return PrunePlan{}, nil, err
	}
	defer l.release()
	if err := agree(r, clock, now); err != nil {
		return PrunePlan{}, nil, err
	}
	lineages, plan, err := s.planPrune(ctx, r, known)
	if err != nil {
		return PrunePlan{}, nil, err
	}
	var unread []Entry
	for i := range lineages {
		unread = append(unread, lineages[i].unproved(plan, known.proved)...)
	}
	if len(unread) > 0 {
		return PrunePlan{}, unread, errUnread
	}
	told := make([]deletion, len(lineages))
	for i := range lineages {
		told[i] = s.tell(ctx, &lineages[i], plan.Delete, "")
	}
	if err = s.carryOut(ctx, l, lineages, &plan); ctx.Err() == nil {
		for _, d := range told {
			err = errors.Join(err, s.settle(ctx, d, plan.Delete))
		}
	}
	if b, ok := s.Bucket.(Sweeper); ok && ctx.Err() == nil {
		if swept := b.Sweep(ctx, sweepAge); swept != nil {
			err = errors.Join(err, fmt.Errorf("remove half-written files: %w", swept))
		}
	}
	return plan, nil, err
}

// planPrune reads what there is and decides what goes. known, which may be nil, knows of damage.
func (s *Store) planPrune(ctx context.Context, r cke.Retention, known *Whole) ([]Lineage, PrunePlan, error) {
	lineages, err := s.Lineages(ctx)
	if err != nil {
		return nil, PrunePlan{}, err
	}
	var others []string
	lineages = slices.DeleteFunc(lineages, func(l Lineage) bool {
		other := s.Prunable != nil && !slices.Contains(s.Prunable, l.Name)
		if other {
			others = append(others, l.Name)
		}
		return other
	})
	var signed []UnknownSigner
	lineages, signed, err = s.deletable(ctx, lineages)
	if err != nil {
		return nil, PrunePlan{}, err
	}
	lineages = s.genuine(lineages)
	verified := map[string]*Verified{}
	for i := range lineages {
		if verified[lineages[i].Name], err = s.judgeFulls(ctx, &lineages[i]); err != nil {
			return nil, PrunePlan{}, err
		}
	}
	if known != nil {
		known.judge(lineages)
	}
	plan := PlanPrune(lineages, verified, r, ageAt(lineages, s.now()))
	for i := range lineages {
		if err := s.readEnds(ctx, &lineages[i], plan.Delete); err != nil {
			return nil, PrunePlan{}, err
		}
	}
	plan = PlanPrune(lineages, verified, r, ageAt(lineages, s.now()))
	plan.Others, plan.Signed, plan.Damaged = others, signed, brokenThatStay(lineages, plan.Delete)
	if len(plan.Keep) == 0 && len(signed) > 0 {
		return nil, PrunePlan{}, &signed[0]
	}
	return lineages, plan, nil
}

// readEnds reads from their own headers how far the deltas go that are to be deleted: the name of the next one, which says where they end, is
// anybody's. What is to be deleted is planned again afterward. No full that they, or the deltas after them, follow may be missing in the listing.
func (s *Store) readEnds(ctx context.Context, l *Lineage, going []Removal) error {
	names, bases := named(going), map[string]bool{}
	for i := range l.Streams {
		st := &l.Streams[i]
		var entries []Entry
		for j, d := range st.Deltas {
			if names[d.Name()] || j > 0 && names[st.Deltas[j-1].Name()] { // a delta names no full that was taken while it was filled; the next one does
				entries = append(entries, d)
			}
		}
		st.ends = make(map[string]int64, len(entries))
		if err := s.eachHeader(ctx, entries, func(e Entry, h Header, err error) error {
			switch {
			case err == nil:
				st.ends[e.Name()] = h.Last
				if h.Base != nil {
					bases[h.Base.Object] = true
				}
			case !IsDamage(err) && !errors.Is(err, ErrNotFound):
				return err
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return s.allListed(ctx, l, bases)
}

// judgeFulls finds out which fulls of a lineage are of no use: those whose head or size is wrong, and those that a drill found wrong. Those that are
// listed and gone do not count. Of several of one revision it puts the one with the newest users and roles last. It also reads whether the last drill
// failed, and returns the newest one that succeeded.
func (s *Store) judgeFulls(ctx context.Context, l *Lineage) (*Verified, error) {
	d, err := s.drills(ctx, l.Name)
	if err != nil {
		return nil, err
	}
	if d.lost { // what it protects is not known; another drill makes another one
		return nil, fmt.Errorf("the mark of the last restore drill cannot be read, so what it protects is not known, until another drill makes another mark: %w", d.damage)
	}
	l.useless = map[string]string{}
	users, gone := map[string]UsersState{}, map[string]bool{}
	if err := s.eachHeader(ctx, l.Fulls, func(f Entry, h Header, err error) error {
		err = s.confirmed(ctx, f.Name(), err)
		if err == nil && (!s.judges() || s.trusts(h.Signature)) {
			users[f.Name()] = h.Users()
		}
		switch {
		case IsDamage(err):
			l.useless[f.Name()] = "damaged, does not count"
		case errors.Is(err, ErrNotFound): // the listing is older
			gone[f.Name()] = true
		case err != nil:
			return err
		case slices.Contains(d.wrong, f.ID()):
			l.useless[f.Name()] = "found wrong by a restore drill, does not count"
		}
		return nil
	}); err != nil {
		return nil, err
	}
	going := func(f Entry) bool { return gone[f.Name()] }
	l.Fulls = slices.DeleteFunc(l.Fulls, going)
	if l.sifted != nil { // see allListed
		l.listed = slices.DeleteFunc(slices.Clone(l.listed), going)
	}
	slices.SortStableFunc(l.Fulls, func(a, b Entry) int { // whatever the clocks, the newest is the one with the newest users
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), users[a.Name()].Compare(users[b.Name()]))
	})
	switch {
	case d.failing:
		l.failing = "the last restore drill failed"
	case len(l.useless) > 0 && len(l.useless) == len(l.Fulls):
		l.failing = "no full of its incarnation is intact"
	}
	v := d.verified()
	return v, s.allListed(ctx, l, v.proved(s.Cluster))
}

// ErrClock reports that the clock of this host differs from the target's, and the clock decides which backups are too old
// to be kept.
var ErrClock = errors.New("the clocks of this host and of the target differ")

// clockLimit is how far two clocks may be apart where days are counted, or objects are dated by both.
const clockLimit = 10 * time.Minute

// agree refuses a retention that goes by age where this host's time, now, is not the target's. A zero clock: the target's is not known.
func agree(r cke.Retention, clock, now time.Time) error {
	if r.MaxAge == 0 && r.Within == 0 || clock.IsZero() || clock.Sub(now).Abs() <= clockLimit {
		return nil
	}
	return fmt.Errorf("%w: this host has %s, the target has %s; set the clock that is wrong", ErrClock, now.UTC().Format(time.RFC3339), clock.UTC().Format(time.RFC3339))
}

// aheadLimit is how far ahead of now a backup may be dated whose date still counts.
const aheadLimit = time.Hour

// ageAt is the time that ages count from: no later than the newest backup. While none is written, none gets too old, so a clock that is
// ahead makes nothing old by itself. What is dated in the future says nothing of when one was written, and once something is signed, neither does what
// is not.
func ageAt(lineages []Lineage, now time.Time) time.Time {
	var newest time.Time
	signed := slices.ContainsFunc(lineages, Lineage.anySigned)
	count := func(l *Lineage, e Entry, t time.Time) {
		if t.After(newest) && !t.After(now.Add(aheadLimit)) && (!signed || l.signed(e)) {
			newest = t
		}
	}
	for i := range lineages {
		l := &lineages[i]
		for _, st := range l.Streams {
			count(l, st.Deltas[len(st.Deltas)-1], st.End)
		}
		for _, f := range l.Fulls {
			count(l, f, f.Time)
		}
	}
	if newest.IsZero() || newest.After(now) {
		return now
	}
	return newest
}

// carryOut deletes what a plan says, and leaves in it what became of that. What needs others goes before them, so that
// whatever has to stay can still be restored from.
func (s *Store) carryOut(ctx context.Context, lock *lock, lineages []Lineage, plan *PrunePlan) error {
	order := plan.Delete
	plan.Delete = []Removal{}
	first := map[string]int{} // what cannot be read: what shows that the newest state does not need it may go, too
	for _, l := range lineages {
		for _, st := range l.Streams {
			for i, d := range st.Deltas {
				if st.unread(i) {
					first[d.Name()] = -1
				}
			}
		}
	}
	slices.SortStableFunc(order, func(a, b Removal) int {
		p, _ := ParsePlace(a.Name)
		q, _ := ParsePlace(b.Name)
		return cmp.Or(cmp.Compare(first[a.Name], first[b.Name]), strings.Compare(string(p.Kind), string(q.Kind)), cmp.Compare(q.Revision, p.Revision)) // "delta" < "full"
	})
	needed := map[string]string{} // what has to stay, and what for
	var failed error
	for _, r := range order {
		if by := needed[r.Name]; by != "" {
			plan.Held = append(plan.Held, Removal{r.Name, r.Size, by + ", which stays, needs it"})
			continue
		}
		gone, err := s.remove(ctx, lock, r.Name)
		if gone {
			plan.Delete = append(plan.Delete, r)
			continue
		}
		switch {
		case errors.Is(err, ErrProtected):
			plan.Held = append(plan.Held, Removal{r.Name, r.Size, err.Error()})
		case errors.Is(err, errRefused):
			plan.Failed = append(plan.Failed, Removal{r.Name, r.Size, err.Error()})
			failed = cmp.Or(failed, fmt.Errorf("delete %s: %w", r.Name, err))
		default:
			return fmt.Errorf("delete %s: %w", r.Name, err)
		}
		for i := range lineages {
			for _, base := range lineages[i].bases(r.Name) {
				needed[base] = r.Name
			}
		}
	}
	return failed
}

// errRefused: a target that answers did not delete an object.
var errRefused = errors.New("it is still there")

// remove deletes an object. Of an attempt that failed the outcome is unknown until it was searched for.
func (s *Store) remove(ctx context.Context, lock *lock, name string) (gone bool, err error) {
	if ctx.Err() != nil { // a directory takes no notice of it
		return false, ctx.Err()
	}
	if err := lock.check(ctx, name); err != nil {
		return false, err
	}
	if err = s.Bucket.Delete(ctx, name); err == nil || errors.Is(err, ErrProtected) {
		return err == nil, err
	}
	listed, lookErr := s.lists(ctx, name)
	switch {
	case lookErr != nil:
		return false, err // the target does not answer
	case !listed:
		return true, nil
	}
	return false, fmt.Errorf("%w: %w", errRefused, err)
}

// Delete removes one full, named by its ID, and the deltas that no other full needs. Unless force is set, it returns
// ErrOnlyFull for the only full of an incarnation, and for the only one that leads to its newest changes. Deltas that
// cannot be deleted are skipped. The newest full that can take its place is read back first, see NotWholeError.
// UnknownSigner: only keys that are not trusted signed something of the incarnation.
func (s *Store) Delete(ctx context.Context, id string, force bool) (gone []Removal, err error) {
	err = s.onWhole(ctx, func(known *Whole) (unread []Entry, err error) {
		gone, unread, err = s.delete(ctx, id, force, known)
		return unread, err
	})
	return gone, err
}

// delete is Delete, unless a full has to be read back first.
func (s *Store) delete(ctx context.Context, id string, force bool, known *Whole) (gone []Removal, unread []Entry, err error) {
	lock, _, _, err := s.deleting(ctx, "delete "+id)
	if err != nil {
		return nil, nil, err
	}
	defer lock.release()
	l, plan, err := s.planDelete(ctx, id, force)
	if err != nil {
		return nil, nil, err
	}
	full, deltas := plan[0], plan[1:]
	if unread, err := l.replaces(full.Name, force, known); err != nil {
		return nil, unread, err
	}
	told := s.tell(ctx, l, deltas, full.Name)
	if ok, err := s.remove(ctx, lock, full.Name); !ok {
		told.going, told.full = nil, ""
		return nil, nil, errors.Join(fmt.Errorf("delete %s: %w", full.Name, err), s.settle(ctx, told, nil))
	}
	gone = []Removal{full}
	var failed error
	for _, r := range deltas {
		ok, err := s.remove(ctx, lock, r.Name)
		switch {
		case ok:
			gone = append(gone, r)
		case !errors.Is(err, ErrProtected) && !errors.Is(err, errRefused):
			return gone, nil, fmt.Errorf("delete %s: %w", r.Name, err)
		default:
			failed = cmp.Or(failed, fmt.Errorf("delete %s: %w", r.Name, err))
		}
	}
	return gone, nil, errors.Join(failed, s.settle(ctx, told, gone))
}

// PlanDelete returns what Delete would remove.
func (s *Store) PlanDelete(ctx context.Context, id string, force bool) ([]Removal, error) {
	_, plan, err := s.planDelete(ctx, id, force)
	return plan, err
}

// planDelete also returns the lineage. The full is the first of the plan.
func (s *Store) planDelete(ctx context.Context, id string, force bool) (*Lineage, []Removal, error) {
	lineages, err := s.Lineages(ctx)
	if err != nil {
		return nil, nil, err
	}
	for i := range lineages {
		l := &lineages[i]
		if l.Name != lineageOf(id) {
			continue
		}
		if err := s.vettedToDelete(ctx, l); err != nil {
			return nil, nil, err
		}
		if _, err := s.judgeFulls(ctx, l); err != nil {
			return nil, nil, err
		}
		for j, f := range l.Fulls {
			if f.ID() == id {
				plan, err := l.planDelete(j, force)
				if err == nil {
					err = s.readEnds(ctx, l, plan)
				}
				if err == nil {
					plan, err = l.planDelete(j, force)
				}
				return l, plan, err
			}
		}
	}
	for i := range lineages {
		for _, u := range lineages[i].Untrusted {
			if u.Kind == KindFull && u.ID() == id {
				return &lineages[i], []Removal{{u.Name(), u.Size, "requested"}}, nil
			}
		}
	}
	return nil, nil, fmt.Errorf("full backup %s: %w", id, ErrNotFound)
}

// instead are the fulls that can take the place of one, by revision; none for one that counts for nothing itself.
func (l *Lineage) instead(name string) []Entry {
	i := slices.IndexFunc(l.Fulls, func(f Entry) bool { return f.Name() == name })
	if i < 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(l.Fulls), func(f Entry) bool {
		return f.Name() == name || l.useless[f.Name()] != "" || l.signed(l.Fulls[i]) && !l.signed(f)
	})
}

func (l *Lineage) planDelete(i int, force bool) ([]Removal, error) {
	asked := l.Fulls[i]
	gone := []Removal{{asked.Name(), asked.Size, "requested"}}
	rest := slices.Delete(slices.Clone(l.Fulls), i, i+1)
	equal := l.instead(asked.Name())
	if len(equal) == 0 && !force {
		return nil, fmt.Errorf("%s is %w of its incarnation: nothing of that incarnation could be restored without it", asked.ID(), ErrOnlyFull)
	}
	newest, left := int64(0), Lineage{Fulls: equal, Streams: l.Streams}
	for _, f := range equal {
		newest = max(newest, f.Revision)
	}
	if reach := left.reach(math.MaxInt64); !force && l.useless[asked.Name()] == "" && reach < asked.Revision {
		return nil, fmt.Errorf("%s is %w that leads to the changes after revision %d", asked.ID(), ErrOnlyFull, reach)
	}
	for _, st := range l.Streams {
		for _, d := range st.Deltas[:st.unled(equal)] {
			if d.Revision > newest && !force && st.unled(l.Fulls) < len(st.Deltas) {
				return nil, fmt.Errorf("%s is %w that leads to the changes after revision %d", asked.ID(), ErrOnlyFull, l.reach(d.Revision-1))
			}
		}
		for _, d := range st.Deltas[:st.unled(rest)] {
			gone = append(gone, Removal{d.Name(), d.Size, "no full is left that needs it"})
		}
	}
	return gone, nil
}
