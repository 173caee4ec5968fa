package cke

import "slices"

// Bounds of what the store keeps of a cluster, each checked where it grows; docs/store.md lists them by key.
const (
	// KeptTombstones is how many memberships with removed volumes stay on record: a container of one that appears late
	// is recognized and removed. One that was forgotten is reported, and never touched.
	KeptTombstones = 100
	// KeptEnded is how many ended memberships stay on record in all. The volume of a forgotten one is never touched.
	KeptEnded = 500
	// KeptLives is how many ids of abandoned and of replaced incarnations stay on record, of each kind. A bootstrap that
	// fails forever is abandoned about twice a minute. What a forgotten one left on a node is reported, and never
	// touched.
	KeptLives = 1000
)

// Forgettable returns the surplus ended memberships, the oldest of each kind, except those that a restore fences.
func (i Identity) Forgettable() []JoinID {
	fenced := i.Superseded()
	ended := slices.DeleteFunc(slices.Clone(i.Ended), func(j Join) bool {
		return slices.ContainsFunc(fenced, func(f Join) bool { return f.ID == j.ID })
	})
	slices.SortStableFunc(ended, func(a, b Join) int { return b.EndedAt.Compare(a.EndedAt) }) // newest first
	var all []JoinID
	tombstones, kept := 0, 0
	for _, j := range ended {
		if !j.RemovedAt.IsZero() {
			tombstones++
		}
		if !j.RemovedAt.IsZero() && tombstones > KeptTombstones || kept >= KeptEnded {
			all = append(all, j.ID)
			continue
		}
		kept++
	}
	return all
}

// mayHaveForgotten reports whether a membership may have been on record and been forgotten: even if it ended when it was started,
// as many ended after it as are kept. Then this identity is newer than its start.
func (i Identity) mayHaveForgotten(j Join) bool {
	j.EndedAt, j.RemovedAt = j.StartedAt, j.StartedAt
	return slices.Contains(i.With([]Join{j}).Forgettable(), j.ID)
}

// With returns the identity with added or changed memberships.
func (i Identity) With(joins []Join) Identity {
	all := slices.DeleteFunc(slices.Concat(i.Joins, i.Ended), func(j Join) bool {
		return slices.ContainsFunc(joins, func(o Join) bool { return o.ID == j.ID })
	})
	next := NewIdentity(i.Incarnation, append(all, joins...))
	i.Joins, i.Ended = next.Joins, next.Ended
	return i
}

// Without returns the identity without some ended memberships.
func (i Identity) Without(forgotten []JoinID) Identity {
	if forgotten != nil {
		i.Ended = slices.DeleteFunc(slices.Clone(i.Ended), func(j Join) bool { return slices.Contains(forgotten, j.ID) })
	}
	return i
}

// newestOf returns the last n of ids, which are in the order of time.
func newestOf(ids []string, n int) []string { return ids[max(0, len(ids)-n):] }
