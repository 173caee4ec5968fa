package storage

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cke"
)

// filled returns a value of a type in which every field is set, and lists and maps have two elements.
func filled(t reflect.Type, n *int) reflect.Value {
	*n++
	v := reflect.New(t).Elem()
	switch {
	case t == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Unix(int64(*n), 0).UTC()))
		return v
	case t == reflect.TypeFor[json.RawMessage]():
		v.SetBytes(fmt.Appendf(nil, `{"arg":%d}`, *n))
		return v
	}
	switch t.Kind() {
	case reflect.Pointer:
		if *n > 3000 || t.Elem() == reflect.TypeFor[cke.Incarnation]() && *n > 300 { // a life has one before it
			return v
		}
		v.Set(reflect.New(t.Elem()))
		v.Elem().Set(filled(t.Elem(), n))
	case reflect.Struct:
		for i := range t.NumField() {
			if t.Field(i).IsExported() {
				v.Field(i).Set(filled(t.Field(i).Type, n))
			}
		}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte{byte(*n)})
			break
		}
		v.Set(reflect.Append(v, filled(t.Elem(), n), filled(t.Elem(), n)))
	case reflect.Map:
		v.Set(reflect.MakeMap(t))
		for range 2 {
			v.SetMapIndex(filled(t.Key(), n), filled(t.Elem(), n))
		}
	case reflect.String:
		v.SetString(fmt.Sprintf("s%d", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(float64(*n))
	case reflect.Uint64, reflect.Uint32, reflect.Uint16, reflect.Uint8, reflect.Uint:
		v.SetUint(uint64(*n) % 250)
	default:
		v.SetInt(int64(*n))
	}
	return v
}

// aFilledKey is a key that filled gave a map.
var aFilledKey = regexp.MustCompile(`^s\d+$`)

// later puts a field into each object that no cke of today knows.
func later(v any, n *int) any {
	switch v := v.(type) {
	case map[string]any:
		fields := false
		for name := range v {
			v[name] = later(v[name], n)
			fields = fields || !aFilledKey.MatchString(name)
		}
		if !fields { // a map of names to values is no object of cke's
			return v
		}
		*n++
		v["ofALaterCke"] = fmt.Sprint(*n)
		return v
	case []any:
		for i := range v {
			v[i] = later(v[i], n)
		}
	}
	return v
}

// documents are the keys of all that is read, changed and written back.
func documents(k schema) []string {
	return []string{k.spec("prod"), k.incarnation("prod"), k.freeze("prod"), k.authorities("prod"), k.join("prod", "j1"), k.record("prod", 7), k.specRevision("prod", 3),
		k.request("prod", requestReboots), k.request("prod", requestRepairs)}
}

// Whatever a later cke adds to a document, at any depth, survives that this one reads it and writes it back.
func TestCarry_KeepsEveryFieldOfALaterCke(t *testing.T) {
	for _, key := range documents(schema{"/cke/"}) {
		c, _ := schema{"/cke/"}.continues(key)
		n := 0
		plain, err := json.Marshal(filled(c.as, &n).Interface())
		if err != nil {
			t.Fatal(err)
		}
		var tree any
		if err := json.Unmarshal(plain, &tree); err != nil {
			t.Fatal(err)
		}
		added := 0
		stored, err := json.Marshal(later(tree, &added))
		if err != nil {
			t.Fatal(err)
		}
		known := reflect.New(c.as)
		if err := json.Unmarshal(stored, known.Interface()); err != nil {
			t.Fatal(key, err)
		}
		next, err := json.Marshal(known.Interface())
		if err != nil {
			t.Fatal(err)
		}
		got, more, err := carry(stored, next, c.as, c.same)
		if err != nil || !more {
			t.Fatal(key, more, err)
		}
		var want, is any
		if err := json.Unmarshal(stored, &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(got, &is); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, is); d != "" {
			t.Errorf("%s (-stored +written):\n%s", key, d)
		}
		t.Logf("%s: %d fields kept", key, added)
	}
}

// A document that takes the place of another one has nothing of it, and what was cleared stays so.
func TestCarry_LeavesOutWhatIsOver(t *testing.T) {
	as := reflect.TypeFor[cke.Incarnation]()
	if _, more, _ := carry([]byte(`{"id":"a","later":1}`), []byte(`{"id":"b"}`), as, "id"); more {
		t.Error("carried from one life to the next")
	}
	stored := `{"id":"a","founders":[{"id":"x","later":1},{"id":"y","later":2}],"restore":{"id":"r","later":3},"ID":"?","later":4}`
	got, _, err := carry([]byte(stored), []byte(`{"id":"a","founders":[{"id":"y"},{"id":"z"}]}`), as, "id")
	if err != nil || string(got) != `{"founders":[{"id":"y","later":2},{"id":"z"}],"id":"a","later":4}` {
		t.Errorf("%s, %v", got, err)
	}
}

// What a newer daemon has written is there after this one has led and written.
func TestTerm_KeepsWhatALaterDaemonHasWritten(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	spec := setCluster(t, s, "prod")
	term := campaign(t, s, "prod", "here")
	inc := cke.NewIncarnation(spec.Wanted(), nil, time.Now())
	if err := term.CreateIncarnation(ctx, inc); err != nil {
		t.Fatal(err)
	}
	j := inc.Founders[0]
	keys := []string{s.keys.spec("prod"), s.keys.incarnation("prod"), s.keys.join("prod", string(j.ID))}
	for _, key := range keys {
		resp, err := s.client.Get(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		newer := strings.TrimSuffix(string(resp.Kvs[0].Value), "}") + `,"ofALaterCke":{"fenced":true}}`
		if _, err := s.client.Put(ctx, key, newer); err != nil {
			t.Fatal(err)
		}
	}
	id, err := term.Identity(ctx)
	if err != nil {
		t.Fatal(err)
	}
	j, _ = id.Join(j.ID)
	j.MemberID = "8e9e05c52164694d"
	inc.State = cke.Formed
	for _, err := range []error{term.PutJoins(ctx, id, j), term.UpdateIncarnation(ctx, inc), s.RequestDelete(ctx, "prod", "me")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range keys {
		resp, err := s.client.Get(ctx, key)
		if err != nil || !strings.Contains(string(resp.Kvs[0].Value), `"ofALaterCke":{"fenced":true}`) {
			t.Errorf("%s: %v: %s", key, err, resp.Kvs[0].Value)
		}
	}
}
