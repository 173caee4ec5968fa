package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
)

// Kinds of requests.
const (
	// requestResign asks a leader to give up its term; Args are a resignRequest.
	requestResign = "resign"
	// requestApply releases a generation that the reconcile policy holds back; Args are an applyRequest.
	requestApply = "apply"
	// requestInterrupt accepts that service is interrupted to apply a generation; Args are an applyRequest.
	requestInterrupt = "interrupt"
	// requestHold asks to change nothing; Args are a cke.Hold. It stays until the operator ends it.
	requestHold = "hold"
	// requestHibernate asks that no member run; it stays until the operator ends it.
	requestHibernate = "hibernate"
	// requestDrain, a space and a node's name is a maintenance lease, which the leader grants; Args are a cke.Drain.
	requestDrain = "drain"
	// requestInventory asks to apply a change that the inventory leads to; Args are a cke.InventoryOrder.
	requestInventory = "inventory"
	// requestReboots is the reboot queue; Args are cke.Queue.
	requestReboots = "reboots"
	// requestRepairs is the repair queue; Args are cke.Queue.
	requestRepairs = "repairs"
	// requestTask, a space and an id is something to do once; Args are a cke.Task.
	requestTask = "task"
)

// requestQueues are the requests that are queues.
var requestQueues = map[cke.QueueKind]string{cke.RebootQueue: requestReboots, cke.RepairQueue: requestRepairs}

func drainOf(node string) string { return requestDrain + " " + node }

type resignRequest struct {
	// Term is the one to end; a later leader ignores the request.
	Term int64 `json:"term"`
}

type applyRequest struct {
	// Generation is the one to apply; it does not release later ones.
	Generation int64 `json:"generation"`
}

// Request is a request to a cluster's leader daemon. There is at most one of each kind; a new one replaces it.
type Request struct {
	Kind string          `json:"kind"`
	Args json.RawMessage `json:"args,omitempty"`
	At   time.Time       `json:"at"`
	By   string          `json:"by,omitempty"`
}

// PutRequest stores a request to the cluster's leader daemon. ErrNotFound: there is no such cluster.
func (s *Store) PutRequest(ctx context.Context, cluster, kind, by string, args any) error {
	if err := checkName(cluster); err != nil {
		return err
	}
	op, err := s.request(cluster, kind, by, args)
	if err != nil {
		return err
	}
	tried := fmt.Sprintf("ask the leader of %s to %s", cluster, kind)
	if err := s.room(ctx, s.keys.requests(cluster), s.keys.request(cluster, kind), maxRequests, "requests to "+cluster); err != nil {
		return s.fail(tried, err)
	}
	return s.putOf(ctx, cluster, tried, op)
}

func (s *Store) request(cluster, kind, by string, args any) (clientv3.Op, error) {
	raw, err := json.Marshal(args)
	if err != nil {
		return clientv3.Op{}, fmt.Errorf("encode request %s: %w", kind, err)
	}
	return put(s.keys.request(cluster, kind), Request{Kind: kind, Args: raw, At: time.Now().UTC(), By: by})
}

// RequestResign asks the cluster's current leader daemon to give up its term. ErrNotFound: no daemon leads it.
func (s *Store) RequestResign(ctx context.Context, cluster string) error {
	leader, err := s.Leader(ctx, cluster)
	if err != nil {
		return err
	}
	return s.PutRequest(ctx, cluster, requestResign, "", resignRequest{Term: leader.Term})
}

// RequestApply releases the current revision of the cluster file, whatever its reconcile policy, and returns it.
// interrupt: even if service is interrupted. ErrNotFound: there is no such cluster. ErrConflict: it is being deleted.
func (s *Store) RequestApply(ctx context.Context, cluster, by string, interrupt bool) (generation int64, err error) {
	spec, err := s.Spec(ctx, cluster)
	if err == nil {
		err = settable(cluster, spec, SetOptions{})
	}
	asked := applyRequest{Generation: spec.Generation}
	if err == nil && interrupt {
		err = s.PutRequest(ctx, cluster, requestInterrupt, by, asked)
	}
	if err == nil {
		err = s.PutRequest(ctx, cluster, requestApply, by, asked)
	}
	if err != nil {
		return 0, err
	}
	return spec.Generation, nil
}

// SetHold pauses changes to the cluster. It replaces an existing pause. ErrNotFound: there is no such cluster.
func (s *Store) SetHold(ctx context.Context, cluster string, h cke.Hold) error {
	return s.PutRequest(ctx, cluster, requestHold, h.By, h)
}

// EndHold removes the cluster's pause, even an expired one. ErrNotFound: there is none, or no such cluster.
func (s *Store) EndHold(ctx context.Context, cluster string) error {
	return s.endRequest(ctx, cluster, requestHold, "end the pause of "+cluster,
		&cke.Error{Code: cke.CodeNotPaused, What: "cluster " + cluster + " is not paused", Unchanged: true, Err: cke.ErrNotFound})
}

// HoldOf returns the cluster's pause, even an expired one; nil: there is none.
func (s *Store) HoldOf(ctx context.Context, cluster string) (*cke.Hold, error) {
	if err := checkName(cluster); err != nil {
		return nil, err
	}
	var r Request
	_, err := s.get(ctx, s.keys.request(cluster, requestHold), &r)
	if errors.Is(err, cke.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, s.fail("read the pause of "+cluster, err)
	}
	return r.hold(), nil
}

// hold reads a request to hold. One that cannot be read holds all the same: somebody did ask.
func (r Request) hold() *cke.Hold {
	var h cke.Hold
	if err := json.Unmarshal(r.Args, &h); err != nil {
		return &cke.Hold{Reason: "the request cannot be read: " + err.Error(), By: r.By, Since: r.At}
	}
	return &h
}

// Leader returns the leader daemon of the cluster. ErrNotFound: there is none now.
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

// RequestsOf returns the requests to the cluster's leader daemon; of those that cannot be decoded it has what their keys say.
// ErrNotFound: there is no such cluster.
func (s *Store) RequestsOf(ctx context.Context, cluster string) (cke.Requests, error) {
	if err := checkName(cluster); err != nil {
		return cke.Requests{}, err
	}
	if _, err := s.Spec(ctx, cluster); err != nil {
		return cke.Requests{}, err
	}
	of := under(s.keys.requests(cluster))
	resp, err := s.client.Get(ctx, of.start, of.options()...)
	if err != nil {
		return cke.Requests{}, s.fail("read the requests of "+cluster, err)
	}
	var all []Request
	for _, kv := range resp.Kvs {
		r, _ := s.decodeRequest(cluster, kv)
		all = append(all, r)
	}
	return asked(all), nil
}

// decodeRequest also returns the kind of a request that cannot be decoded, by its key: a pause holds all the same, and a task can be
// canceled.
func (s *Store) decodeRequest(cluster string, kv *mvccpb.KeyValue) (r Request, err error) {
	key := string(kv.Key)
	if err = decode(key, kv.Value, &r); err != nil {
		r = Request{}
		if kind, escaped := url.PathUnescape(strings.TrimPrefix(key, s.keys.requests(cluster))); escaped == nil {
			r.Kind = kind
		}
	}
	return r, err
}

// Asked implements cke.Ledger.
func (t *Term) Asked(ctx context.Context) (cke.Requests, error) {
	of := under(t.s.keys.requests(t.cluster))
	resp, err := t.read(ctx, "read the requests of "+t.cluster, clientv3.OpGet(of.start, of.options()...))
	if err != nil {
		return cke.Requests{}, err
	}
	all, err := decodeAll[Request](resp.Responses[0].GetResponseRange().Kvs)
	if err != nil {
		return cke.Requests{}, err
	}
	return asked(all), nil
}

func asked(all []Request) cke.Requests {
	state := ClusterState{Requests: map[string]Request{}}
	for _, r := range all {
		state.Requests[r.Kind] = r
	}
	return state.Asked()
}
