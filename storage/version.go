package storage

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
)

// SchemaVersion is the schema of the store that this cke reads and writes. It is raised when an older cke would do
// harm with what a newer one writes; a field that an older one may ignore does not raise it. docs/store.md lists
// them.
const SchemaVersion = 4

// schemaWrong is the schema from which on a task may name who is wrong, and members are put aside for it.
const schemaWrong = 3

// schemaImport is the schema from which on a cluster may have come from an old one, see cke.Import: an older cke would start its
// members with TLS between peers where the old ones have none, and would not ask those.
const schemaImport = 4

// StoreSchema is the document that says which versions may lead and write. A store without one has version 1.
type StoreSchema struct {
	Version int       `json:"version"`
	Since   time.Time `json:"since"`
	By      string    `json:"by,omitempty"` // user@host; empty: the daemon that made the store
}

// Candidate is a daemon that leads a cluster, or waits to.
type Candidate struct {
	Cluster string `json:"cluster"`
	cke.Leader
	// Schema is the newest that it knows.
	Schema int `json:"schema"`
}

// Schema returns the schema of the store.
func (s *Store) Schema(ctx context.Context) (StoreSchema, error) {
	now, _, err := s.schema(ctx)
	return now, s.fail("read the schema of the store", err)
}

// schema also notes the document's mod revision, which every write compares.
func (s *Store) schema(ctx context.Context) (now StoreSchema, mod int64, err error) {
	mod, err = s.get(ctx, s.keys.version(), &now)
	if errors.Is(err, cke.ErrNotFound) {
		now, mod, err = StoreSchema{Version: 1}, 0, nil
	}
	if err == nil {
		s.schemaMod.Store(mod)
		s.schemaIs.Store(int64(now.Version))
	}
	return now, mod, err
}

// MayWrite returns CodeSchema if a newer cke has raised the schema of the store beyond what this one knows.
func (s *Store) MayWrite() error {
	is := s.schemaIs.Load()
	if is <= SchemaVersion {
		return nil
	}
	return &cke.Error{Code: cke.CodeSchema, What: fmt.Sprintf("the store has schema %d, but this cke knows at most %d", is, SchemaVersion), Unchanged: true,
		Facts: []string{"an older cke would do harm with what a newer one has written, so it leads no cluster and writes nothing"},
		Try:   "install the version of cke that the other management hosts have"}
}

// needs returns CodeSchema while the store has a lower schema than version: a daemon that may lead would ignore what is
// asked for. Writes compare the schema, which is never lowered.
func (s *Store) needs(ctx context.Context, version int, what string) error {
	now, _, err := s.schema(ctx)
	if err != nil || now.Version >= version {
		return err
	}
	return &cke.Error{Code: cke.CodeSchema, What: fmt.Sprintf("the store has schema %d, and %s needs schema %d", now.Version, what, version), Unchanged: true,
		Facts: []string{"an older cke that leads would ignore it; upgrade all management hosts first"}, Try: "ckecli store schema --raise"}
}

// Candidates returns the daemons that lead, or wait to, in all clusters.
func (s *Store) Candidates(ctx context.Context) ([]Candidate, error) {
	all, _, err := s.candidates(ctx)
	return all, s.fail("read the daemons that lead", err)
}

func (s *Store) candidates(ctx context.Context) (all []Candidate, rev int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	r := under(s.keys.leaders())
	resp, err := s.client.Get(ctx, r.start, r.options()...)
	if err != nil {
		return nil, 0, err
	}
	for _, kv := range resp.Kvs {
		c := candidacy{Schema: 1}
		if err := decode(string(kv.Key), kv.Value, &c); err != nil {
			return nil, 0, err
		}
		name, _ := clusterOf(string(kv.Key), s.keys.leaders())
		all = append(all, Candidate{name, c.Leader, c.Schema})
	}
	return all, resp.Header.Revision, nil
}

// RaiseSchema raises the schema of the store to what this cke knows: older daemons no longer lead, and older ckecli
// no longer write. CodeSchema, nothing changed: a daemon that leads or waits to knows less.
func (s *Store) RaiseSchema(ctx context.Context, by string) (StoreSchema, error) {
	const tried = "raise the schema of the store"
	for {
		now, mod, err := s.schema(ctx)
		if err != nil {
			return now, s.fail(tried, err)
		}
		if err := s.MayWrite(); err != nil || now.Version == SchemaVersion {
			return now, err
		}
		candidates, rev, err := s.candidates(ctx)
		if err != nil {
			return now, s.fail(tried, err)
		}
		if err := tooOld(candidates); err != nil {
			return now, err
		}
		next := StoreSchema{SchemaVersion, time.Now().UTC(), by}
		op, err := put(s.keys.version(), next)
		if err != nil {
			return now, err
		}
		r := under(s.keys.leaders())
		resp, err := s.commit(ctx, []clientv3.Cmp{unchanged(s.keys.version(), mod), unwritten(r.start, rev).WithRange(r.end)}, []clientv3.Op{op})
		if err != nil {
			return now, s.fail(tried, err)
		}
		if resp.Succeeded {
			_, _, err := s.schema(ctx)
			return next, s.fail(tried, err)
		}
	}
}

// tooOld is why the schema is not raised: daemons that would be shut out.
func tooOld(candidates []Candidate) error {
	var facts []string
	for _, c := range candidates {
		if c.Schema < SchemaVersion {
			facts = append(facts, fmt.Sprintf("%s: the daemon on %s knows schema %d", c.Cluster, c.Host, c.Schema))
		}
	}
	if facts == nil {
		return nil
	}
	return &cke.Error{Code: cke.CodeSchema, What: fmt.Sprintf("not every daemon knows schema %d", SchemaVersion), Facts: facts, Unchanged: true,
		Try: "upgrade cke on these hosts first, or stop it there"}
}
