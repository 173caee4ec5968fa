package etcdnode

import (
	"fmt"
	"testing"
	"time"

	"cke"
)

// Requirement N1: containers are found by their labels whatever they are called, and etcds of others by their image or
// by a name that ours would have; nothing else on a node concerns us.
func TestScope_FindsContainersByLabel(t *testing.T) {
	sc := scope{cluster: "demo", volumeName: "etcd-cke", image: "registry.example/team/etcd:v3.6.16"}
	for name, tt := range map[string]struct {
		c    cke.Container
		want bool
	}{
		"ours under any name":         {cke.Container{Name: "renamed", Image: "sha256:0123", Cluster: "demo"}, true},
		"of another cluster of cke's": {cke.Container{Name: "x", Cluster: "other"}, true},
		"named as ours would be":      {cke.Container{Name: "etcd-cke.0123", Image: "busybox"}, true},
		"another's etcd":              {cke.Container{Name: "x", Image: "quay.io/coreos/etcd:v3.5.9"}, true},
		"of the cluster's image":      {cke.Container{Name: "x", Image: "registry.example/team/etcd@sha256:0123"}, true},
		"anything else":               {cke.Container{Name: "nginx", Image: "nginx:1.27"}, false},
		"our program on a visit":      {cke.Container{Name: visitPrefix + "0123", Image: "registry.example/team/etcd:v3.6.16"}, false},
		"a tool beside etcd":          {cke.Container{Name: "x", Image: "example.org/etcd-browser:1"}, false},
	} {
		if got := sc.carriesEtcd(tt.c); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Events of volumes show no labels: those of marks are found by their names.
func TestFollow_HearsOfMarks(t *testing.T) {
	node := newFakeNode(t, "127.0.61.9", "ed25519", "ed25519")
	fleet := fleetOf(t, newMemoryHostKeys(), nil, node)
	fleet.Update(clusterOf(node), cke.Identity{})
	awaitProblem(t, fleet, "", patience)
	cluster := fleet.currentScope().cluster
	for name, heard := range map[string]bool{marksPrefix(cluster) + "0123": true, marksPrefix("other") + "0123": false, "web": false} {
		quiet := func() bool {
			select {
			case <-fleet.Changed():
				return false
			case <-time.After(200 * time.Millisecond):
				return true
			}
		}
		for !quiet() {
		}
		node.engine.events <- fmt.Sprintf(`{"Type":"volume","Action":"destroy","Actor":{"ID":%q,"Attributes":{"driver":"local"}}}`, name)
		if quiet() == heard {
			t.Errorf("%s: heard %v", name, !heard)
		}
	}
}
