package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"cke"
	"cke/plan"
)

// imported is an old cluster of three members on machines that cke does not reach, none of cke's beside them yet.
func imported() *scene {
	s := founded(3, "3.6.16")
	old := &cke.Import{PlainPeers: true}
	s.Identity.Joins, s.Identity.Incarnation.Founders, s.Identity.Incarnation.Import = nil, nil, old
	for i := range s.Seen.Nodes {
		s.Seen.Nodes[i].Containers, s.Seen.Nodes[i].Volumes = nil, nil
		s.Seen.Nodes[i].ClientPort, s.Seen.Nodes[i].PeerPort = cke.PortClosed, cke.PortClosed
	}
	for i := range 3 {
		m, e := &s.Seen.Etcd.Members[i], &s.Seen.Etcd.Endpoints[i]
		url := fmt.Sprintf("http://10.0.9.%d:2379", i+1)
		m.Name, m.PeerURLs, m.ClientURLs = fmt.Sprintf("old%d", i+1), []string{fmt.Sprintf("http://10.0.9.%d:2380", i+1)}, []string{url}
		e.Join, e.URL = "", url
		old.Members = append(old.Members, cke.OldMember{ID: m.ID, Name: m.Name, URL: url})
	}
	return s
}

// `ckecli plan` shows the rest of an import, to its end.
func TestPlan_OfAnImport(t *testing.T) {
	p := plan.Make(t.Context(), imported().Input)
	var names []string
	for _, step := range p.Steps {
		names = append(names, step.Operation)
	}
	want := strings.Fields("add-member promote-member add-member promote-member add-member promote-member remove-member remove-member remove-member end-import change-address change-address change-address")
	if !slices.Equal(names, want) {
		t.Errorf("%v\n%s", names, written(p))
	}
}
