package storage

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"cke"
)

// decodeRequest returns a request; of one that cannot be decoded it has at least the kind, by its key.
func (s *Store) decodeRequest(cluster string, kv *mvccpb.KeyValue) (r Request, err error) {
	key := string(kv.Key)
	kind := strings.TrimPrefix(key, s.keys.requests(cluster))
	if plain, err := url.PathUnescape(kind); err == nil {
		kind = plain
	}
	if err = decode(key, kv.Value, &r); err == nil && r.Kind != kind {
		err = fmt.Errorf("decode %s: its kind is %q: %w", key, r.Kind, cke.ErrMalformed)
	}
	if err != nil {
		return Request{Kind: kind}, err // without arguments, so that it is not taken for one that can be decoded
	}
	return r, nil
}

// into adds the request to all others. One that cannot be decoded is an error: it releases nothing and starts nothing, and if its kind
// restricts, it does so as strongly as that can, by its key, since an operator did ask.
func (r Request) into(asked *cke.Requests) (err error) {
	of, about, _ := strings.Cut(r.Kind, " ")
	args := func(v any) error { return json.Unmarshal(r.Args, v) }
	switch of {
	case requestResign:
		return args(&resignRequest{})
	case requestInventory:
		return args(&cke.InventoryOrder{})
	case requestApply:
		asked.Applied, err = r.generation()
	case requestInterrupt:
		asked.Interrupt, err = r.generation()
	case requestHold:
		var h cke.Hold
		if err = args(&h); err != nil {
			h = cke.Hold{Reason: "the request cannot be decoded", By: r.By, Since: r.At}
		}
		asked.Hold = &h
	case requestHibernate:
		asked.Hibernation = &cke.Hibernation{By: r.By, Since: r.At}
		return args(&struct{}{})
	case requestDrain:
		var d cke.Drain
		if err = args(&d); err == nil && (d.Node != about || d.Until.IsZero()) {
			err = fmt.Errorf("it is the lease of %q until %s", d.Node, d.Until)
		}
		if err != nil {
			d = cke.Drain{Node: about, Reason: "the request cannot be decoded", By: r.By, Since: r.At}
		}
		asked.Drains = append(asked.Drains, d)
	case requestReboots, requestRepairs:
		q := asked.Queue(cke.RebootQueue)
		if of == requestRepairs {
			q = asked.Queue(cke.RepairQueue)
		}
		if err = args(q); err != nil {
			*q = cke.Queue{Disabled: true, Unread: true}
		}
	case requestTask:
		var t cke.Task
		if err = args(&t); err == nil && t.ID != about {
			err = fmt.Errorf("it is task %q", t.ID)
		}
		if err != nil {
			asked.Unread = append(asked.Unread, about)
			return err
		}
		asked.Tasks = append(asked.Tasks, t)
	default: // of a newer cke
		return args(new(any))
	}
	return err
}

// generation is the one that a request is about; 0: it cannot be decoded.
func (r Request) generation() (int64, error) {
	var asked applyRequest
	if err := json.Unmarshal(r.Args, &asked); err != nil {
		return 0, err
	}
	return asked.Generation, nil
}

// ends returns the command that ends a request of a cluster, also one that cannot be decoded.
func (r Request) ends(cluster, key string) string {
	switch of, about, _ := strings.Cut(r.Kind, " "); of {
	case requestHold:
		return "ckecli resume --cluster " + cluster
	case requestHibernate:
		return "ckecli cluster resume " + cluster
	case requestDrain:
		return "ckecli node undrain " + about
	case requestTask:
		return "ckecli task cancel " + about
	}
	return "etcdctl del " + key
}
