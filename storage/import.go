package storage

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
)

// Imported is a cluster whose members are those of an old one.
type Imported struct {
	Cluster cke.Cluster
	Source  []byte // text of its file
	// Incarnation is what cke.NewImport returned.
	Incarnation cke.Incarnation
	// Secrets are those that are handed over, by name.
	Secrets map[string][]byte
}

// Import declares a cluster whose members are those of an old one, with the cluster id that it has, in one transaction: from then on no
// other one is ever bootstrapped under its name. ErrConflict: a cluster of this name is declared.
func (s *Store) Import(ctx context.Context, i Imported, by string, at time.Time) (cke.Spec, error) {
	cluster := i.Cluster.Name
	if err := checkName(cluster); err != nil {
		return cke.Spec{}, err
	}
	tried := "import " + cluster
	if err := s.needs(ctx, schemaImport, "an import"); err != nil {
		return cke.Spec{}, err
	}
	first := cke.Spec{}.Following(i.Cluster, cke.Spec{})
	first.Source, first.SetAt, first.SetBy = string(i.Source), at.UTC(), by
	var ops []clientv3.Op
	for _, r := range s.keys.lent(cluster) {
		ops = append(ops, r.remove()) // those of a declaration that was cut off
	}
	documents := map[string]any{s.keys.spec(cluster): first, s.keys.incarnation(cluster): i.Incarnation}
	for name, value := range i.Secrets {
		key := s.keys.secret(cluster, name)
		b, err := s.seal(ctx, key, value)
		if err != nil {
			return first, s.fail(tried, err)
		}
		documents[key] = sealed{Name: name, Age: b}
	}
	for key, document := range documents {
		op, err := put(key, document)
		if err != nil {
			return first, s.fail(tried, err)
		}
		ops = append(ops, op)
	}
	resp, err := s.txn(ctx, []clientv3.Cmp{absent(s.keys.spec(cluster)), absent(s.keys.incarnation(cluster))}, ops)
	switch {
	case err != nil:
		return first, s.fail(tried, err)
	case !resp.Succeeded:
		return first, &cke.Error{Code: cke.CodeConflict, What: fmt.Sprintf("cluster %s is in the store already", cluster), Unchanged: true, Err: cke.ErrConflict,
			Facts: []string{"an import declares its cluster: cke bootstrapped this one, or was to, or it is imported already"}, Try: "ckecli status --cluster " + cluster}
	}
	return first, nil
}
