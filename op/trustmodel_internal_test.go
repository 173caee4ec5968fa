package op

import (
	"fmt"
	"slices"
	"testing"

	"cke"
)

type modelState struct {
	all     cke.Authorities
	members [2]cke.CertificateFiles
}

func modelCA(n cke.AuthorityName, g int) cke.CA {
	return cke.CA{Generation: g, Fingerprint: fmt.Sprintf("%s-%d", n, g)}
}

func (s modelState) key() string {
	t := ""
	for _, n := range cke.AuthorityNames() {
		r := s.all.Of(n)
		t += fmt.Sprint(r.Current.Generation, r.Phase, "|")
	}
	for _, m := range s.members {
		t += fmt.Sprint(m.PeerCAs, m.ClientCAs, m.PeerSigner, m.ServerSigner)
	}
	return t
}

func holds(m cke.CertificateFiles) bool {
	return slices.Contains(m.PeerCAs, m.PeerSigner) && slices.Contains(m.ClientCAs, m.ServerSigner)
}

// Whatever authorities are replaced together, and wherever writes are cut off, no write is refused.
func TestKeepsTrust_RefusesNothingOfAReplacement(t *testing.T) {
	var first modelState
	for _, n := range cke.AuthorityNames() {
		first.all = first.all.With(n, cke.AuthorityRecord{Current: modelCA(n, 0)})
	}
	whole := []cke.File{{Path: cke.PeerCAFile}, {Path: cke.PeerCertFile}, {Path: cke.ClientCAFile}, {Path: cke.ServerCertFile}}
	bundles := []cke.File{{Path: cke.PeerCAFile}, {Path: cke.ClientCAFile}}
	for i := range first.members {
		first.members[i] = asOf(first.all, cke.CertificateFiles{}, whole)
	}
	seen := map[string]bool{first.key(): true}
	queue := []modelState{first}
	refusals := map[string]int{}
	for len(queue) > 0 && len(seen) < 400000 {
		s := queue[0]
		queue = queue[1:]
		push := func(n modelState) {
			if k := n.key(); !seen[k] {
				seen[k] = true
				queue = append(queue, n)
			}
		}
		for _, name := range cke.AuthorityNames() {
			r := s.all.Of(name)
			n := s
			if r.Next == nil {
				if r.Current.Generation < 1 {
					next := modelCA(name, r.Current.Generation+1)
					r.Next, r.Phase = &next, cke.AuthorityIntroduced
					n.all = s.all.With(name, r)
					push(n)
				}
				continue
			}
			fit := true
			for _, m := range s.members {
				fit = fit && holds(m) && Unfit(s.all, name, m) == ""
			}
			if fit {
				switch r.Phase {
				case cke.AuthorityIntroduced:
					r.Phase = cke.AuthorityIssues
				case cke.AuthorityIssues:
					r.Phase = cke.AuthorityWithdrawn
				case cke.AuthorityWithdrawn:
					r.Phase, r.Current, r.Next = cke.AuthoritySteady, *r.Next, nil
				}
				n.all = s.all.With(name, r)
				push(n)
			}
		}
		for i, m := range s.members {
			other := s.members[1-i]
			for _, files := range [][]cke.File{whole, bundles} {
				after := asOf(s.all, m, files)
				if holds(m) {
					if name := takenBack(s.all, m, after); name != "" {
						refusals["taken back "+string(name)]++
						if refusals["taken back "+string(name)] < 3 {
							t.Errorf("%s: %+v\n%+v\n→ %+v", name, s.all, m, after)
						}
						continue
					}
					if holds(other) && trustEachOther(m, other) && !trustEachOther(after, other) {
						refusals["trust"]++
						if refusals["trust"] < 3 {
							t.Errorf("trust: %+v\n%+v\n→ %+v\nother %+v", s.all, m, after, other)
						}
						continue
					}
				}
				for k := 1; k <= len(files); k++ {
					n := s
					n.members[i] = asOf(s.all, m, files[:k])
					push(n)
				}
			}
		}
	}
	t.Log(len(seen), "states", refusals)
}
