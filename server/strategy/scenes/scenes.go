// Package scenes has the inputs from which tests of the strategy and of the loop start. Only tests import it.
package scenes

import (
	"fmt"
	"time"

	"cke"
	"cke/server/strategy"
)

// Noon is the time of the observation.
var Noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// Blank is a cluster of n control-plane nodes that was never bootstrapped, on nodes that hold nothing.
func Blank(n int) *strategy.Input {
	in := &strategy.Input{Spec: Spec(n), Generation: 1}
	in.Seen.ObservedAt = Noon
	for _, node := range in.Spec.Nodes {
		in.Seen.Nodes = append(in.Seen.Nodes, cke.NodeStatus{Node: node, SeenAt: Noon, Clock: Noon, ClientPort: cke.PortClosed, PeerPort: cke.PortClosed})
	}
	return in
}

// Spec is their cluster file.
func Spec(n int) cke.Cluster {
	c := cke.Cluster{Name: "demo"}
	for i := 1; i <= n; i++ {
		c.Nodes = append(c.Nodes, cke.Node{Hostname: fmt.Sprintf("n%d", i), Address: fmt.Sprintf("10.0.0.%d", i), ControlPlane: true})
	}
	return c.WithDefaults()
}

// Forming is a cluster whose bootstrap is recorded and, with started, whose members run.
func Forming(n int, started bool) *strategy.Input {
	in := Blank(n)
	inc := &cke.Incarnation{ID: "life", Token: "demo-token", State: cke.Forming, CreatedAt: Noon}
	in.Identity.Incarnation = inc
	for i, node := range in.Spec.Nodes {
		id := cke.JoinID(fmt.Sprintf("join%d", i+1))
		o := in.Spec.Options.Etcd
		j := cke.Join{ID: id, Incarnation: inc.ID, Node: node, Member: node.Name(), Volume: o.Volume(id), ClientPort: o.ClientPort, PeerPort: o.PeerPort, Etcd: o}
		if started {
			j.StartedAt = Noon.Add(-time.Minute)
		}
		inc.Founders = append(inc.Founders, j)
		in.Identity.Joins = append(in.Identity.Joins, j)
		c := cke.Container{Name: j.Volume, Image: o.Image, State: cke.ContainerCreated, Cluster: "demo", Incarnation: inc.ID, Join: id, Data: cke.DataMissing}
		if started {
			c.State, c.StartedAt, c.Data, c.KeptDown = cke.ContainerRunning, Noon, cke.DataUnknown, true
		}
		seen := &in.Seen.Nodes[i]
		seen.Containers = []cke.Container{c}
		seen.Volumes = []cke.Volume{{Name: j.Volume, Cluster: "demo", Incarnation: inc.ID, Join: id}}
	}
	return in
}

// Formed is a cluster of n members that all serve.
func Formed(n int) *strategy.Input {
	in := Forming(n, true)
	in.Identity.Incarnation.State, in.Identity.Incarnation.ClusterID, in.Identity.Incarnation.FormedAt = cke.Formed, "c1", Noon
	in.Seen.Etcd = cke.EtcdStatus{Quorate: true, MembersSource: cke.MembersLinearizable}
	for i := range in.Identity.Joins {
		j := &in.Identity.Joins[i]
		j.MemberID = fmt.Sprintf("m%d", i+1)
		c := &in.Seen.Nodes[i].Containers[0]
		c.KeptDown, c.Data = false, cke.DataPresent
		in.Seen.Etcd.Members = append(in.Seen.Etcd.Members, cke.Member{ID: j.MemberID, Name: j.Member, PeerURLs: []string{j.PeerURL()}})
		in.Seen.Etcd.Endpoints = append(in.Seen.Etcd.Endpoints, cke.EndpointStatus{
			Join: j.ID, URL: j.ClientURL(), Serializable: true, Linearizable: true, ClusterID: "c1", MemberID: j.MemberID, LeaderID: "m1",
		})
	}
	return in
}

// Quiet lets a member, counted from 1, answer no request.
func Quiet(in *strategy.Input, i int) {
	if len(in.Seen.Etcd.Endpoints) >= i {
		j := in.Identity.Joins[i-1]
		in.Seen.Etcd.Endpoints[i-1] = cke.EndpointStatus{Join: j.ID, URL: j.ClientURL(), Problem: "connection refused"}
	}
}

// Silence makes nodes answer no more; what was last seen of them stays.
func Silence(in *strategy.Input, nodes ...int) {
	for _, i := range nodes {
		n := &in.Seen.Nodes[i-1]
		n.Problem = &cke.Problem{Code: cke.CodeUnreachable, Node: n.Node.Name(), Message: "no answer", Remedy: "check the node"}
		Quiet(in, i)
	}
}

// Stop lets members' etcd have exited with their data in place.
func Stop(in *strategy.Input, nodes ...int) {
	for _, i := range nodes {
		c := &in.Seen.Nodes[i-1].Containers[0]
		c.State, c.Data, c.ExitCode, c.LastWords = cke.ContainerExited, cke.DataPresent, 2, "killed"
		Quiet(in, i)
	}
}

// Empty lets members' volumes hold no log any more.
func Empty(in *strategy.Input, nodes ...int) {
	Stop(in, nodes...)
	for _, i := range nodes {
		in.Seen.Nodes[i-1].Containers[0].Data = cke.DataMissing
	}
}

// LoseQuorum takes the quorum away.
func LoseQuorum(in *strategy.Input) {
	in.Seen.Etcd.Quorate, in.Seen.Etcd.Members, in.Seen.Etcd.MembersSource = false, nil, cke.MembersUnknown
	for i := range in.Seen.Etcd.Endpoints {
		e := &in.Seen.Etcd.Endpoints[i]
		if e.Problem == "" {
			e.Linearizable, e.LeaderID, e.Errors = false, "", []string{"etcdserver: no leader"}
		}
	}
}

// NotWaitedFor lets the observation be partial: no member has been waited for.
func NotWaitedFor(in *strategy.Input) {
	for i := range in.Seen.Etcd.Endpoints {
		Quiet(in, i+1)
	}
	LoseQuorum(in)
	in.Seen.Partial = true
}

// SoundBackups is the status of backups without problems.
func SoundBackups() *cke.BackupStatus {
	return &cke.BackupStatus{Target: "file:///b", Lineage: "life", Known: true, Compared: true, Connected: true, Revision: 120, Time: Noon.Add(-time.Second),
		Full: cke.StoredBackup{Kind: "full", ID: "life/1", Revision: 100, At: Noon.Add(-time.Hour)}}
}

// Asked is a task that an operator asked for at noon.
func Asked(kind cke.TaskKind, subject string) cke.Task {
	return cke.Task{ID: "t1", Kind: kind, Subject: subject, By: "ops@boot-1", At: Noon}
}
