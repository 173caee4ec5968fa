package cke_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cke"
)

func TestUserOrder_SaysWhatIsWrong(t *testing.T) {
	for _, row := range []struct {
		order cke.UserOrder
		want  string // empty: nothing
	}{
		{cke.UserOrder{Action: "add", Name: "app", Prefix: "/app/"}, ""},
		{cke.UserOrder{Action: "grant", Name: "app", Key: "compact_rev_key", ReadOnly: true}, ""},
		{cke.UserOrder{Action: "remove", Name: "app"}, ""},
		{cke.UserOrder{Action: "add", Name: "app"}, "such as /app/"},
		{cke.UserOrder{Action: "add", Name: "app", Prefix: "/"}, "such as /app/"},
		{cke.UserOrder{Action: "add", Name: "app", Prefix: "/a/", Key: "b"}, "one of prefix and key"},
		{cke.UserOrder{Action: "remove", Name: "app", Prefix: "/a/"}, "remove takes none"},
		{cke.UserOrder{Action: "add", Name: "cke", Prefix: "/a/"}, "reserved"},
		{cke.UserOrder{Action: "remove", Name: "root"}, "reserved"},
		{cke.UserOrder{Action: "add", Name: "../app", Prefix: "/a/"}, "invalid name"},
		{cke.UserOrder{Action: "add", Name: "ca", Prefix: "/a/"}, "invalid name"},
		{cke.UserOrder{Action: "add", Name: "app", Prefix: "/a\n"}, "control"},
		{cke.UserOrder{Action: "add", Name: "app", Prefix: "/\xff"}, "text"},
		{cke.UserOrder{Action: "add", Name: "app", Prefix: strings.Repeat("a", 513)}, "512"},
		{cke.UserOrder{Action: "dance", Name: "app", Prefix: "/a/"}, "dance"},
	} {
		err := row.order.Check()
		if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%+v: %v, want %q", row.order, err, row.want)
		}
	}
}

// has reports whether a range has a key, as etcd defines it.
func has(r cke.KeyRange, key string) bool {
	switch r.End {
	case "":
		return key == r.Key
	case "\x00":
		return key >= r.Key
	}
	return key >= r.Key && key < r.End
}

func TestKeyRange_OverlapsWhereBothHaveAKey(t *testing.T) {
	t.Parallel()
	word := rapid.StringMatching(`[abé]{1,3}`)
	some := rapid.Custom(func(t *rapid.T) cke.KeyRange {
		switch k := word.Draw(t, "key"); rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			return cke.KeyRange{Key: k}
		case 1:
			return cke.KeyRange{Key: k, End: "\x00"}
		case 2:
			return cke.KeyRange{Key: k, End: k + word.Draw(t, "end")}
		default:
			return cke.PrefixRange(k)
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := some.Draw(t, "a"), some.Draw(t, "b")
		if a.Overlaps(b) != b.Overlaps(a) || a.Overlaps(b) != (has(a, b.Key) || has(b, a.Key)) { // two ranges that overlap have the later start in both
			t.Fatalf("%v and %v: %v, %v", a, b, a.Overlaps(b), b.Overlaps(a))
		}
		prefix, key := word.Draw(t, "prefix"), word.Draw(t, "other")
		if has(cke.PrefixRange(prefix), key) != strings.HasPrefix(key, prefix) {
			t.Fatalf("prefix %s and %s", prefix, key)
		}
	})
}

func TestEtcdUsers_KnowsTenantsAndWhatTheyShare(t *testing.T) {
	u := cke.EtcdUsers{
		Users: map[string][]string{"a": {"cke:a", "more"}, "half": nil, "manual": {"reader"}, "bare": nil, "root": {"root"}},
		Roles: map[string][]cke.Grant{"cke:a": {{KeyRange: cke.PrefixRange("/a/")}, {KeyRange: cke.KeyRange{Key: "k"}}}, "cke:half": nil, "reader": {{KeyRange: cke.KeyRange{Key: "\x00", End: "\x00"}}}, "cke:left": nil, "cke:manual": nil},
	}
	for name, want := range map[string][2]bool{"a": {true, true}, "half": {true, false}, "manual": {}, "bare": {}, "left": {}, "root": {}} {
		if managed, whole := u.Tenant(name); managed != want[0] || whole != want[1] {
			t.Errorf("%s: %v, %v", name, managed, whole)
		}
	}
	for _, row := range []struct {
		name string
		r    cke.KeyRange
		want string
	}{
		{"b", cke.PrefixRange("/"), "a: prefix /a/"},
		{"b", cke.PrefixRange("/a/b/"), "a: prefix /a/"},
		{"b", cke.KeyRange{Key: "k"}, "a: key k"},
		{"b", cke.PrefixRange("/b/"), ""},
		{"b", cke.PrefixRange("/a0"), ""},
		{"a", cke.PrefixRange("/a/"), ""},
		{"b", cke.KeyRange{Key: "\x00", End: "\x00"}, "a: key k, a: prefix /a/"},
	} {
		if got := strings.Join(u.Sharing(row.name, row.r), ", "); got != row.want {
			t.Errorf("%s, %s: %q, want %q", row.name, row.r, got, row.want)
		}
	}
}

func TestKeyRange_NamesWhatEtcdMayHave(t *testing.T) {
	for _, row := range []struct {
		r    cke.KeyRange
		want string
	}{
		{cke.PrefixRange("/a/"), "prefix /a/"},
		{cke.KeyRange{Key: "a"}, "key a"},
		{cke.KeyRange{End: "\x00"}, "every key"},
		{cke.KeyRange{Key: "a", End: "\x00"}, `from "a" on`},
		{cke.KeyRange{Key: "a", End: "c"}, `from "a" up to "c"`},
		{cke.KeyRange{End: "c"}, `from "" up to "c"`}, // as other tools may grant
	} {
		if got := row.r.String(); got != row.want {
			t.Errorf("%+v: %s", row.r, got)
		}
	}
}
