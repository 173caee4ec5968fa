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

// knownHash is a hash that an object has, and the first other one of the same revision and compaction: one of the two is wrong.
type knownHash struct {
	Hash
	of      Place
	other   *Hash // nil: there is none
	otherOf Place
}

// differ says what the two hashes are.
func (k knownHash) differ() string {
	return fmt.Sprintf("objects have different hashes of revision %d: %s has %d, %s has %d", k.Revision, k.of.Name(), k.Hash.Hash, k.otherOf.Name(), k.other.Hash)
}

// meets takes in another hash of the same revision. A delta that has the same one confirms it.
func (k *knownHash) meets(other Hash, of Place) {
	switch {
	case max(0, k.Compacted) != max(0, other.Compacted):
	case k.Hash.Hash != other.Hash && k.other == nil:
		k.other, k.otherOf = &other, of
	case k.Hash.Hash == other.Hash && k.of.Kind == KindFull && of.Kind == KindDelta:
		k.of = of
	}
}

// disputed reports whether data of a full that has the hash may be wrong like the hash: only the same full has it. Data that was made of anything else, and
// has it, is right.
func (k knownHash) disputed(full Entry) bool { return k.other != nil && k.of.Name() == full.Name() }

// wrongHash is a hash that was given, and that of the data.
type wrongHash struct{ want, got Hash }

// disputedHash: the data has a hash that an object gives, and not that of another object.
type disputedHash struct{ knownHash }

func (e *disputedHash) Error() string {
	return fmt.Sprintf("%s; the data has the first of these", e.differ())
}

func (e *disputedHash) Unwrap() error { return ErrHash }

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
	err := checkHash(ctx, file, known.Hash)
	if IsDamage(err) && known.other != nil && known.of.Kind == KindFull && known.of.Name() != full.Name() && known.otherOf.Name() != full.Name() {
		// Two other fulls differ, and it may be the second one that is right.
		known = knownHash{*known.other, known.otherOf, &known.Hash, known.of}
		if checkHash(ctx, file, known.Hash) == nil {
			err = nil
		}
	}
	if IsDamage(err) {
		d := &DamagedError{Object: full.Name(), Err: err}
		var failed error
		wrong := sort.Search(newest, func(i int) bool {
			err := checkHash(ctx, file, x.hashes[i].Hash)
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
	switch {
	case err != nil:
		return err
	case known.disputed(full):
		return &DamagedError{Object: full.Name(), Err: damaged("%w", &disputedHash{known})}
	}
	x.equalTo(known)
	return nil
}

// equalTo enters that the data has a hash.
func (x *Extracted) equalTo(k knownHash) {
	x.HashChecked, x.Compared = x.Hash != nil, &k.Hash
	if k.other != nil {
		x.Notes = append(x.Notes, k.differ()+"; the restored data has the first of these")
	}
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
		i, there := slices.BinarySearchFunc(x.hashes, k.Revision, func(k knownHash, r int64) int { return cmp.Compare(k.Revision, r) })
		if k.Revision < from || k.Revision > x.Revision || !k.IsOf(full) {
			continue
		}
		if there {
			x.hashes[i].meets(k, h.Place)
			continue
		}
		x.hashes = slices.Insert(x.hashes, i, knownHash{Hash: k, of: h.Place})
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
	if len(x.hashes) == 0 {
		return true
	}
	newest := x.hashes[len(x.hashes)-1]
	return hashAt(h, h.Last) != nil && newest.Revision == h.Last && newest.other == nil
}
