package preflight

import (
	"strings"
	"testing"

	"cke"
)

// A machine that carries a membership of the cluster is fit only at another address of the same machine; what ended there is removed.
func TestFit_AMemberAtAnotherAddress(t *testing.T) {
	mine := cke.Node{Address: "10.0.0.13", Hostname: "cp3", ControlPlane: true}
	inc := &cke.Incarnation{ID: "this", State: cke.Formed}
	id := cke.NewIdentity(inc, []cke.Join{{ID: "j3", Incarnation: "this", Node: mine}, {ID: "j4", Incarnation: "this", Node: cke.Node{Address: "10.0.0.14", Hostname: "s4"}, EndedAt: inc.CreatedAt.AddDate(1, 0, 0)}})
	of := func(join cke.JoinID) func(*cke.NodeStatus) {
		return func(st *cke.NodeStatus) {
			st.Containers = []cke.Container{{Name: "cke-prod", Cluster: "prod", Incarnation: "this", Join: join, State: cke.ContainerRunning}}
		}
	}
	for name, c := range map[string]struct {
		declared cke.Node
		carries  func(*cke.NodeStatus)
		want     string
	}{
		"nothing":            {mine, func(*cke.NodeStatus) {}, ""},
		"a member of a node": {mine, of("j3"), "it carries the member of cp3"},
		"its data": {mine, func(st *cke.NodeStatus) {
			st.Volumes = []cke.Volume{{Name: "v", Cluster: "prod", Incarnation: "this", Join: "j3"}}
		}, "it carries the member of cp3"},
		"its own, by its host name":     {cke.Node{Address: mine.Address, Hostname: "s9"}, of("j3"), ""},
		"its own, by its serial":        {cke.Node{Address: mine.Address, Hostname: "cp3", Annotations: map[string]string{cke.AnnotationSerial: "s9"}}, of("j3"), ""},
		"a membership that ended":       {mine, of("j4"), ""},
		"a membership off the record":   {mine, of("j5"), "cke-prod is left there of a membership of prod that is not on record"},
		"a member of another cluster":   {mine, func(st *cke.NodeStatus) { st.Neighbors = []cke.Neighbor{{Cluster: "other"}} }, "it carries a member of cluster other"},
		"another etcd at etcd's ports":  {mine, func(st *cke.NodeStatus) { st.ClientPort = cke.PortOpen }, "client-port: 2379 is taken"},
		"no answer, and nothing of it":  {mine, func(st *cke.NodeStatus) { st.Problem = &cke.Problem{Message: "no answer"} }, "engine: no answer"},
		"a member of an abandoned life": {mine, func(st *cke.NodeStatus) { of("j0")(st); st.Containers[0].Incarnation = "that" }, ""},
	} {
		cluster, seen, keys, _ := lookedAt(t)
		id.Incarnation.Previous = []string{"that"}
		seen.Nodes = seen.Nodes[:1]
		st := &seen.Nodes[0]
		st.Node.Address, st.Node.Hostname = "10.0.9.9", "s9"
		cluster.Nodes = []cke.Node{st.Node}
		keys.Known["10.0.9.9"] = hostKeyLine
		c.carries(st)
		if got := unfit(cluster, id, []cke.Node{c.declared}, seen, keys)["10.0.9.9"]; got != c.want && (c.want == "" || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
