package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
)

// requestResign asks a leader to give up its term; Args are a resignRequest.
const requestResign = "resign"

type resignRequest struct {
	// Term is the one to end; a later leader does not feel asked.
	Term int64 `json:"term"`
}

// Request is what a person asks of a cluster's leader. There is one of a kind at a time; asking again replaces it.
type Request struct {
	Kind string          `json:"kind"`
	Args json.RawMessage `json:"args,omitempty"`
	At   time.Time       `json:"at"`
	By   string          `json:"by,omitempty"`

	revision int64
}

// PutRequest asks the cluster's leader for something. ErrNotFound: there is no such cluster.
func (s *Store) PutRequest(ctx context.Context, cluster, kind, by string, args any) error {
	if err := checkName(cluster); err != nil {
		return err
	}
	raw, err := json.Marshal(args)
	if err != nil {
		return fmt.Errorf("encode request %s: %w", kind, err)
	}
	op, err := put(s.keys.request(cluster, kind), Request{Kind: kind, Args: raw, At: time.Now().UTC(), By: by})
	if err != nil {
		return err
	}
	resp, err := s.txn(ctx, []clientv3.Cmp{present(s.keys.spec(cluster))}, []clientv3.Op{op})
	if err != nil {
		return s.fail(fmt.Sprintf("ask the leader of %s to %s", cluster, kind), err)
	}
	if !resp.Succeeded {
		return noCluster(cluster)
	}
	return nil
}

// RequestResign asks the present leader of the cluster to give up its term. ErrNotFound: nobody leads it.
func (s *Store) RequestResign(ctx context.Context, cluster string) error {
	leader, err := s.Leader(ctx, cluster)
	if err != nil {
		return err
	}
	return s.PutRequest(ctx, cluster, requestResign, "", resignRequest{Term: leader.Term})
}

// Leader returns who leads the cluster. ErrNotFound: nobody does now.
func (s *Store) Leader(ctx context.Context, cluster string) (cke.Leader, error) {
	var leader cke.Leader
	if err := checkName(cluster); err != nil {
		return leader, err
	}
	eldest, err := list[candidacy](ctx, s, under(s.keys.candidates(cluster)),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend), clientv3.WithLimit(1))
	if err == nil && (len(eldest) == 0 || eldest[0].Term == 0) {
		return leader, &cke.Error{Code: cke.CodeNoLeader, What: "no cke daemon leads cluster " + cluster, Err: cke.ErrNotFound}
	}
	if err != nil {
		return leader, s.fail("read the leader of "+cluster, err)
	}
	return eldest[0].Leader, nil
}

// FinishRequest removes a request that was dealt with, unless it was replaced meanwhile.
func (t *Term) FinishRequest(ctx context.Context, r Request) error {
	key := t.s.keys.request(t.cluster, r.Kind)
	err := t.write(ctx, "finish request "+r.Kind, []clientv3.Cmp{unchanged(key, r.revision)}, clientv3.OpDelete(key))
	if errors.Is(err, errChanged) {
		return nil
	}
	return err
}
