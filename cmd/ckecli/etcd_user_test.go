package main

import (
	"slices"
	"testing"

	"cke"
)

func TestUser_AsksTheLeaderForWhatIsValid(t *testing.T) {
	h := declared(t)
	l := h.lead("prod")
	h.form(l)
	for _, args := range [][]string{{"add", "app"}, {"add", "app", "--prefix", "/"}, {"add", "root", "--prefix", "/a/"}, {"add", "cke", "--prefix", "/a/"},
		{"add", "app", "--prefix", "/a/", "--key", "b"}, {"grant", "../app", "--prefix", "/a/"}, {"revoke", "app"}} {
		_, stderr := h.run(exitUsage, append([]string{"etcd", "user"}, args...)...)
		contains(t, stderr, "Try: ckecli etcd user "+args[0]+" --help")
	}
	h.run(exitRefused, "etcd", "user", "remove", "app") // not confirmed
	h.run(exitDone, "etcd", "user", "add", "app", "--prefix", "/app/", "--no-wait")
	h.run(exitDone, "etcd", "user", "grant", "app", "--key", "k", "--read-only", "--shared", "--no-wait")
	h.run(exitDone, "etcd", "user", "remove", "app", "--yes", "--no-wait")
	requests, err := h.store.RequestsOf(h.ctx(), "prod")
	if err != nil {
		t.Fatal(err)
	}
	var got []cke.UserOrder
	for _, task := range requests.Tasks {
		got = append(got, *task.User)
	}
	want := []cke.UserOrder{{Action: "add", Name: "app", Prefix: "/app/"}, {Action: "grant", Name: "app", Key: "k", ReadOnly: true, Shared: true}, {Action: "remove", Name: "app"}}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestUser_ListHasWhatEachMayUse(t *testing.T) {
	all := listUsers(cke.EtcdUsers{
		Users: map[string][]string{"app": {"cke:app"}, "root": {"root"}, "cke": {"root"}, "manual": nil},
		Roles: map[string][]cke.Grant{"cke:app": {{KeyRange: cke.PrefixRange("/app/"), Read: true}}},
	})
	var text []string
	for _, l := range all {
		line := l.Name + " " + l.Manager
		for _, g := range l.Grants {
			line += ": " + g.what.String()
		}
		text = append(text, line)
	}
	if want := []string{"app cke: prefix /app/ (read)", "cke cke: every key (read, write)", "manual ", "root : every key (read, write)"}; !slices.Equal(text, want) {
		t.Errorf("got %q, want %q", text, want)
	}
}
