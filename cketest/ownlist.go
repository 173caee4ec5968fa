package cketest

import (
	"testing"

	"cke"
)

func ownListNeedsNoQuorum(t *testing.T, m Members) {
	ctx, url := bounded(t), m.URLs[0]
	id, all, err := m.Members(ctx, url)
	must(t, "Members", err)
	own := func() {
		t.Helper()
		of, list, err := m.Listed(ctx, url)
		if err != nil || of != id || list.Source != cke.MembersLocal || list.At == 0 || len(list.Members) != len(all) || list.Members[0].ID == "" || list.Members[0].Name == "" {
			t.Errorf("%q %+v %v", of, list, err)
		}
	}
	own()
	cut := func(off bool) {
		for _, other := range m.URLs[1:] {
			m.Cut(url, other, off)
		}
	}
	cut(true)
	await(t, "it serves no more", func() bool { return !m.Endpoint(ctx, url).Linearizable })
	own()
	cut(false)
	await(t, "it serves again", func() bool { return m.Endpoint(ctx, url).Linearizable })
	if _, _, err := m.Listed(ctx, m.NoMember); err == nil {
		t.Error("an address without a member returns no list")
	}
}
