package plan_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/quorum"
	"cke/server/strategy"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// scene is an observed cluster with what is wanted of it; nodes are cp1… at 10.0.0.1….
type scene struct{ strategy.Input }

// founded is a cluster of n members that all serve; cp1 leads.
func founded(n int, version string) *scene {
	s := unfounded(n)
	s.Spec.Options.Etcd = cke.EtcdOptions{Version: version}
	s.Spec = s.Spec.WithDefaults()
	inc := &cke.Incarnation{ID: "aaaaaaaaaaaa", Token: "prod-token", State: cke.Formed, ClusterID: "c1", CreatedAt: noon.Add(-time.Hour), FormedAt: noon.Add(-time.Hour)}
	s.Identity.Incarnation = inc
	s.Seen.Etcd = cke.EtcdStatus{Quorate: true, MembersSource: cke.MembersLinearizable}
	s.Seen.Nodes = nil
	for i, node := range s.Spec.Nodes {
		j := cke.NewJoin(s.Spec, node, inc.ID)
		j.ID = cke.JoinID(fmt.Sprintf("00000000000%d", i+1))
		j.Volume, j.MemberID, j.StartedAt = j.Etcd.Volume(j.ID), fmt.Sprintf("a%d", i+1), noon.Add(-time.Hour)
		inc.Founders = append(inc.Founders, j)
		s.Seen.Nodes = append(s.Seen.Nodes, cke.NodeStatus{Node: node, SeenAt: noon,
			Containers: []cke.Container{{Name: j.Volume, Image: j.Etcd.Image, State: cke.ContainerRunning, Cluster: "prod", Incarnation: inc.ID, Join: j.ID, StartedAt: j.StartedAt}},
			Volumes:    []cke.Volume{{Name: j.Volume, Cluster: "prod", Incarnation: inc.ID, Join: j.ID, CreatedAt: j.StartedAt}}})
		s.Seen.Etcd.Members = append(s.Seen.Etcd.Members, cke.Member{ID: j.MemberID, Name: j.Member, PeerURLs: []string{j.PeerURL()}, ClientURLs: []string{j.ClientURL()}})
		s.Seen.Etcd.Endpoints = append(s.Seen.Etcd.Endpoints, cke.EndpointStatus{Join: j.ID, URL: j.ClientURL(), Serializable: true, Linearizable: true,
			ClusterID: "c1", MemberID: j.MemberID, LeaderID: "a1", Version: version, RaftTerm: 7, RaftIndex: 5000, RaftApplied: 5000, Revision: 4000, DBSize: 1 << 20, DBSizeInUse: 1 << 20})
		s.Before.Members = append(s.Before.Members, cke.MemberStatus{Name: node.Name(), Join: j.ID, State: "healthy", Since: noon.Add(-time.Hour)})
	}
	s.Identity.Joins = slices.Clone(inc.Founders)
	return s
}

// unfounded is a cluster of n declared nodes that hold nothing.
func unfounded(n int) *scene {
	s := &scene{strategy.Input{Generation: 2}}
	s.Spec = cke.Cluster{Name: "prod", Nodes: nodes(1, n)}.WithDefaults()
	s.Seen.ObservedAt = noon
	for _, node := range s.Spec.Nodes {
		s.Seen.Nodes = append(s.Seen.Nodes, cke.NodeStatus{Node: node, SeenAt: noon, ClientPort: cke.PortClosed, PeerPort: cke.PortClosed})
	}
	return s
}

func nodes(from, to int) []cke.Node {
	var all []cke.Node
	for i := from; i <= to; i++ {
		all = append(all, cke.Node{Hostname: fmt.Sprintf("cp%d", i), Address: fmt.Sprintf("10.0.0.%d", i), ControlPlane: true})
	}
	return all
}

// obey changes the scene as one line of a story says.
func (s *scene) obey(t testing.TB, words []string) {
	t.Helper()
	if len(words) > 1 && strings.HasPrefix(words[0], "cp") {
		s.fate(t, words)
		return
	}
	switch words[0] {
	case "file": // names of the nodes of the file, or two ends of a row of them
		s.Spec.Nodes = nil
		for _, w := range words[1:] {
			first, last, row := strings.Cut(w, "-")
			if !row {
				last = first
			}
			s.Spec.Nodes = append(s.Spec.Nodes, nodes(number(t, first), number(t, last))...)
		}
	case "address": // NODE ADDRESS
		s.Spec.Nodes[number(t, words[1])-1].Address = words[2]
	case "zones": // of cp1, cp2 and so on, declared and as they were; -: none
		stands := func(n *cke.Node) { n.Zone = strings.Trim(words[number(t, n.Hostname)], "-") }
		for i := range s.Spec.Nodes {
			stands(&s.Spec.Nodes[i])
		}
		for i := range s.Identity.Joins {
			stands(&s.Identity.Joins[i].Node)
		}
	case "version":
		s.Spec.Options.Etcd.Version, s.Spec.Options.Etcd.Image = words[1], ""
	case "args":
		s.Spec.Options.Etcd.ExtraArgs = words[1:]
	case "reconcile":
		s.Spec.Policies.Reconcile = cke.ReconcileMode(words[1])
		s.Spec.Policies.Window = cke.Window{Schedule: "0 2 * * 6", Duration: cke.Duration(2 * time.Hour)}
	case "replace":
		s.Spec.Policies.Replace.Mode = cke.ReplaceMode(words[1])
	case "drain":
		s.Requests.Drains = []cke.Drain{{Node: words[1], By: "ann@boot-1", Since: noon, Until: noon.Add(2 * time.Hour)}}
	case "hibernate":
		s.Requests.Hibernation = &cke.Hibernation{By: "ann@boot-1", Since: noon}
	case "ask": // KIND NODE
		task := cke.Task{ID: "t1", Kind: cke.TaskKind(words[1]), Node: words[2], By: "ann@boot-1", At: noon}
		if task.Kind == cke.TaskAdopt {
			task.Adopt = &cke.Adoption{Member: s.Seen.Etcd.Members[len(s.Seen.Etcd.Members)-1], Container: "c0ffee"}
		}
		if task.Kind == cke.TaskReplace {
			task.Subject = string(s.Identity.Joins[number(t, words[2])-1].ID)
		}
		s.Requests.Tasks = append(s.Requests.Tasks, task)
	case "stranger": // serves, silent or carried by a container on the node, at ADDRESS
		m := cke.Member{ID: "b1", Name: "hand", PeerURLs: []string{"https://" + words[2] + ":2380"}, ClientURLs: []string{"https://" + words[2] + ":2379"}}
		e := cke.EndpointStatus{URL: m.ClientURLs[0], Problem: "context deadline exceeded"}
		if words[1] == "carried" {
			i := slices.IndexFunc(s.Spec.Nodes, func(n cke.Node) bool { return n.Address == words[2] })
			s.Seen.Nodes = append(s.Seen.Nodes, cke.NodeStatus{Node: s.Spec.Nodes[i], SeenAt: noon, ClientPort: cke.PortOpen, PeerPort: cke.PortOpen, Containers: []cke.Container{
				{ID: "c0ffee", Name: "hand", Image: "quay.io/coreos/etcd:v3.6.16", State: cke.ContainerRunning, PeerURLs: m.PeerURLs, Mounts: []string{"/srv/hand"}, StartedAt: noon}}})
		}
		if words[1] != "silent" {
			e = s.Seen.Etcd.Endpoints[0]
			e.Join, e.URL, e.MemberID = "", m.ClientURLs[0], m.ID
		}
		s.Seen.Etcd.Members, s.Seen.Etcd.Endpoints = append(s.Seen.Etcd.Members, m), append(s.Seen.Etcd.Endpoints, e)
	case "foreign":
		s.Spec.Policies.Foreign = cke.ForeignPolicy(words[1])
	case "delete":
		s.Deleting = true
	case "backups": // fresh or late
		s.Spec.Backup.Target = "file:///srv/backups"
		s.Backup = &cke.BackupStatus{Known: true, Connected: true, Full: cke.StoredBackup{Revision: 3000, At: noon.Add(-time.Hour)}, Revision: 4000}
		if words[1] == "late" {
			s.Backup.Lag = (24 * time.Hour).Seconds()
		}
	case "pause":
		s.Requests.Hold = &cke.Hold{Reason: strings.Join(words[1:], " "), By: "ann@boot-1", Since: noon}
	default:
		t.Fatalf("unknown line %q", words)
	}
	s.Spec = s.Spec.WithDefaults()
}

func number(t testing.TB, name string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(name, "cp"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// fate lets something have happened to a node.
func (s *scene) fate(t testing.TB, words []string) {
	i := slices.IndexFunc(s.Seen.Nodes, func(n cke.NodeStatus) bool { return n.Node.Hostname == words[0] })
	if i < 0 {
		t.Fatalf("%s was never seen", words[0])
	}
	n := &s.Seen.Nodes[i]
	now := func(state string, since time.Duration) {
		if i < len(s.Before.Members) {
			s.Before.Members[i].State, s.Before.Members[i].Since = state, noon.Add(-since)
		}
	}
	switch words[1] {
	case "unreachable":
		since, err := time.ParseDuration(words[2])
		if err != nil {
			t.Fatal(err)
		}
		n.Problem = &cke.Problem{Code: cke.CodeUnreachable, Node: n.Node.Name(), Message: "no route to host"}
		s.silent(i)
		now("unreachable", since)
	case "ssh-refused":
		n.Problem = &cke.Problem{Code: cke.CodeSSHAuth, Node: n.Node.Name(), Message: "the key is refused"}
	case "stopped":
		c := &n.Containers[0]
		c.State, c.Data, c.ExitCode = cke.ContainerExited, cke.DataPresent, 2
		n.ClientPort, n.PeerPort = cke.PortClosed, cke.PortClosed
		s.silent(i)
		now("stopped", time.Minute)
	case "lost":
		n.Containers, n.Volumes, n.ClientPort, n.PeerPort = nil, nil, cke.PortClosed, cke.PortClosed
		s.silent(i)
		now("missing", 0)
	case "hung":
		s.silent(i)
		now("unhealthy", time.Minute)
	case "leads":
		for k := range s.Seen.Etcd.Endpoints {
			s.Seen.Etcd.Endpoints[k].LeaderID = fmt.Sprintf("a%d", i+1)
		}
	default:
		t.Fatalf("unknown line %q", words)
	}
}

// silent lets a member answer nobody, and the quorum go where too few are left.
func (s *scene) silent(i int) {
	if i >= len(s.Seen.Etcd.Endpoints) {
		return
	}
	e := &s.Seen.Etcd.Endpoints[i]
	*e = cke.EndpointStatus{Join: e.Join, URL: e.URL, Problem: "context deadline exceeded"}
	left := 0
	for _, e := range s.Seen.Etcd.Endpoints {
		if e.Problem == "" {
			left++
		}
	}
	if left < quorum.Of(len(s.Seen.Etcd.Endpoints)) {
		s.Seen.Etcd.Quorate, s.Seen.Etcd.MembersSource, s.Seen.Etcd.Members = false, cke.MembersUnknown, nil
		for k := range s.Seen.Etcd.Endpoints {
			if e := &s.Seen.Etcd.Endpoints[k]; e.Problem == "" {
				e.Linearizable, e.LeaderID, e.Errors = false, "", []string{"etcdserver: no leader"}
			}
		}
	}
}
