package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"cke/internal/term"
	"cke/storage"
)

// schemas is which versions of cke may use the store.
type schemas interface {
	Schema(ctx context.Context) (storage.StoreSchema, error)
	Candidates(ctx context.Context) ([]storage.Candidate, error)
	RaiseSchema(ctx context.Context, by string) (storage.StoreSchema, error)
}

func newStoreCommand(a *app) *cobra.Command {
	return newGroup("store", groupSelf, "The store of cke: which versions of cke may use it", newStoreSchemaCommand(a))
}

func newStoreSchemaCommand(a *app) *cobra.Command {
	var raise bool
	cmd := &cobra.Command{
		Use: "schema", Short: "Show which schema the store has and which daemons know, or raise it", Args: arguments(0, 0),
		Long: `Show which schema the store has, which one this ckecli knows, and which ones the daemons know that lead a cluster or wait to.

With --raise the store gets the schema that this ckecli knows. From then on an older cke leads no cluster and writes
nothing, and this cannot be undone. It is refused while a daemon that knows less leads, or waits to: upgrade every
management host first. A daemon that does not run now and is older is shut out when it is started.`,
		RunE: a.onStore(func(ctx context.Context, s store, _ []string) error { return runStoreSchema(ctx, a, s, raise) }),
	}
	cmd.Flags().BoolVar(&raise, "raise", false, "raise the schema of the store to what this ckecli knows")
	return cmd
}

// shownSchema is what `store schema` writes for programs.
type shownSchema struct {
	Store   storage.StoreSchema `json:"store"`
	Known   int                 `json:"known"` // by this ckecli
	Daemons []storage.Candidate `json:"daemons"`
}

func runStoreSchema(ctx context.Context, a *app, s schemas, raise bool) error {
	shown := shownSchema{Known: storage.SchemaVersion, Daemons: []storage.Candidate{}}
	var err error
	if raise {
		shown.Store, err = s.RaiseSchema(ctx, a.whoami())
	} else {
		shown.Store, err = s.Schema(ctx)
	}
	if err != nil {
		return err
	}
	daemons, err := s.Candidates(ctx)
	if err != nil {
		return err
	}
	shown.Daemons = append(shown.Daemons, daemons...)
	return a.show(view{data: shown, names: []string{fmt.Sprint(shown.Store.Version)}, table: func(w io.Writer, colour, _ bool) error {
		t := term.NewTable("WHO", "CLUSTER", "SCHEMA")
		t.Add(term.Text("store"), term.Text("-"), term.Textf("%d", shown.Store.Version))
		t.Add(term.Text("this ckecli"), term.Text("-"), term.Textf("%d", shown.Known))
		for _, d := range shown.Daemons {
			t.Add(term.Text("daemon on "+d.Host), term.Text(d.Cluster), term.Textf("%d", d.Schema))
		}
		return t.Write(w, colour)
	}})
}
