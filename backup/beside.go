package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"cke"
)

// Beside is what lies beside the backups of one incarnation.
type Beside struct {
	cke.Beside
	// Escrow is the newest that can be read.
	Escrow cke.Escrow
	// Trusted: it is signed by a key that is trusted, or what cannot be read is.
	Trusted bool
	// Missing: there is none.
	Missing error
	// found has the newer ones that do not count.
	found FoundFile
}

// listing is a bucket whose objects were listed already.
type listing struct {
	Bucket
	objects []Object
}

// List implements Bucket.
func (l listing) List(_ context.Context, prefix string) (some []Object, err error) {
	for _, o := range l.objects {
		if strings.HasPrefix(o.Name, prefix) {
			some = append(some, o)
		}
	}
	return some, nil
}

// Beside reads the identity beside the backups of an incarnation. What is damaged, or of a later format, is no error.
func (s *Store) Beside(ctx context.Context, lineage string) (b Beside, err error) {
	b.Incarnation = lineage
	f, err := s.TrustedFile(ctx, lineage, FileIdentity)
	b.Trusted, b.Unread, b.found = f.Trusted, f.Newer, f
	switch {
	case errors.Is(err, ErrNotFound) && !f.Trusted:
		b.Missing = err
		return b, nil
	case IsDamage(err), errors.Is(err, ErrNotFound): // that is listed, and not there
		b.Unread = err
		return b, nil
	case err != nil:
		return b, fmt.Errorf("read the identity beside the backups of incarnation %s: %w", lineage, err)
	}
	e, err := cke.ParseEscrow(f.Data)
	if err != nil {
		b.Unread, b.found = err, FoundFile{} // none of the others says what is in it
		return b, nil
	}
	b.Escrow, b.Identity = e, e.Identity
	return b, nil
}

// Besides reads what lies beside the backups of all incarnations that are chosen, from one listing. What cannot be read is tried once more.
func (s *Store) Besides(ctx context.Context, chosen func(lineage string) bool) (all []Beside, err error) {
	all, err = s.besides(ctx, chosen)
	if err == nil && slices.ContainsFunc(all, func(b Beside) bool { return b.Unread != nil }) {
		return s.besides(ctx, chosen)
	}
	return all, err
}

func (s *Store) besides(ctx context.Context, chosen func(lineage string) bool) (all []Beside, err error) {
	objects, err := s.Bucket.List(ctx, s.Cluster+"/")
	if err != nil {
		return nil, fmt.Errorf("list what lies beside the backups of %s: %w", s.Cluster, err)
	}
	files := *s
	files.Bucket = listing{s.Bucket, objects}
	last := ""
	for _, o := range objects {
		parts := strings.Split(o.Name, "/")
		if len(parts) < 3 || parts[1] == last || !chosen(parts[1]) {
			continue
		}
		last = parts[1]
		b, err := files.Beside(ctx, last)
		if err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	return all, nil
}

// Incarnations returns those of the cluster of which the bucket has anything, also without backups.
func (s *Store) Incarnations(ctx context.Context) (names []string, err error) {
	objects, err := s.Bucket.List(ctx, s.Cluster+"/")
	if err != nil {
		return nil, fmt.Errorf("list what is there of %s: %w", s.Cluster, err)
	}
	for _, o := range objects {
		if parts := strings.Split(o.Name, "/"); len(parts) > 2 {
			names = append(names, parts[1])
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// LastLife follows what lies beside the backups of one incarnation to the last one that took its place, as far as signatures are as good.
// unread are newer identities that cannot be read, which may be of a later incarnation or name other members. What cannot be read and is not
// signed is noted, unless it is known to be of an earlier one.
func (s *Store) LastLife(ctx context.Context, b Beside) (last Beside, unread []cke.Beside, notes []string, err error) {
	all, err := s.Besides(ctx, func(lineage string) bool { return lineage != b.Incarnation })
	if err != nil {
		return b, nil, nil, err
	}
	for range all {
		i := slices.IndexFunc(all, func(n Beside) bool { return n.Trusted && n.follows(b) })
		if i < 0 && !b.Trusted {
			i = slices.IndexFunc(all, func(n Beside) bool { return n.follows(b) })
		}
		if i < 0 {
			break
		}
		b = all[i]
	}
	if b.Unread != nil {
		unread = append(unread, b.Beside)
	}
	for _, n := range all {
		if n.Incarnation == b.Incarnation || b.Identity.Incarnation.WasReplaced(n.Incarnation) {
			continue
		}
		if err := s.needsSignature(ctx, &n); err != nil {
			return b, nil, nil, err
		}
		switch {
		case n.Unread != nil && n.Trusted:
			unread = append(unread, n.Beside)
		case n.Missing == nil && n.Unread == nil && (n.Trusted || !b.Trusted): // it is as good as what is used, and no later one
		default:
			notes = append(notes, n.note())
		}
	}
	return b, unread, notes, nil
}

// follows reports whether b is of a later life than another one, or of that whose restore the other one shows under way.
func (b Beside) follows(other Beside) bool {
	life := other.Incarnation // nothing may lie beside its backups
	if inc := other.Identity.Incarnation; inc != nil {
		life = inc.ID
	}
	return b.Identity.Incarnation.WasReplaced(life) || b.Incarnation == life && other.Incarnation != life
}

// needsSignature takes an identity that is not signed for one that cannot be read if a trusted key signed backups of its incarnation: it lost its
// signature, or anybody wrote it.
func (s *Store) needsSignature(ctx context.Context, b *Beside) error {
	if b.Trusted || b.Missing != nil || !s.judges() {
		return nil
	}
	signed, err := s.signedLineage(ctx, b.Incarnation)
	if err != nil || !signed {
		return err
	}
	b.Trusted, b.Escrow, b.Identity = true, cke.Escrow{}, cke.Identity{}
	b.Unread = cmp.Or(b.Unread, fmt.Errorf("the identity beside the backups of incarnation %s: %w", b.Incarnation, damaged("no trusted key signed it, and one signed backups of that incarnation")))
	return nil
}

// note says what is not known of an incarnation whose identity does not count.
func (b Beside) note() string {
	what := fmt.Sprintf("the identity beside the backups of incarnation %s is not signed by a key that is trusted", b.Incarnation)
	switch {
	case b.Missing != nil:
		what = fmt.Sprintf("no identity lies beside the backups of incarnation %s", b.Incarnation)
	case b.Unread != nil:
		what = fmt.Sprintf("the identity beside the backups of incarnation %s cannot be read (%v)", b.Incarnation, b.Unread)
	}
	return what + "; if that incarnation is a later one, its members are not known"
}

// CompareBeside refuses an order to restore the cluster whose backups these are, from them or from others in this target, by what lies beside
// them, see cke.RestoreOrder.RefusedBeside. What is not signed by a key that
// is trusted is noted, whatever the order trusts. identity reads that of the store, which is read once more after what lies there: what this
// store wrote, it still has. had are the digests of what lay there and the store had all of, see cke.BackupTarget.
func (s *Store) CompareBeside(ctx context.Context, o cke.RestoreOrder, had []string, identity func(context.Context) (cke.Identity, error)) (refusal *cke.Error, notes []string, err error) {
	id, err := identity(ctx)
	if err != nil {
		return nil, nil, err
	}
	o.Source = s.Cluster // what lies there is named by it
	life := id.LifeBeside()
	if !id.ComparesBeside(life) {
		return nil, nil, nil
	}
	judging := *s
	judging.AllowUntrusted = false
	read, err := judging.Besides(ctx, id.ComparesBeside)
	if err != nil {
		return nil, nil, err
	}
	if id, err = identity(ctx); err != nil {
		return nil, nil, err
	}
	var all []cke.Beside
	present := "no identity lies beside the backups of the present incarnation"
	for _, b := range read {
		own, known := b.Incarnation == life, func(sum string) bool { return slices.Contains(had, sum) }
		if own && b.found.Doubts != nil {
			b.Unread = b.found.Doubted(id, b.Incarnation, known)
		}
		if !own {
			if err := judging.needsSignature(ctx, &b); err != nil {
				return nil, nil, err
			}
		}
		for _, d := range b.found.strays {
			if own && !known(d.Sum()) {
				notes = append(notes, fmt.Sprintf("%v; it has no signature, so any client of the target may have written it: if cke did, it may name other members", d.Err))
				break
			}
		}
		switch {
		case b.Trusted, own && b.Unread != nil: // anybody may have written it, and an operator judges that
			all = append(all, b.Beside)
			if own {
				present = ""
			}
		case b.Missing == nil && own:
			present = "the identity beside the backups of the present incarnation is not signed by a key that is trusted"
		case !own:
			notes = append(notes, b.note())
		}
	}
	if present != "" {
		notes = append(notes, present+", so it does not show whether the store has all members")
	}
	return o.RefusedBeside(id, all), append(notes, o.AcceptedUnread(id, all)...), nil
}
