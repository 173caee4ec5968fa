package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
)

// ErrHash reports that restored data does not have the hash that a member computed when the backup was taken.
var ErrHash = errors.New("the hash differs from etcd's")

// HashAdvice says what the operator can do about ErrHash.
const HashAdvice = "either the backup is wrong, or the data of the member that computed the hash was; if all full backups that lead to the revision agree, --ignore-hash restores it"

// wrongHash is a hash that was given, and that of the data.
type wrongHash struct{ want, got Hash }

func (e *wrongHash) Error() string {
	return fmt.Sprintf("the data at revision %d has hash %d; in the cluster it was %d when the backup was taken", e.want.Revision, e.got.Hash, e.want.Hash)
}

func (e *wrongHash) Unwrap() error { return ErrHash }

// compare compares a database file with what etcd said of it: its hash at the revision, or else the newest one that is known of a
// revision before. Where that differs, the full is taken for the cause: deltas come from a quorum, a full from one member. The last good revision is
// one up to which earlier hashes are equal.
func (x *Extracted) compare(ctx context.Context, full Entry, file string) error {
	if len(x.hashes) == 0 {
		return nil
	}
	newest := len(x.hashes) - 1
	known := x.hashes[newest]
	err := checkHash(ctx, file, known)
	if IsDamage(err) {
		d := &DamagedError{Object: full.Name(), Err: err}
		var failed error
		wrong := sort.Search(newest, func(i int) bool {
			err := checkHash(ctx, file, x.hashes[i])
			if err != nil && !IsDamage(err) {
				failed = err
			}
			return err != nil
		})
		if failed != nil {
			return failed
		}
		if wrong > 0 {
			d.LastGood = x.hashes[wrong].Revision - 1
		}
		return d
	}
	if err == nil {
		x.HashChecked, x.Compared = x.Hash != nil, &known
	}
	return err
}

func checkHash(ctx context.Context, file string, want Hash) error {
	got, err := HashSnapshot(ctx, file, want.Revision, want.Compacted)
	if err == nil && got != want {
		err = damaged("%w", &wrongHash{want, got})
	}
	return err
}

// knowHashes takes in the hashes in a header from a revision on up to the one restored that count no more than what the full holds: one from
// before the compaction that it went through does, and one that a delta has of what the full was made from may.
func (x *Extracted) knowHashes(h, full Header, from int64) {
	for _, k := range h.Hashes {
		i, there := slices.BinarySearchFunc(x.hashes, k.Revision, func(k Hash, r int64) int { return cmp.Compare(k.Revision, r) })
		if k.Revision < from || k.Revision > x.Revision || !k.IsOf(full) || there {
			continue
		}
		x.hashes = slices.Insert(x.hashes, i, k)
		if k.Revision == x.Revision {
			x.Hash = &k
		}
	}
}

// otherHash is a chain to a state whose hash is not the one that etcd gave.
type otherHash struct {
	Chain
	wrongHash
}

// sameData reports whether all chains lead to the same data.
func sameData(chains []otherHash) bool {
	return len(chains) > 0 && !slices.ContainsFunc(chains, func(c otherHash) bool { return c.wrongHash != chains[0].wrongHash })
}

// ignored is the note of a state that was restored in spite of its hash.
func ignored(chains []otherHash) string {
	return fmt.Sprintf("%v; this was ignored, as requested: of the full backups that were compared, %d lead to this data, and none leads to other data", &chains[0].wrongHash, len(chains))
}

// onlyHashOf reports whether x is compared with nothing but the full's own hash: a hash that a delta has for a later revision may show that
// full or delta are wrong.
func (x *Extracted) onlyHashOf(h Header) bool {
	return len(x.hashes) == 0 || hashAt(h, h.Last) != nil && x.hashes[len(x.hashes)-1].Revision == h.Last
}
