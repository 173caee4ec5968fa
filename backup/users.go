package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// ErrOlderUsers: users or roles have changed since the full that deltas were to be merged into. Fulls alone have them.
var ErrOlderUsers = errors.New("users or roles have changed since the full, and no delta carries them: take a full from the cluster instead of a merge")

// users compares the users and roles of a state, which are those of a full, with what the backups say of the cluster's, by etcd's revision of them.
type users struct {
	full, known uint64
}

// changed: users or roles are others than those of the state, or were soon after.
func (u users) changed() bool { return u.known > u.full }

func (u users) notes(c Chain) []string {
	if !u.changed() {
		return nil
	}
	return []string{fmt.Sprintf("users and roles are those of full %s: they were changed since, and no full that can be read leads here with them as they were", c.Full.ID())}
}

// byUsers puts those chains first whose full has the newest users and roles, and tells their revision: a full that was merged may have older ones than
// a full from the cluster before it. Those of the cluster never go back, so nothing older than a full from it need be asked. One whose header cannot be
// read keeps its place. Where it is known who is trusted, nobody else changes the order.
func (s *Store) byUsers(ctx context.Context, chains []Chain) (_ []Chain, newest uint64, err error) {
	of := map[string]uint64{}
	var unread []string
	for _, c := range chains {
		h, err := ReadHeader(ctx, s.Bucket, c.Full.Place)
		switch {
		case IsDamage(err), errors.Is(err, ErrNotFound):
			unread = append(unread, c.Full.Name())
			continue
		case err != nil:
			return nil, 0, err
		case s.judges() && !s.trusts(h.Signature):
			continue
		}
		of[c.Full.Name()], newest = h.AuthRevision, max(newest, h.AuthRevision)
		if !h.Merged {
			break
		}
	}
	for _, name := range unread {
		of[name] = newest
	}
	return slices.SortedStableFunc(slices.Values(chains), func(a, b Chain) int { return cmp.Compare(of[b.Full.Name()], of[a.Full.Name()]) }), newest, nil
}
