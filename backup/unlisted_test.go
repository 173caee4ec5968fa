package backup_test

import (
	"context"
	"slices"
	"testing"

	"cke"
	"cke/backup"
	"cke/backup/internal/etcdtest"
)

// unlisted is a bucket whose listings lack an object that is there, as of a target that lists what was there a while ago.
type unlisted struct {
	backup.Bucket
	name string
}

func (b unlisted) List(ctx context.Context, prefix string) ([]backup.Object, error) {
	objects, err := b.Bucket.List(ctx, prefix)
	return slices.DeleteFunc(objects, func(o backup.Object) bool { return o.Name == b.name }), err
}

// Where a listing lacks a full that the retention keeps, nothing seems to need the deltas after it.
func TestPrune_NothingOnAccountOfAListingThatLacksAFull(t *testing.T) {
	for name, row := range map[string]struct {
		keep cke.Retention
		prep func(t *testing.T, f *fixture)
	}{
		"one that the rules keep": {cke.Retention{Last: 2}, func(*testing.T, *fixture) {}},
		"one that a drill proved, beside deltas that name none": {cke.Retention{Last: 1}, func(t *testing.T, f *fixture) {
			drilledBefore(t, f)
			_, deltas := f.objects(t)
			for _, d := range deltas {
				rehead(t, f.bucket, d, func(h *backup.Header) { h.After, h.Base = nil, nil })
			}
		}},
		"one that only a delta that stays names": {cke.Retention{Last: 2}, func(t *testing.T, f *fixture) {
			fulls, deltas := f.objects(t)
			for _, d := range deltas[:3] {
				rehead(t, f.bucket, d, func(h *backup.Header) { h.Base = nil })
			}
			rehead(t, f.bucket, deltas[3], func(h *backup.Header) { h.After = nil; h.Base.Object = fulls[0] })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := makeFixture(t, false)
			fulls, _ := f.objects(t)
			row.prep(t, f)
			before := names(t, f.bucket)
			plan, err := f.store(t, unlisted{f.bucket, fulls[0]}).Prune(etcdtest.Context(t), row.keep, false)
			if err == nil || len(plan.Delete) > 0 {
				t.Errorf("deleted %v, error %v", plan.Delete, err)
			}
			after := names(t, f.bucket)
			for _, name := range before {
				if !slices.Contains(after, name) {
					t.Errorf("%s is deleted", name)
				}
			}
			if plan, err = f.store(t, f.bucket).Prune(etcdtest.Context(t), row.keep, false); err != nil || len(plan.Delete) > 0 {
				t.Errorf("once it is listed: deleted %v, error %v", plan.Delete, err)
			}
		})
	}
}
