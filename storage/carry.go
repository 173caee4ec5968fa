package storage

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
)

// A cke reads documents that a newer one wrote, with fields that it does not know, changes what it knows and writes them
// back. Every write carries such fields over from what is stored, see decision 49.

// maxReads bounds the reads of one transaction; etcd takes 128.
const maxReads = 100

// continued is what a document at a key continues from.
type continued struct {
	from string       // the key of what is stored now; mostly the document's own
	as   reflect.Type // of the document
	same string       // JSON name of the field that tells this document from one that takes its place; empty: nothing does
}

// continues returns what a write to key continues from; false: it takes the place of what is there.
func (k schema) continues(key string) (continued, bool) {
	name, rest := clusterOf(key, k.clusters())
	past, _ := clusterOf(key, k.prefix+"inventories/")
	switch log, number := clusterOf(key, k.prefix+"spec-log/"); {
	case below(key, k.prefix+"spec-log/") && number != "":
		return continued{k.spec(log), reflect.TypeFor[cke.Spec](), "generation"}, true
	case below(key, k.prefix+"records/"):
		return continued{key, reflect.TypeFor[cke.Record](), "id"}, true
	case key == k.inventoryPast(past):
		return continued{key, reflect.TypeFor[cke.InventoryPast](), ""}, true
	case key == k.inventoryLog(past):
		return continued{key, reflect.TypeFor[cke.InventoryLog](), ""}, true
	case !below(key, k.clusters()):
		return continued{}, false
	case key == k.spec(name):
		return continued{key, reflect.TypeFor[cke.Spec](), "generation"}, true
	case key == k.inventory(name):
		return continued{key, reflect.TypeFor[cke.InventorySettings](), ""}, true
	case key == k.incarnation(name):
		return continued{key, reflect.TypeFor[cke.Incarnation](), "id"}, true
	case key == k.freeze(name):
		return continued{key, reflect.TypeFor[cke.Freeze](), "id"}, true
	case key == k.authorities(name):
		return continued{key, reflect.TypeFor[cke.Authorities](), ""}, true
	case key == k.request(name, requestReboots), key == k.request(name, requestRepairs):
		return continued{key, reflect.TypeFor[queueDocument](), ""}, true
	case strings.HasPrefix(rest, "identity/joins/"):
		return continued{key, reflect.TypeFor[cke.Join](), "id"}, true
	}
	return continued{}, false
}

// carried returns ops with the fields that this cke does not know put back into each document that continues from one that
// has them, and conditions under which that is all of them.
func (s *Store) carried(ctx context.Context, ops []clientv3.Op) ([]clientv3.Op, []clientv3.Cmp, error) {
	var reads []clientv3.Op
	var of []int
	var from []continued
	for i, op := range ops {
		if c, goesOn := s.keys.continues(string(op.KeyBytes())); goesOn && op.IsPut() {
			reads, of, from = append(reads, clientv3.OpGet(c.from)), append(of, i), append(from, c)
		}
	}
	if reads == nil {
		return ops, nil, nil
	}
	var stored []*clientv3.TxnResponse
	for some := range slices.Chunk(reads, maxReads) {
		resp, err := s.commit(ctx, nil, some)
		if err != nil {
			return nil, nil, err
		}
		stored = append(stored, resp)
	}
	ops = append([]clientv3.Op(nil), ops...)
	var unchangedSince []clientv3.Cmp
	for k, i := range of {
		kvs := stored[k/maxReads].Responses[k%maxReads].GetResponseRange().Kvs
		if len(kvs) == 0 {
			continue
		}
		next, more, err := carry(kvs[0].Value, ops[i].ValueBytes(), from[k].as, from[k].same)
		if err != nil {
			return nil, nil, fmt.Errorf("carry over %s: %w", kvs[0].Key, err)
		}
		if more {
			ops[i].WithValueBytes(next)
			unchangedSince = append(unchangedSince, unchanged(string(kvs[0].Key), kvs[0].ModRevision))
		}
	}
	return ops, unchangedSince, nil
}

// carry puts into next each field of stored that as does not have, at any depth; more: there is one. Documents whose
// field same differs have nothing to do with each other.
func carry(stored, next []byte, as reflect.Type, same string) (merged []byte, more bool, err error) {
	var was, is map[string]json.RawMessage
	if json.Unmarshal(stored, &was) != nil || json.Unmarshal(next, &is) != nil {
		return next, false, nil // what cannot be read cannot be continued
	}
	if same != "" && !bytes.Equal(was[same], is[same]) {
		return next, false, nil
	}
	if !carryObject(was, is, as) {
		return next, false, nil
	}
	merged, err = json.Marshal(is)
	return merged, true, err
}

// carryObject carries fields of one object over.
func carryObject(was, is map[string]json.RawMessage, as reflect.Type) (more bool) {
	known := fieldsOf(as)
	for name, old := range was {
		t, is_ := known[strings.ToLower(name)]
		now, there := is[name]
		switch {
		case !is_ && !there:
			is[name], more = old, true
		case is_ && there:
			if v, m := carryValue(old, now, t); m {
				is[name], more = v, true
			}
		}
	}
	return more
}

// carryValue carries what is in one value over: an object, or the elements of a list or map of objects.
func carryValue(old, now json.RawMessage, t reflect.Type) (json.RawMessage, bool) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler) {
		return now, false
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		var was, is map[string]json.RawMessage
		if json.Unmarshal(old, &was) != nil || json.Unmarshal(now, &is) != nil || is == nil {
			return now, false
		}
		more := false
		if t.Kind() == reflect.Struct {
			more = carryObject(was, is, t)
		} else {
			for key := range is {
				if v, m := carryValue(was[key], is[key], t.Elem()); m {
					is[key], more = v, true
				}
			}
		}
		return rewritten(now, is, more)
	case reflect.Slice, reflect.Array:
		var was, is []json.RawMessage
		if json.Unmarshal(old, &was) != nil || json.Unmarshal(now, &is) != nil {
			return now, false
		}
		more := false
		for i := range is {
			if k := counterpart(was, is, i); k >= 0 {
				if v, m := carryValue(was[k], is[i], t.Elem()); m {
					is[i], more = v, true
				}
			}
		}
		return rewritten(now, is, more)
	}
	return now, false
}

func rewritten(now json.RawMessage, v any, more bool) (json.RawMessage, bool) {
	if !more {
		return now, false
	}
	b, err := json.Marshal(v)
	return b, err == nil
}

// names are the fields by which elements of a list are known: the first that an element has.
var names = []string{"id", "name", "address"}

// counterpart is the index in was of the element that is[i] continues from; -1: there is none. Of several with one name it
// is the one in the same place.
func counterpart(was, is []json.RawMessage, i int) int {
	name, known := nameOf(is[i])
	found := -1
	for k := range was {
		if other, _ := nameOf(was[k]); !known && k == i || known && other == name && (found < 0 || k == i) {
			found = k
		}
	}
	return found
}

func nameOf(element json.RawMessage) (name string, known bool) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(element, &fields) == nil {
		for _, n := range names {
			if v, ok := fields[n]; ok {
				return n + string(v), true
			}
		}
	}
	return "", false
}

var marshaler = reflect.TypeFor[json.Marshaler]()

// fieldsOf are the types of a struct's fields by their names in JSON, in lower case, as they are read.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	all := map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported() && !f.Anonymous:
		case f.Anonymous && name == "":
			for n, inner := range fieldsOf(f.Type) {
				all[n] = inner
			}
		case name == "":
			all[strings.ToLower(f.Name)] = f.Type
		default:
			all[strings.ToLower(name)] = f.Type
		}
	}
	return all
}
