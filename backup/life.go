package backup

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// newestLife goes by the incarnations on record. Where they are not known, the origins that they name show which one replaced which;
// clocks decide where these do not. Once an object of one lineage is signed by a trusted key, lineages without such an object are left
// out: any client can write any name, time and origin.
func (s *Store) newestLife(ctx context.Context, lineages []Lineage) (l Lineage, left []Lineage, err error) {
	var all []Lineage
	signed := slices.ContainsFunc(lineages, Lineage.anySigned)
	for _, l := range lineages {
		switch {
		case len(l.Fulls) == 0 && len(l.Streams) == 0:
		case signed && !l.anySigned():
			left = append(left, l)
		default:
			all = append(all, l)
		}
	}
	doubt := leftOut(left)
	if len(all) == 0 {
		return l, left, fmt.Errorf("%w of cluster %s that counts; %s", ErrEmpty, s.Cluster, doubt)
	}
	slices.SortStableFunc(all, func(a, b Lineage) int { return a.Newest().Compare(b.Newest()) })
	for _, life := range s.Lives {
		for _, l := range all {
			if l.Name == life {
				return l, left, l.onlyDeltas(all)
			}
		}
	}
	if len(all) == 1 {
		all[0].doubt = doubt
		return all[0], left, all[0].onlyDeltas(lineages)
	}
	origins, err := s.origins(ctx, all)
	if err != nil {
		return Lineage{}, left, err
	}
	newest := all[len(all)-1]
	var last, names []string
	for _, l := range all {
		if !slices.ContainsFunc(origins, func(o *Origin) bool { return o.Follows(l.Name) }) {
			last, newest = append(last, l.Name), l
		}
		names = append(names, l.Name)
	}
	if len(last) != 1 {
		byClock := fmt.Sprintf("of the incarnations %s, %s is used as the newest because its clock is the latest; if that clock was wrong, name another one", strings.Join(names, ", "), newest.Name)
		if doubt != "" {
			byClock += "; " + doubt
		}
		doubt = byClock
	}
	newest.doubt = doubt
	return newest, left, newest.onlyDeltas(all)
}

// leftOut is the note of lineages that were left out.
func leftOut(left []Lineage) string {
	var names []string
	for _, l := range left {
		names = append(names, l.Name)
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("left out, because none of their objects is signed by a trusted key: incarnations %s; name one to read it", strings.Join(names, ", "))
}

// anySigned reports whether a key that is trusted signed anything of a lineage.
func (l Lineage) anySigned() bool { return l.sifted != nil && slices.ContainsFunc(l.listed, l.signed) }

// Newest is when the newest full was started, or without one when the newest change was received. Any client can write a name: where headers were read, only
// those count that can be read, and once something is signed, only what is. Without any, the names have to do.
func (l *Lineage) Newest() time.Time {
	signed := l.anySigned()
	counts := func(e Entry) bool { return l.sifted == nil || l.signed(e) || !signed && l.seen[e.Name()].bad == nil }
	var full, change, named time.Time
	later := func(t *time.Time, than time.Time) {
		if than.After(*t) {
			*t = than
		}
	}
	for _, f := range l.Fulls {
		if later(&named, f.Time); counts(f) {
			later(&full, f.Time)
		}
	}
	for _, st := range l.Streams {
		if counts(Entry{Place: st.Tail.Place}) {
			later(&change, st.End)
		}
	}
	switch {
	case !full.IsZero():
		return full
	case !change.IsZero():
		return change
	}
	return named
}

// onlyDeltas is the damage of a lineage that has deltas and no full: they are newer than all that the lives before it have.
func (l *Lineage) onlyDeltas(all []Lineage) error {
	if len(l.Fulls) > 0 {
		return nil
	}
	d := *l.after(0)
	for _, o := range slices.Backward(all) {
		if len(o.Fulls) > 0 {
			d.Err = fmt.Errorf("%w; incarnation %s is the newest of the cluster; to restore an earlier one, use `--lineage %s`", d.Err, l.Name, o.Name)
			break
		}
	}
	return &d
}

// origins reads what the newest fulls of lineages, or else their deltas and other fulls, say of where these come from. Once something of
// a lineage is signed by a key that is trusted, only what is so counts.
func (s *Store) origins(ctx context.Context, lineages []Lineage) ([]*Origin, error) {
	judging := s.judges()
	newest := make([]*Origin, len(lineages))
	for i, l := range lineages {
		trusted := l.anySigned()
		told, merged := false, false // fulls that earlier releases merged tell no origin
		take := func(h Header) {
			if trusted != (judging && s.trusts(h.Signature)) {
				return
			}
			told, merged = true, merged || h.Merged
			if h.Origin != nil {
				newest[i] = h.Origin
			}
		}
		read := func(fulls []Entry) error {
			return s.eachHeader(ctx, fulls, func(_ Entry, h Header, err error) error {
				switch {
				case IsDamage(err):
					return nil
				case err == nil:
					take(h)
				}
				return err
			})
		}
		fulls := l.Fulls
		if !judging && len(fulls) > 0 {
			fulls = fulls[len(fulls)-1:]
		}
		if err := read(fulls); err != nil {
			return nil, err
		}
		if told && !merged {
			continue
		}
		for _, st := range l.Streams {
			if newest[i] == nil && st.Tail.Size > 0 {
				take(st.Tail)
			}
		}
		if newest[i] == nil {
			if err := read(l.Fulls[:len(l.Fulls)-len(fulls)]); err != nil {
				return nil, err
			}
		}
	}
	return newest, nil
}
