package storage

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cke"
)

// TestTerm_ADeposedOneNeverChangesAnything interleaves campaigns, ends of terms and writes of two daemons at random.
// Every term has a blind twin that knows nothing of clocks and contexts: what stops it is the store alone.
func TestTerm_ADeposedOneNeverChangesAnything(t *testing.T) {
	c := testConfig(t)
	startEmbeddedStore(t, c)
	stores := []*Store{openStore(t, c), openStore(t, c)}
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		name := fmt.Sprintf("c%d", n)
		setCluster(t, stores[0], name)
		f := &fencing{t: rt, cluster: name, stores: stores, leading: -1}
		rt.Repeat(map[string]func(*rapid.T){
			"elect":  f.elect,
			"end":    f.end,
			"write":  f.write,
			"delete": f.finishDelete,
		})
		if f.leading >= 0 {
			f.terms[f.leading].Resign(context.Background())
		}
	})
}

// fencing is the model: of all terms there ever were, at most one leads.
type fencing struct {
	t       *rapid.T
	cluster string
	stores  []*Store
	terms   []*Term
	leading int // index in terms, -1: none
}

func (f *fencing) elect(t *rapid.T) {
	if f.leading >= 0 {
		t.Skip("led")
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	i := rapid.IntRange(0, 1).Draw(t, "daemon")
	term, err := f.stores[i].Campaign(ctx, f.cluster, fmt.Sprint("daemon ", i))
	if err != nil {
		t.Fatal(err)
	}
	if want := int64(len(f.terms) + 1); term.Number() != want {
		t.Fatalf("term %d, not %d", term.Number(), want)
	}
	f.terms = append(f.terms, term)
	f.leading = len(f.terms) - 1
}

func (f *fencing) end(t *rapid.T) {
	if f.leading < 0 {
		t.Skip("not led")
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	term := f.terms[f.leading]
	admin := f.stores[rapid.IntRange(0, 1).Draw(t, "by")]
	var err error
	switch rapid.SampledFrom([]string{"resign", "revoke", "remove"}).Draw(t, "how") {
	case "resign":
		err = term.Resign(ctx)
	case "revoke":
		_, err = admin.client.Revoke(ctx, term.ses.lease)
	case "remove":
		_, err = admin.client.Delete(ctx, term.key)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.leading = -1
	select {
	case <-term.Done():
	case <-ctx.Done():
		t.Fatal("the term does not end")
	}
}

func (f *fencing) write(t *rapid.T) {
	if len(f.terms) == 0 {
		t.Skip("no term yet")
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	i := rapid.IntRange(0, len(f.terms)-1).Draw(t, "term")
	twin := blind(f.terms[i])
	writes := f.writes(ctx, twin)
	what := rapid.SampledFrom(sortedNames(writes)).Draw(t, "what")
	before := revision(t, f.stores[0])
	err := writes[what]()
	wrote := revision(t, f.stores[0]) != before
	switch {
	case i == f.leading && err != nil && !errors.Is(err, cke.ErrConflict):
		t.Fatalf("%s by the leader: %v", what, err)
	case i != f.leading && !errors.Is(err, cke.ErrDeposed):
		t.Fatalf("%s by a deposed one: %v", what, err)
	case i != f.leading && wrote:
		t.Fatalf("%s by a deposed one changed the store", what)
	}
}

// writes are all that a leader can write, except the last.
func (f *fencing) writes(ctx context.Context, term *Term) map[string]func() error {
	inc := cke.NewIncarnation(testCluster(f.cluster).WithDefaults(), nil, time.Now())
	return map[string]func() error{
		"status": func() error { return term.PutStatus(ctx, cke.Status{Generation: time.Now().UnixNano()}) },
		"append": func() error { _, err := term.AppendRecord(ctx, cke.Record{State: cke.RecordRunning}); return err },
		"record": func() error { return term.PutRecord(ctx, cke.Record{ID: 1, Cluster: f.cluster}) },
		"pin":    func() error { return term.PinHostKey(ctx, fmt.Sprint(time.Now().UnixNano()), "ssh-ed25519 AAAA") },
		"offer":  func() error { return term.OfferHostKey(ctx, fmt.Sprint(time.Now().UnixNano()), "ssh-ed25519 AAAA") },
		"past":   func() error { return term.PutInventoryPast(ctx, cke.InventoryPast{ReadAt: time.Now()}) },
		"log":    func() error { return term.PutInventoryLog(ctx, cke.InventoryLog{Template: "t"}, true) },
		"edit": func() error {
			spec, err := term.s.Spec(ctx, f.cluster)
			if err == nil {
				spec.Cluster.Nodes[0].Labels = map[string]string{"at": fmt.Sprint(time.Now().UnixNano())}
				_, _, err = term.EditSpec(ctx, cke.InventoryEdit{Generation: spec.Generation, Cluster: spec.Cluster})
			}
			return err
		},
		"create": func() error { return term.CreateIncarnation(ctx, inc) },
		"update": func() error { return term.UpdateIncarnation(ctx, inc) },
		"joins":  func() error { return term.PutJoins(ctx, cke.NewIdentity(&inc, inc.Founders), inc.Founders...) },
		"read":   func() error { _, err := term.Identity(ctx); return err },
		"finish": func() error { return term.FinishTask(ctx, "0001") },
	}
}

func (f *fencing) finishDelete(t *rapid.T) {
	if len(f.terms) < 2 || f.leading == len(f.terms)-1 {
		t.Skip("only by a deposed one, since it ends the story")
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := f.stores[0].RequestDelete(ctx, f.cluster, "me"); err != nil {
		t.Fatal(err)
	}
	before := revision(t, f.stores[0])
	if err := blind(f.terms[0]).FinishDelete(ctx); !errors.Is(err, cke.ErrDeposed) || revision(t, f.stores[0]) != before {
		t.Fatalf("deleted by a deposed one: %v", err)
	}
}
