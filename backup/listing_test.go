package backup_test

import (
	"context"
	"slices"
	"testing"

	"cke"
	"cke/backup"
	"cke/backup/internal/etcdtest"
)

// listedTwice is a bucket whose listings repeat each object, as where one page of a listing starts with what ended the page before.
type listedTwice struct{ backup.Bucket }

func (b listedTwice) List(ctx context.Context, prefix string) ([]backup.Object, error) {
	objects, err := b.Bucket.List(ctx, prefix)
	var twice []backup.Object
	for _, o := range objects {
		twice = append(twice, o, o)
	}
	return twice, err
}

func TestLineages_AnObjectThatIsListedTwiceCountsOnce(t *testing.T) {
	f := makeFixture(t, false)
	fulls, deltas := f.objects(t)
	ctx := etcdtest.Context(t)
	bucket := f.bucket.Clone()
	s := f.store(t, listedTwice{bucket})
	lineages, err := s.Lineages(ctx)
	if err != nil || len(lineages) != 1 || len(lineages[0].Fulls) != len(fulls) {
		t.Errorf("%d incarnations, %v", len(lineages), err)
	}
	report, err := s.Check(ctx, "")
	if err != nil || len(report.Findings) > 0 {
		t.Errorf("%+v, %v", report, err)
	}
	f.extractOK(t, listedTwice{bucket}, backup.At{})
	plan, err := s.Prune(ctx, cke.Retention{Last: len(fulls)}, false)
	if err != nil || len(plan.Keep) != len(fulls) {
		t.Errorf("kept %+v, %v", plan.Keep, err)
	}
	want := slices.Concat(deltas, fulls)
	slices.Sort(want)
	if got := withoutPruning(names(t, bucket)); !slices.Equal(got, want) {
		t.Errorf("in the bucket %q, want %q", got, want)
	}
}
