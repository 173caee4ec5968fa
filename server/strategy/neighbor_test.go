package strategy_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// beside lets another cluster have ports on a node; nothing listens on them.
func beside(ports ...int) func(n *cke.NodeStatus) {
	return func(n *cke.NodeStatus) { n.Neighbors = []cke.Neighbor{{Cluster: "other", Ports: ports}} }
}

// The ports of another cluster on the node are taken also while its member does not run.
func TestDecide_TakesNoPortsOfANeighbor(t *testing.T) {
	all := func(s *scene, set func(*cke.NodeStatus)) *scene {
		for i := range s.Seen.Nodes {
			set(&s.Seen.Nodes[i])
		}
		return s
	}
	ported := func(s *scene) *scene {
		s.Spec.Options.Etcd.ClientPort, s.Spec.Options.Etcd.PeerPort = 3379, 3380
		return s
	}
	listens := all(ported(formed(3).running()), func(n *cke.NodeStatus) { n.ClientPort, n.PeerPort = cke.PortClosed, cke.PortOpen })
	moved := formed(3).running().with(func(s *scene) {
		s.Spec.Nodes[1].Address = "10.0.9.2"
		there := *s.node(2)
		there.Node.Address = "10.0.9.2"
		beside(2379)(&there)
		s.Seen.Nodes = append(s.Seen.Nodes, there)
	})
	check(t, []row{
		{"bootstrap", all(blank(3), beside(2379, 2380)), nil, "bootstrap waits for n1, n2, n3", []string{"CKE208 n1", "CKE208 n2", "CKE208 n3"}},
		{"bootstrap, of the peer port alone", all(blank(1), beside(9999, 2380)), nil, "bootstrap waits for n1", []string{"CKE208 n1"}},
		{"bootstrap beside other ports", all(blank(3), beside(3379, 3380)), blank(3).bootstrap(false), "free of data", nil},
		{"an addition", formed(4).unjoined(4).running().with(func(s *scene) { beside(2380)(s.node(4)) }), nil, "port 2380 belongs to the member of cluster other, whether it runs or not", []string{"CKE208 n4"}},
		{"a change of ports", all(ported(formed(3).running()), beside(3379)), nil, "n2 is declared with ports 3379 and 3380 instead of 2379 and 2380, and its member cannot move there: port 3379 belongs to the member of cluster other", []string{"CKE208 n2"}},
		{"a change to ports that something listens on", listens, nil, "something listens on port 3380", []string{"CKE208 n2"}},
		{"a change of address", moved, nil, "its member cannot move there: port 2379 belongs to the member of cluster other", []string{"CKE208 n2"}},
	})
	restore := all(formed(3), beside(2379))
	restore.Requests.Tasks = []cke.Task{{ID: "t1", Kind: cke.TaskRestore, At: noon, Restore: &cke.RestoreOrder{Target: "file:///x"}}}
	if o, refused := strategy.Decide(restore.Input).Operation.(op.Refuse); !refused || o.Why.Code != cke.CodePortTaken {
		t.Errorf("a restore: %+v", strategy.Decide(restore.Input))
	}
}

// What is kept of other clusters on the nodes is who has which port: a few bytes each, the same whatever their members do.
func TestReport_KeepsLittleOfNeighbors(t *testing.T) {
	report := func(state cke.ContainerState, clusters int) string {
		s := formed(3)
		for i := range s.Seen.Nodes {
			n := &s.Seen.Nodes[i]
			found := n.Containers
			for c := range clusters {
				found = append(found, cke.Container{ID: strings.Repeat("0123456789abcdef", 4), Name: fmt.Sprintf("etcd-cke.%d", c), State: state, Cluster: fmt.Sprintf("cluster-%02d", c),
					Place: fmt.Sprintf("https://%s:%d https://%s:%d", n.Node.Address, 3000+2*c, n.Node.Address, 3001+2*c)})
			}
			n.Containers, n.Neighbors = cke.SplitNeighbors("demo", found)
		}
		b, err := json.Marshal(strategy.Report(s.Input, strategy.Decide(s.Input), cke.Status{}))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	alone, many := report(cke.ContainerRunning, 0), report(cke.ContainerRunning, 50)
	if each := (len(many) - len(alone)) / (3 * 50); each > 60 {
		t.Errorf("%d bytes for each cluster and node", each)
	}
	if many != report(cke.ContainerExited, 50) {
		t.Error("it changes when members of other clusters stop")
	}
}
