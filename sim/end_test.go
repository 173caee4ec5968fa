package sim_test

import (
	"fmt"
	"slices"

	"cke"
)

// faults returns what keeps the world from being one formed cluster with members on exactly the nodes given: a running
// container and its volume on each, no other container of a lasting life running anywhere, and nothing of a life that was
// abandoned. What memberships that ended left is kept, as are volumes of a cluster that was deleted.
func (s *stage) faults(nodes ...string) []string {
	all := s.Violations()
	wrong := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	id := s.Store().Identity()
	inc := id.Incarnation
	if inc == nil || inc.State != cke.Formed || inc.ClusterID == "" || inc.FormedAt.IsZero() {
		wrong("the incarnation is not formed: %+v", inc)
		return all
	}
	if len(id.Joins) != len(nodes) {
		wrong("%d joins, not %d", len(id.Joins), len(nodes))
	}
	current := map[cke.JoinID]string{}
	peers := s.Peers()
	for _, j := range id.Joins {
		if peers[j.MemberID] != j.PeerURL() {
			wrong("etcd lists %s at %q, not %s", j.Node.Name(), peers[j.MemberID], j.PeerURL())
		}
		machine := s.MachineOf(j)
		current[j.ID] = machine.Name() // which may be declared under another name since
		if !slices.Contains(nodes, j.Node.Name()) && !slices.Contains(nodes, machine.Name()) || j.MemberID == "" || j.StartedAt.IsZero() {
			wrong("join %+v", j)
		}
		declared := s.Store().Spec().Wanted().Options.Etcd.PlacedAs(j.Etcd)
		if !j.Etcd.Equal(declared) {
			wrong("%s is to run with %+v, not %+v", j.Node.Name(), j.Etcd, declared)
		}
		discarded := declared
		if j.Made != nil {
			discarded.Resources = *j.Made
		}
		if made := machine.MadeWith(j.Volume); !made.Equal(declared) && !made.Equal(discarded) {
			wrong("the container on %s runs with %+v, not %+v", j.Node.Name(), made, declared)
		}
	}
	for _, a := range s.Alarms() {
		wrong("the alarm %s of %s stands", a.Kind, a.MemberID)
	}
	ended, gone := map[cke.JoinID]bool{}, s.Store().Gone()
	for _, j := range id.Ended {
		ended[j.ID] = true
	}
	for _, n := range s.Nodes() {
		serving := 0
		containers, volumes := n.Look()
		for _, c := range containers {
			switch {
			case current[c.Join] == n.Name() && c.State == cke.ContainerRunning:
				serving++
			case !ended[c.Join] || c.Running() || c.State == cke.ContainerRestarting:
				wrong("%s carries container %s of life %s, %s", n.Name(), c.Name, c.Incarnation, c.State)
			}
		}
		kept := 0
		for _, v := range volumes {
			switch {
			case current[v.Join] == n.Name():
				kept++
			case !ended[v.Join] && !slices.Contains(gone, v.Incarnation):
				wrong("%s carries volume %s of life %s", n.Name(), v.Name, v.Incarnation)
			}
		}
		want := 0
		if slices.Contains(nodes, n.Name()) {
			want = 1
		}
		if serving != want || kept != want {
			wrong("%s: %d members run and %d volumes are theirs, not %d", n.Name(), serving, kept, want)
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
