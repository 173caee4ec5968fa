package op_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"cke"
	"cke/op"
)

// usersOf is an etcd with these users, whose changes are noted. One that is lost is made, and its answer is not received.
type usersOf struct {
	cke.Etcd
	users cke.EtcdUsers
	did   *[]string
	lost  int
}

func (e usersOf) Users(context.Context, string) (cke.EtcdUsers, error) { return e.users, nil }

func (e usersOf) note(format string, args ...any) error {
	if *e.did = append(*e.did, fmt.Sprintf(format, args...)); len(*e.did) <= e.lost {
		return errors.New("no answer")
	}
	return nil
}

func (e usersOf) Permit(_ context.Context, _, name string, g cke.Grant) error {
	return e.note("permit %s %s", name, g)
}

func (e usersOf) Forbid(_ context.Context, _, name string, r cke.KeyRange) error {
	return e.note("forbid %s %s", name, r)
}

func (e usersOf) RemoveUser(_ context.Context, _, name string) error {
	return e.note("remove %s", name)
}

func TestChangeUser_ChangesTenantsAlone(t *testing.T) {
	of := func(prefix string) []cke.Grant { return []cke.Grant{cke.UserOrder{Prefix: prefix}.Grant()} }
	users := cke.EtcdUsers{
		Users: map[string][]string{"a": {"cke:a"}, "half": nil, "manual": {"reader"}, "bare": nil, "root": {"root"}},
		Roles: map[string][]cke.Grant{"cke:a": of("/a/"), "cke:half": of("/x/"), "cke:left": of("/left/"), "reader": of("/")},
	}
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		for _, row := range []struct {
			order cke.UserOrder
			did   string
			want  string // in the refusal; empty: none
		}{
			{cke.UserOrder{Action: "add", Name: "b", Prefix: "/b/"}, "permit b prefix /b/ (read, write)", ""},
			{cke.UserOrder{Action: "add", Name: "b", Key: "k", ReadOnly: true}, "permit b key k (read)", ""},
			{cke.UserOrder{Action: "add", Name: "a", Prefix: "/a/"}, "permit a prefix /a/ (read, write)", ""}, // as it is
			{cke.UserOrder{Action: "add", Name: "a", Prefix: "/a/", ReadOnly: true}, "", "user a exists"},
			{cke.UserOrder{Action: "add", Name: "a", Prefix: "/b/"}, "", "user a exists"},
			{cke.UserOrder{Action: "add", Name: "b", Prefix: "/a/b/"}, "", "has keys that other tenants use"},
			{cke.UserOrder{Action: "add", Name: "b", Prefix: "/a/b/", Shared: true}, "permit b prefix /a/b/ (read, write)", ""},
			{cke.UserOrder{Action: "add", Name: "half", Prefix: "/half/"}, "forbid half prefix /x/; permit half prefix /half/ (read, write)", ""},
			{cke.UserOrder{Action: "add", Name: "left", Prefix: "/b/"}, "forbid left prefix /left/; permit left prefix /b/ (read, write)", ""},
			{cke.UserOrder{Action: "add", Name: "manual", Prefix: "/b/"}, "", "does not manage"},
			{cke.UserOrder{Action: "add", Name: "bare", Prefix: "/b/"}, "", "does not manage"},
			{cke.UserOrder{Action: "grant", Name: "a", Prefix: "/b/"}, "permit a prefix /b/ (read, write)", ""},
			{cke.UserOrder{Action: "grant", Name: "a", Prefix: "/left/"}, "", "has keys that other tenants use"},
			{cke.UserOrder{Action: "grant", Name: "b", Prefix: "/b/"}, "", "no user b"},
			{cke.UserOrder{Action: "grant", Name: "manual", Prefix: "/b/"}, "", "does not manage"},
			{cke.UserOrder{Action: "revoke", Name: "a", Prefix: "/a/"}, "forbid a prefix /a/", ""},
			{cke.UserOrder{Action: "revoke", Name: "a", Prefix: "/a"}, "", "no grant of exactly prefix /a"},
			{cke.UserOrder{Action: "remove", Name: "a"}, "remove a", ""},
			{cke.UserOrder{Action: "remove", Name: "half"}, "remove half", ""},
			{cke.UserOrder{Action: "remove", Name: "left"}, "remove left", ""},
			{cke.UserOrder{Action: "remove", Name: "b"}, "", "no user b"},
			{cke.UserOrder{Action: "remove", Name: "manual"}, "", "does not manage"},
		} {
			for lost := range 2 {
				var did []string
				_, err := w.runIn(func(e op.Env) op.Env { e.Etcd = usersOf{e.Etcd, users, &did, lost}; return e }, op.ChangeUser{Order: row.order})
				if (err != nil) != (row.want != "") || err != nil && (cke.CodeOf(err) != cke.CodeUser || !strings.Contains(err.Error(), row.want)) {
					t.Errorf("%+v: %v, want %q", row.order, err, row.want)
				}
				want := row.did
				if first, _, _ := strings.Cut(row.did, "; "); lost > 0 && first != "" {
					want = first + "; " + row.did // again through the next member
				}
				if got := strings.Join(did, "; "); got != want {
					t.Errorf("%+v: %s, want %s", row.order, got, want)
				}
			}
		}
	})
}

// What one daemon has left half done is done by the next one, or by the same order given again.
func TestChangeUser_MayBeRepeated(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		add := op.ChangeUser{Order: cke.UserOrder{Action: cke.UserAdd, Name: "a", Prefix: "/a/"}}
		w.AddUserManually("manual")
		for range 2 {
			w.mustRun(add)
			u := w.EtcdUsers()
			if _, whole := u.Tenant("a"); !whole || !slices.Equal(u.Roles["cke:a"], []cke.Grant{add.Order.Grant()}) {
				t.Errorf("%+v", u)
			}
		}
		w.mustRun(op.ChangeUser{Order: cke.UserOrder{Action: cke.UserRemove, Name: "a"}})
		if u := w.EtcdUsers(); len(u.Users) != 1 || len(u.Roles) != 1 {
			t.Errorf("%+v", u)
		}
	})
}
