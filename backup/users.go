package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrOlderUsers reports that users or roles have changed since the full that deltas were to be merged into. Only fulls
// hold them.
var ErrOlderUsers = errors.New("users or roles have changed since the full, and deltas do not hold them: take a full from the cluster instead of merging")

// UsersState orders states of users and roles. Turning authentication on does not raise etcd's revision of them, turning
// it off does. Source: etcd, authStore.AuthEnable and AuthDisable.
type UsersState struct {
	Revision uint64
	Enabled  bool // clients had to authenticate
}

// Users returns the users and roles that the header records.
func (h Header) Users() UsersState { return UsersState{h.AuthRevision, h.AuthEnabled} }

// Compare returns -1 if a was before b, 0 if they are the same, 1 otherwise.
func (a UsersState) Compare(b UsersState) int {
	on := func(enabled bool) int {
		if enabled {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(a.Revision, b.Revision), cmp.Compare(on(a.Enabled), on(b.Enabled)))
}

// Later returns the later one of a and b.
func (a UsersState) Later(b UsersState) UsersState {
	if b.Compare(a) > 0 {
		return b
	}
	return a
}

// users compares the users and roles of a state, which are those of a full, with what the backups say of the cluster's.
type users struct {
	full, known UsersState
	led         UsersState // the newest ones of the fulls that lead to the state
	// late: the state is that of a time, and the full was complete after it. after is, of what tells of users and roles after the time, what has the newest;
	// nil: nothing does.
	late  bool
	after *Header
}

// changed: users or roles are others than those of the state, or were soon after.
func (u users) changed() bool { return u.known.Compare(u.full) > 0 }

func (u users) notes(c Chain) []string {
	of := fmt.Sprintf("users and roles are those of full %s", c.Full.ID())
	switch {
	case u.late:
		return []string{of + ", which was taken later: no readable full that leads to this revision was complete by then"}
	case u.after != nil && u.after.Users().Compare(u.full) > 0 && u.led.Compare(u.full) <= 0:
		what := "full " + u.after.Place.ID()
		if u.after.Place.Kind == KindDelta {
			what = "delta " + u.after.Place.Name()
		}
		return []string{fmt.Sprintf("%s; they were changed before or after the time, as %s shows, which was complete at %s",
			of, what, u.after.End.UTC().Format(time.RFC3339))}
	case u.changed():
		return []string{of + ": they have changed since, and no readable full that leads to this revision has them as they were"}
	}
	return nil
}

// leading is what the headers of the fulls say that lead to a state.
type leading struct {
	s       *Store
	lineage *Lineage
	chains  []Chain            // of these fulls, the best first
	heads   map[string]*Header // what was read of the lineage, by name; nil: it does not count
	doubted []string           // as of the target
	newest  UsersState
	// late are the fulls, by name, that were complete after the time of the state.
	late map[string]bool
	// after is, of these and of what follows the state, what has the newest users, and of several the first; nil: there is none.
	after *Header
}

func (k *leading) users(c Chain) users {
	return users{known: k.newest, led: k.newest, late: k.late[c.Full.Name()], after: k.after}
}

// lookAfter asks what follows a state for its users: the next full from the cluster, and the delta with the next change, which may tell of users that no full
// has. They may have been changed before the time of the state, and a busy cluster has no full of just its revision.
func (k *leading) lookAfter(ctx context.Context, revision int64) {
	take := func(h *Header) {
		if h != nil && (k.after == nil || h.Users().Compare(k.after.Users()) > 0) {
			k.after = h
		}
	}
	for _, f := range k.lineage.Fulls {
		if f.Revision <= revision {
			continue
		}
		if h := k.header(ctx, f); h != nil && !h.Merged {
			take(h)
			break
		}
	}
	for i := range k.lineage.Streams {
		st := &k.lineage.Streams[i]
		for j, d := range st.Deltas {
			if d.Revision <= revision+1 && st.lastOf(j) > revision {
				take(k.header(ctx, d))
				return
			}
		}
	}
}

// byUsers puts those chains first whose full has the newest users and roles, and returns which those are: a full that was merged may have older ones than
// a full from the cluster before it, and of two of one revision the one that is dated later may be the earlier one. Those of the cluster never go back, so
// nothing of an earlier revision than a full from it need be asked. One whose header cannot be read keeps its place. Where it is known who is trusted,
// no other process changes the order. Of a state at a time, fulls of its revision that were complete later come last: users may have been changed
// since. One of an earlier revision was taken before the last change of the state, whatever the clocks.
func (s *Store) byUsers(ctx context.Context, t *target) (*leading, error) {
	of, k := map[string]UsersState{}, &leading{s: s, lineage: &t.lineage, heads: map[string]*Header{}, doubted: t.doubted, late: map[string]bool{}}
	var unread []string
	since := int64(0) // the revision of a full from the cluster
	for _, c := range t.chains {
		if c.Full.Revision < since {
			break
		}
		h, err := ReadHeader(ctx, s.Bucket, c.Full.Place)
		if k.heads[c.Full.Name()] = nil; err == nil && s.counts(h) {
			k.heads[c.Full.Name()] = &h
		}
		switch {
		case IsDamage(err), errors.Is(err, ErrNotFound):
			unread = append(unread, c.Full.Name())
			continue
		case err != nil:
			return nil, err
		case !s.counts(h):
			continue
		case !t.by.IsZero() && !h.Merged && c.Full.Revision == t.revision && h.End.After(t.by):
			k.late[c.Full.Name()] = true
			if k.after == nil || h.Users().Compare(k.after.Users()) >= 0 { // the newest by date comes first
				k.after = &h
			}
			continue
		}
		of[c.Full.Name()], k.newest = h.Users(), k.newest.Later(h.Users())
		if !h.Merged {
			since = c.Full.Revision
		}
	}
	for _, name := range unread {
		of[name] = k.newest
	}
	last := func(c Chain) int {
		if k.late[c.Full.Name()] {
			return 1
		}
		return 0
	}
	if !t.by.IsZero() && (k.after == nil || k.after.Users().Compare(k.newest) <= 0) {
		k.lookAfter(ctx, t.revision)
	}
	k.chains = slices.SortedStableFunc(slices.Values(t.chains), func(a, b Chain) int {
		return cmp.Or(cmp.Compare(last(a), last(b)), of[b.Full.Name()].Compare(of[a.Full.Name()]))
	})
	return k, nil
}
