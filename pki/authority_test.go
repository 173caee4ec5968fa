package pki_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cke"
	"cke/pki"
)

func TestEnsure_MakesThreeCAsOnceAndKeepsThem(t *testing.T) {
	a, m, c := newAuthority()
	ctx := t.Context()
	for range 3 {
		if err := a.Ensure(ctx, cke.Authorities{}); err != nil {
			t.Fatal(err)
		}
	}
	if m.creates != 3 {
		t.Errorf("made %d CAs, want 3", m.creates)
	}
	first, err := a.CAs(ctx, cke.Authorities{})
	if err != nil {
		t.Fatal(err)
	}
	second, err := pki.New(m, "prod", c.Now).CAs(ctx, cke.Authorities{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, second); diff != "" {
		t.Error(diff)
	}
	var names []string
	for _, ca := range first {
		names = append(names, string(ca.Name))
		if years := ca.NotAfter.Sub(c.Now()).Hours() / 24 / 365; years < 9.9 || years > 10.1 {
			t.Errorf("the %s CA holds for %.1f years", ca.Name, years)
		}
		if len(ca.Fingerprint) != 64 {
			t.Errorf("fingerprint %q", ca.Fingerprint)
		}
	}
	if diff := cmp.Diff([]string{"peer", "server", "client"}, names); diff != "" {
		t.Error(diff)
	}
}

func TestEnsure_ConcurrentAuthoritiesShareOneSetOfCAs(t *testing.T) {
	m, c := newMemory(), newClock()
	m.late = make(chan struct{})
	const n = 8
	authorities := make([]*pki.Authority, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range authorities {
		authorities[i] = pki.New(m, "prod", c.Now)
		wg.Go(func() { errs[i] = authorities[i].Ensure(t.Context(), cke.Authorities{}) })
	}
	time.Sleep(20 * time.Millisecond) // by now all have seen that there is no CA
	close(m.late)
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if m.creates != 3 {
		t.Errorf("stored %d CAs, want 3", m.creates)
	}
	want := filesByPath(t, authorities[0], "10.0.0.11", "cp1")
	for _, a := range authorities[1:] {
		got := filesByPath(t, a, "10.0.0.11", "cp1")
		for _, path := range []string{cke.PeerCAFile, cke.ServerCAFile, cke.ClientCAFile} {
			if !bytes.Equal(want[path].Data, got[path].Data) {
				t.Errorf("%s differs between two authorities of one store", path)
			}
		}
	}
}

func TestAuthority_ReadsInOneRound(t *testing.T) {
	a, m, c := newAuthority()
	if err := a.Ensure(t.Context(), cke.Authorities{}); err != nil {
		t.Fatal(err)
	}
	m.reads, m.late = 0, make(chan struct{})
	done := make(chan error)
	go func() {
		_, err := pki.New(m, "prod", c.Now).MemberFiles(t.Context(), join("10.0.0.11", "cp1"), cke.Authorities{})
		done <- err
	}()
	for reads := 0; reads < 3; time.Sleep(time.Millisecond) { // all are asked for before one has answered
		m.mu.Lock()
		reads = m.reads
		m.mu.Unlock()
	}
	close(m.late)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestAuthority_DamagedCAIsToldAndNeverReplaced(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"empty":            func([]byte) []byte { return nil },
		"cut off":          func(b []byte) []byte { return b[:len(b)-30] },
		"garbage":          func([]byte) []byte { return []byte("not PEM at all") },
		"key missing":      func(b []byte) []byte { return b[:bytes.Index(b, []byte("-----BEGIN PRIVATE"))] },
		"twice":            func(b []byte) []byte { return append(bytes.Clone(b), b...) },
		"certificate bent": func(b []byte) []byte { return bytes.Replace(b, []byte("MII"), []byte("MIJ"), 1) },
	} {
		t.Run(name, func(t *testing.T) {
			a, m, c := newAuthority()
			if err := a.Ensure(t.Context(), cke.Authorities{}); err != nil {
				t.Fatal(err)
			}
			m.values["pki/server-ca"] = damage(m.values["pki/server-ca"])
			kept := bytes.Clone(m.values["pki/server-ca"])
			fresh := pki.New(m, "prod", c.Now)
			for call, err := range map[string]error{
				"Ensure":      fresh.Ensure(t.Context(), cke.Authorities{}),
				"MemberFiles": second(fresh.MemberFiles(t.Context(), join("10.0.0.11", "cp1"), cke.Authorities{})),
				"ClientTLS":   second(fresh.ClientTLS(t.Context(), cke.Authorities{})),
				"CAs":         second(fresh.CAs(t.Context(), cke.Authorities{})),
			} {
				if err == nil || errors.Is(err, cke.ErrNotFound) {
					t.Errorf("%s: got %v, want damage told", call, err)
					continue
				}
				if !bytes.Contains([]byte(err.Error()), []byte("the server CA of prod is damaged")) {
					t.Errorf("%s: %v", call, err)
				}
			}
			if !bytes.Equal(kept, m.values["pki/server-ca"]) || m.creates != 3 {
				t.Error("a damaged CA was replaced")
			}
		})
	}
}

func TestAuthority_SwappedKeyIsTold(t *testing.T) {
	a, m, _ := newAuthority()
	if err := a.Ensure(t.Context(), cke.Authorities{}); err != nil {
		t.Fatal(err)
	}
	cut := []byte("-----BEGIN PRIVATE")
	cert, _, _ := bytes.Cut(m.values["pki/peer-ca"], cut)
	_, key, _ := bytes.Cut(m.values["pki/client-ca"], cut)
	m.values["pki/peer-ca"] = append(append(bytes.Clone(cert), cut...), key...)
	if err := a.Ensure(t.Context(), cke.Authorities{}); err == nil || !bytes.Contains([]byte(err.Error()), []byte("the key does not belong to the certificate")) {
		t.Errorf("got %v", err)
	}
}

func TestAuthority_StoreTroublePassesThrough(t *testing.T) {
	a, m, _ := newAuthority()
	m.fail = &cke.Error{Code: cke.CodeSecret, What: "the seal does not open"}
	if err := a.Ensure(t.Context(), cke.Authorities{}); cke.CodeOf(err) != cke.CodeSecret {
		t.Errorf("got %v", err)
	}
	m.fail = nil
	if err := a.Ensure(t.Context(), cke.Authorities{}); err != nil {
		t.Errorf("after the trouble: %v", err)
	}
}

func TestAuthority_GoesOnWithKnownCAsWhileTheStoreIsAway(t *testing.T) {
	a, m, c := newAuthority()
	if err := a.Ensure(t.Context(), cke.Authorities{}); err != nil {
		t.Fatal(err)
	}
	c.Move(time.Hour)
	m.fail = &cke.Error{Code: cke.CodeStore, What: "the store does not answer"}
	if _, err := a.ClientTLS(t.Context(), cke.Authorities{}); err != nil {
		t.Errorf("a store that is away: %v", err)
	}
	c.Move(time.Hour)
	m.fail = &cke.Error{Code: cke.CodeSecret, What: "the seal does not open"}
	if _, err := a.ClientTLS(t.Context(), cke.Authorities{}); cke.CodeOf(err) != cke.CodeSecret {
		t.Errorf("a seal that does not open: %v", err)
	}
}

func TestAuthority_DeletedCAsAreNotMadeAgainByTheWay(t *testing.T) {
	a, m, c := newAuthority()
	if err := a.Ensure(t.Context(), cke.Authorities{}); err != nil {
		t.Fatal(err)
	}
	clear(m.values)
	c.Move(time.Hour)
	if _, err := a.ClientTLS(t.Context(), cke.Authorities{}); !errors.Is(err, cke.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
	if len(m.values) != 0 {
		t.Error("CAs of a deleted cluster were made again")
	}
	if err := a.Ensure(t.Context(), cke.Authorities{}); err != nil { // the cluster is made again under the same name
		t.Fatal(err)
	}
	if _, err := a.ClientTLS(t.Context(), cke.Authorities{}); err != nil {
		t.Error(err)
	}
}

func TestServerCA_MakesNone(t *testing.T) {
	a, m, _ := newAuthority()
	if _, err := a.ServerCA(t.Context(), cke.Authorities{}); !errors.Is(err, cke.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	if cas, err := a.CAs(t.Context(), cke.Authorities{}); err != nil || len(cas) != 0 {
		t.Errorf("got %v, %v", cas, err)
	}
	if m.creates != 0 {
		t.Error("asking made a CA")
	}
}

func TestAuthority_GivesUpWaitingWhenTheContextEnds(t *testing.T) {
	a, m, _ := newAuthority()
	m.late = make(chan struct{})
	blocked := make(chan error)
	go func() { blocked <- a.Ensure(t.Context(), cke.Authorities{}) }()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := a.ClientTLS(ctx, cke.Authorities{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	close(m.late)
	if err := <-blocked; err != nil {
		t.Error(err)
	}
}

func second[T any](_ T, err error) error { return err }

func filesByPath(t *testing.T, a *pki.Authority, address, hostname string) map[string]cke.File {
	t.Helper()
	files, err := a.MemberFiles(t.Context(), join(address, hostname), cke.Authorities{})
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]cke.File{}
	for _, f := range files {
		m[f.Path] = f
	}
	return m
}
