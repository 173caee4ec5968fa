package op

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"cke"
)

// Bounds of a comparison.
const (
	// compareLimit bounds a comparison of all members: hashing reads all data that a member holds.
	compareLimit = 30 * time.Minute
	// compareTries is how often it is started again because compaction moved on meanwhile.
	compareTries = 5
	// compareEvery is the pause before it is started again.
	compareEvery = time.Second
	// unequalLooks is how many comparisons, each at a revision of its own, must find the members to differ in the same
	// way: what follows from it, a frozen cluster, must not come from a chance.
	unequalLooks = 2
)

// CompareData compares the members' data: the hash of each at one revision. It changes nothing on any member. Members
// are asked one at a time, since each reads all that it holds. If they differ, the cluster is frozen.
type CompareData struct {
	// Joins are the members to ask, in this order: followers first.
	Joins []cke.Join
}

var _ Operation = CompareData{}

// Name implements Operation.
func (CompareData) Name() string { return "compare-data" }

// Targets implements Operation.
func (c CompareData) Targets() []string { return joinNames(c.Joins) }

// Stages implements Operation.
func (c CompareData) Stages() []Stage {
	return []Stage{{{Name: "compare", Limit: compareLimit, Run: c.compare}}}
}

func (c CompareData) compare(ctx context.Context, e Env) error {
	found, looks := "", 0
	for try := 1; ; try++ {
		r, err := c.once(ctx, e)
		switch {
		case errors.Is(err, cke.ErrCompacted), errors.Is(err, cke.ErrNotReady): // compaction moved on
		case err != nil:
			return err
		case r.Equal():
			return e.Ledger.PutComparison(ctx, r)
		case Finding(r) != found:
			found, looks = Finding(r), 1
		default:
			looks++
		}
		if looks == unequalLooks {
			return c.unequal(ctx, e, r)
		}
		if try >= compareTries {
			return &cke.Error{Code: cke.CodeCannot, What: fmt.Sprintf("the members could not be compared at one revision in %d tries: compaction was faster", compareTries), Unchanged: true,
				Try: "ckecli etcd compare", Err: err}
		}
		if err := e.Pause(ctx, compareEvery); err != nil {
			return err
		}
	}
}

// once compares at the smallest of the members' revisions. cke.ErrCompacted: there is no verdict, compaction moved on.
func (c CompareData) once(ctx context.Context, e Env) (cke.Comparison, error) {
	joins, revision, err := c.ready(ctx, e)
	if err != nil {
		return cke.Comparison{}, err
	}
	r := cke.Comparison{Revision: revision}
	for i, j := range joins {
		if e.Progress != nil {
			e.Progress(fmt.Sprintf("%d of %d members, at revision %d", i, len(joins), revision))
		}
		h, err := e.Etcd.HashKV(ctx, j.ClientURL(), revision)
		if err != nil {
			return r, err
		}
		r.Hashes = append(r.Hashes, cke.MemberHash{Join: j.ID, Node: j.Node.Name(), Hash: h.Hash, Compacted: h.Compacted})
	}
	for _, h := range r.Hashes {
		if h.Compacted != r.Hashes[0].Compacted {
			return r, fmt.Errorf("%s has compacted up to %d, %s up to %d: %w", h.Node, h.Compacted, r.Hashes[0].Node, r.Hashes[0].Compacted, cke.ErrCompacted)
		}
	}
	r.At = e.Now().UTC()
	return r, nil
}

// ready returns the members to compare and the smallest of their revisions. Every voter must answer; learners hash
// nothing. Source: etcd, isRPCSupportedForLearner.
func (c CompareData) ready(ctx context.Context, e Env) (joins []cke.Join, revision int64, err error) {
	list, id, err := readList(ctx, e)
	if err != nil {
		return nil, 0, err
	}
	order := func(j cke.Join) int {
		return indexOf(c.Joins, j.ID)
	}
	slices.SortStableFunc(id.Joins, func(a, b cke.Join) int { return order(a) - order(b) })
	for _, j := range id.Joins {
		m, there := list.of(j)
		if !there || m.Learner {
			continue
		}
		s := e.Etcd.Endpoint(ctx, j.ClientURL())
		s.Problem = cmp.Or(s.Problem, id.NotOurs(s))
		if s.Problem != "" {
			return nil, 0, &cke.Error{Code: cke.CodeMemberSilent, What: fmt.Sprintf("the member on %s does not answer, so the members cannot be compared", j.Node.Name()), Facts: []string{s.Problem}, Unchanged: true}
		}
		if joins = append(joins, j); revision == 0 || s.Revision < revision {
			revision = s.Revision
		}
	}
	return joins, revision, nil
}

// unequal freezes the cluster before anything else is stored.
func (c CompareData) unequal(ctx context.Context, e Env, r cke.Comparison) error {
	f := cke.NewFreeze(cke.FreezeUnequalData, Finding(r), Unequal(r), cke.EtcdStatus{})
	f.Compared = &r
	if list, id, err := readList(ctx, e); err == nil {
		f.Etcd = cke.EtcdStatus{Members: list.members, MembersSource: cke.MembersLinearizable, Quorate: true}
		for _, j := range id.Joins {
			s := e.Etcd.Endpoint(ctx, j.ClientURL())
			s.Join = j.ID
			f.Etcd.Endpoints = append(f.Etcd.Endpoints, s)
		}
	}
	if err := freeze(ctx, e, f); err != nil {
		return err
	}
	return e.Ledger.PutComparison(ctx, r)
}

// Unequal returns the problem that members differ.
func Unequal(r cke.Comparison) cke.Problem {
	return cke.Problem{Code: cke.CodeUnequalData, Message: fmt.Sprintf("the members hold different data at revision %d: %s", r.Revision, r.Difference()),
		Remedy: "`ckecli cluster evidence` shows all that was found; keep every volume, and find the member with the wrong data"}
}

// Finding names what a comparison found: which members differ, whatever the hashes are. Empty: all are equal.
func Finding(r cke.Comparison) string {
	if r.Equal() {
		return ""
	}
	groups := map[uint32][]string{}
	for _, h := range r.Hashes {
		groups[h.Hash] = append(groups[h.Hash], string(h.Join))
	}
	var all []string
	for _, g := range slices.Collect(maps.Values(groups)) {
		slices.Sort(g)
		all = append(all, strings.Join(g, "+"))
	}
	slices.Sort(all)
	return string(cke.FreezeUnequalData) + " " + strings.Join(all, " ")
}
