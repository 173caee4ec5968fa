package sim_test

import (
	"fmt"
	"slices"

	"cke"
)

// faults returns what keeps the world from being one formed cluster on exactly the nodes given, with nothing left over.
func (s *stage) faults(nodes ...string) []string {
	all := s.Violations()
	wrong := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	id := s.Store().Identity()
	inc := id.Incarnation
	if inc == nil || inc.State != cke.Formed || inc.ClusterID == "" || inc.FormedAt.IsZero() {
		wrong("the incarnation is not formed: %+v", inc)
		return all
	}
	if len(id.Joins) != len(nodes) || len(inc.Founders) != len(nodes) {
		wrong("%d joins and %d founders, not %d", len(id.Joins), len(inc.Founders), len(nodes))
	}
	for _, j := range id.Joins {
		if !slices.Contains(nodes, j.Node.Name()) || j.MemberID == "" || j.StartedAt.IsZero() {
			wrong("join %+v", j)
		}
	}
	for _, n := range s.Nodes() {
		containers, volumes := n.Look()
		want := 0
		if slices.Contains(nodes, n.Name()) {
			want = 1
		}
		if len(containers) != want || len(volumes) != want {
			wrong("%s carries %d containers and %d volumes, not %d", n.Name(), len(containers), len(volumes), want)
			continue
		}
		if want == 1 && (containers[0].State != cke.ContainerRunning || containers[0].Incarnation != inc.ID || volumes[0].Incarnation != inc.ID) {
			wrong("%s carries %+v and %+v", n.Name(), containers[0], volumes[0])
		}
	}
	return all
}

// everyNode names all nodes.
func (s *stage) everyNode() []string {
	var names []string
	for _, n := range s.Nodes() {
		names = append(names, n.Name())
	}
	return names
}
