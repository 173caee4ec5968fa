package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/internal/golden"
	"cke/server/strategy"
)

// observed is a cluster of three members that a daemon has told of, at noon.
type observed struct {
	*house
	*leader
	in strategy.Input
}

// serving makes the cluster prod of three members that all serve, declared as revision 1, and a leader that has told so.
func serving(t *testing.T) *observed { return servingIn(newHouse(t), clusterFile) }

// servingIn is serving with another cluster file.
func servingIn(h *house, file string) *observed {
	t := h.t
	h.now = func() time.Time { return noon }
	h.run(exitDone, "cluster", "set", "--no-wait", h.write("cluster.yml", file))
	spec, err := h.store.Spec(h.ctx(), "prod")
	if err != nil {
		t.Fatal(err)
	}
	o := &observed{house: h, leader: h.lead("prod"), in: strategy.Input{Spec: spec.Wanted(), Generation: 1}}
	began := noon.Add(-time.Hour)
	inc := cke.Incarnation{ID: "aaaaaaaaaaaa", Token: "prod-token", State: cke.Forming, CreatedAt: began}
	for i, n := range o.in.Spec.ControlPlane() {
		j := cke.NewJoin(o.in.Spec, n, inc.ID)
		j.ID = cke.JoinID(fmt.Sprintf("00000000000%d", i+1))
		j.Volume, j.MemberID, j.StartedAt = j.Etcd.Volume(j.ID), fmt.Sprintf("a%d", i+1), began
		inc.Founders = append(inc.Founders, j)
	}
	if err := o.term.CreateIncarnation(h.ctx(), inc); err != nil {
		t.Fatal(err)
	}
	read, err := o.term.Identity(h.ctx())
	if err == nil {
		err = o.term.PutJoins(h.ctx(), read, inc.Founders...)
	}
	if err != nil {
		t.Fatal(err)
	}
	inc.State, inc.ClusterID, inc.FormedAt = cke.Formed, "c1", began
	if err := o.term.UpdateIncarnation(h.ctx(), inc); err != nil {
		t.Fatal(err)
	}
	o.in.Identity = cke.NewIdentity(&inc, inc.Founders)
	o.in.Seen = seenServing(o.in.Identity)
	o.tell()
	return o
}

// seenServing is what is seen of members that all serve; the first one leads.
func seenServing(id cke.Identity) cke.Observation {
	seen := cke.Observation{ObservedAt: noon.Add(-3 * time.Second), Etcd: cke.EtcdStatus{Quorate: true, MembersSource: cke.MembersLinearizable}}
	for _, j := range id.Joins {
		seen.Nodes = append(seen.Nodes, cke.NodeStatus{Node: j.Node, SeenAt: seen.ObservedAt,
			Containers: []cke.Container{{Name: j.Volume, Image: j.Etcd.Image, State: cke.ContainerRunning, Cluster: "prod", Incarnation: j.Incarnation, Join: j.ID, StartedAt: j.StartedAt}},
			Volumes:    []cke.Volume{{Name: j.Volume, Cluster: "prod", Incarnation: j.Incarnation, Join: j.ID}}})
		seen.Etcd.Members = append(seen.Etcd.Members, cke.Member{ID: j.MemberID, Name: j.Member, PeerURLs: []string{j.PeerURL()}, ClientURLs: []string{j.ClientURL()}})
		seen.Etcd.Endpoints = append(seen.Etcd.Endpoints, cke.EndpointStatus{Join: j.ID, URL: j.ClientURL(), Serializable: true, Linearizable: true,
			ClusterID: "c1", MemberID: j.MemberID, LeaderID: "a1", Version: j.Etcd.Version, RaftTerm: 7, RaftIndex: 5000, RaftApplied: 5000})
	}
	return seen
}

// tell stores the status.
func (o *observed) tell() {
	o.leader.t.Helper()
	s := strategy.Report(o.in, strategy.Decide(o.in), o.in.Before)
	o.in.Before = s
	o.status(s)
}

// unreachable lets a node not answer for four minutes.
func (o *observed) unreachable(name string) {
	i := slices.IndexFunc(o.in.Seen.Nodes, func(n cke.NodeStatus) bool { return n.Node.Name() == name })
	o.in.Seen.Nodes[i].Problem = &cke.Problem{Code: cke.CodeUnreachable, Node: name, Message: "ssh 10.0.0.13:22: no route to host", Remedy: "Check power, network and sshd of the node."}
	e := &o.in.Seen.Etcd.Endpoints[i]
	*e = cke.EndpointStatus{Join: e.Join, URL: e.URL, Problem: "no route to host"}
	o.in.Seen.ObservedAt = noon.Add(-4 * time.Minute)
	o.tell()
	o.in.Seen.ObservedAt = noon.Add(-3 * time.Second)
	o.tell()
}

// lost takes a member's container and its volume away.
func (o *observed) lost(name string) {
	i := slices.IndexFunc(o.in.Seen.Nodes, func(n cke.NodeStatus) bool { return n.Node.Name() == name })
	n, e := &o.in.Seen.Nodes[i], &o.in.Seen.Etcd.Endpoints[i]
	n.Containers, n.Volumes, n.ClientPort, n.PeerPort = nil, nil, cke.PortClosed, cke.PortClosed
	*e = cke.EndpointStatus{Join: e.Join, URL: e.URL, Problem: "connection refused"}
	o.tell()
}

// file writes a cluster file with these nodes, cp1 at 10.0.0.11 and so on, and more lines.
func (o *observed) file(more string, nodes ...int) string {
	text := "name: prod\nnodes:\n"
	for _, i := range nodes {
		text += fmt.Sprintf("  - {address: 10.0.0.1%d, hostname: cp%d, user: cke, control_plane: true}\n", i, i)
	}
	return o.write("next.yml", text+more)
}

func TestPlan_ShowsEveryOperationWithItsTolerance(t *testing.T) {
	o := serving(t)
	for _, tc := range []struct {
		name string
		args []string
		code int
	}{
		{"nothing", nil, exitDone},
		{"grow", []string{o.write("grow.yml", clusterFile+"  - {address: 10.0.0.14, hostname: cp4, user: cke, control_plane: true}\n")}, exitDone},
		{"rolling", []string{o.write("rolling.yml", clusterFile+"options: {etcd: {version: 3.6.15, extra_args: [--auto-compaction-retention=1h]}}\n")}, exitDone},
		{"manual", []string{o.write("manual.yml", clusterFile+"options: {etcd: {resources: {cpus: 2}}}\npolicies: {reconcile: manual}\n")}, exitDone},
		{"refused-upgrade", []string{o.write("upgrade.yml", clusterFile+"options: {etcd: {version: 3.8.0}}\n")}, exitRefused},
	} {
		stdout, _ := o.run(tc.code, append([]string{"plan"}, tc.args...)...)
		golden.Compare(t, "testdata/plan/"+tc.name+".txt", stdout)
	}
	o.lost("cp2")
	stdout, _ := o.run(exitDone, "plan")
	golden.Compare(t, "testdata/plan/lost-data.txt", stdout)
	o.in.Seen = seenServing(o.in.Identity)
	o.unreachable("cp3")
	stdout, stderr := o.run(exitRefused, "plan", o.file("", 1, 3))
	golden.Compare(t, "testdata/plan/strands.txt", stdout)
	contains(t, stderr, "error[CKE104]: removing cp2 would lose quorum\n")
	stdout, _ = o.run(exitDone, "plan", o.file("", 1, 2, 4))
	golden.Compare(t, "testdata/plan/replace-dead.txt", stdout)
	stdout, _ = o.run(exitDone, "plan", "-o", "wide")
	golden.Compare(t, "testdata/plan/unreachable.txt", stdout)
}

func TestPlan_TellsByTheExitCodeWhetherThereIsSomethingToDo(t *testing.T) {
	o := serving(t)
	o.run(exitDone, "plan", "--detailed-exitcode")
	o.run(exitDone, "plan", "--detailed-exitcode", o.file("", 1, 2, 3))
	o.run(exitChanges, "plan", "--detailed-exitcode", o.file("", 1, 2, 3, 4))
	o.run(exitDone, "plan", o.file("", 1, 2, 3, 4))
	tooFar := o.write("upgrade.yml", clusterFile+"options: {etcd: {version: 3.8.0}}\n")
	for _, command := range [][]string{{"plan"}, {"plan", "--detailed-exitcode"}, {"cluster", "set", "--yes"}, {"cluster", "set", "--dry-run"}} {
		_, stderr := o.run(exitRefused, append(command, tooFar)...)
		contains(t, stderr, "error[CKE113]: etcd 3.8.0 cannot be reached from 3.6.16\n", "cp1 runs 3.6.16", "Try: store these versions one after the other, each once all members run the one before: 3.7.1, 3.8.0\n")
	}
	o.run(exitRefused, "plan", o.write("bad.yml", "name: prod\n"))
	_, stderr := o.run(exitFailed, "--cluster", "other", "plan", o.file("", 1))
	contains(t, stderr, "describes cluster prod, and other was chosen")
}

func TestPlan_IsWholeForPrograms(t *testing.T) {
	o := serving(t)
	file := o.file("", 1, 2, 3, 4)
	stdout, _ := o.run(exitDone, "plan", file, "-o", "json")
	var p planned
	if err := json.Unmarshal([]byte(stdout), &p); err != nil {
		t.Fatal(err)
	}
	if p.Operations != 2 || len(p.Steps) != 2 || p.Revision != 2 || p.StoredRevision != 1 || p.Age != 3 || !p.Led || *p.LeastTolerance != 1 ||
		!slices.Equal(p.Assumed, []string{"cp4"}) || !slices.Equal(p.Changes, []string{"node cp4 added"}) || p.End.Health != cke.HealthReady {
		t.Errorf("%s", stdout)
	}
	yaml, _ := o.run(exitDone, "plan", file, "-o", "yaml")
	contains(t, yaml, p.Hash, "operation: add-member\n")
	name, _ := o.run(exitDone, "plan", file, "-o", "name")
	if name != p.Hash+"\n" {
		t.Errorf("%q, want %s", name, p.Hash)
	}
}

func TestPlan_BeforeAnybodyHasLooked(t *testing.T) {
	h := newHouse(t)
	file := h.write("cluster.yml", clusterFile)
	stdout, _ := h.run(exitChanges, "plan", file, "--detailed-exitcode")
	contains(t, stdout, "prod  1 operation     revision 1, not stored yet\n", "1  bootstrap  cp1, cp2, cp3  none → none → 1", "cp1, cp2, cp3: never observed; assumed to answer and to be blank\n")
	h.run(exitDone, "cluster", "set", "--no-wait", file)
	for _, args := range [][]string{{"plan"}, {"plan", file}} {
		_, stderr := h.run(exitNoStatus, args...)
		contains(t, stderr, "error[CKE108]: prod has no status yet: no daemon leads it\n")
	}
}

func TestPlan_SaysHowOldItsBeginningIs(t *testing.T) {
	o := serving(t)
	o.now = func() time.Time { return noon.Add(25 * time.Minute) }
	stdout, _ := o.run(exitDone, "plan")
	contains(t, stdout, "This plan starts from prod as it was 25m ago: the leader has reported nothing since.\n")
	if err := o.term.Resign(o.ctx()); err != nil {
		t.Fatal(err)
	}
	stdout, _ = o.run(exitDone, "plan")
	contains(t, stdout, "This plan starts from prod as it was 25m ago: no daemon leads it now.\n")
}

func TestSet_RefusesAFileThatWouldLoseQuorum(t *testing.T) {
	o := serving(t)
	o.unreachable("cp3")
	file := o.file("", 1, 3)
	for _, args := range [][]string{{"--no-wait"}, {"--dry-run"}} {
		_, stderr := o.run(exitRefused, slices.Concat([]string{"cluster", "set"}, args, []string{file})...)
		want := "error[CKE104]: removing cp2 would lose quorum\n" +
			"  now    3 members, 2 healthy (cp3 unreachable for 4m)\n" +
			"  after  2 members, 1 healthy; 2 needed\n" +
			"Nothing was changed.\nTry: ckecli replace cp3\n"
		if !strings.HasSuffix(stderr, want) {
			t.Errorf("%s", stderr)
		}
	}
	if spec, err := o.store.Spec(o.ctx(), "prod"); err != nil || spec.Generation != 1 {
		t.Errorf("%d %v", spec.Generation, err)
	}
	// One that was long ago is no ground for a refusal.
	o.now = func() time.Time { return noon.Add(25 * time.Minute) }
	o.run(exitDone, "cluster", "set", "--no-wait", "--yes", file)
}

// What takes the member away that a replacement needs is no way round.
func TestReplace_OfAMemberThatServesWhileAnotherIsDeadIsRefused(t *testing.T) {
	h := newHouse(t)
	o := servingIn(h, clusterFile+"  - {address: 10.0.0.14, hostname: cp4, user: cke}\n")
	o.unreachable("cp3")
	_, stderr := o.run(exitRefused, "replace", "cp2", "cp4", "--no-wait")
	contains(t, stderr, "error[CKE104]: removing cp2 would lose quorum\n", "now    3 members, 2 healthy (cp3 unreachable for 4m)\n", "after  2 members, 1 healthy; 2 needed\n",
		"Nothing was changed.\nTry: ckecli replace cp3\n")
	if spec, err := o.store.Spec(o.ctx(), "prod"); err != nil || spec.Generation != 1 {
		t.Errorf("%d %v", spec.Generation, err)
	}
	_, stderr = o.run(exitDone, "replace", "cp3", "cp4", "--no-wait") // the dead one goes first
	contains(t, stderr, "prod: stored as revision 2: control_plane moved from cp3 to cp4\n")
}

// Fewer members is a person's word, by whatever way the file comes.
func TestSet_OfFewerMembersIsConfirmed(t *testing.T) {
	o := serving(t)
	one := o.file("", 1)
	_, stderr := o.run(exitRefused, "cluster", "set", "--no-wait", one)
	contains(t, stderr, "error[CKE107]: removing members of prod was not confirmed\n", "Nothing was changed.\nTry: ckecli cluster set "+one+" --yes\n")
	o.run(exitDone, "cluster", "set", "--dry-run", one)
	ask := o.onTerminal("cluster", "set", "--no-wait", one)
	ask.stdout.await(t, "cp2, cp3 are declared without a member: 1 of 3 members can be lost now, 0 of 1 then. Store it? [y/N] ")
	ask.types("\n")
	ask.must(exitRefused)
	if spec, err := o.store.Spec(o.ctx(), "prod"); err != nil || spec.Generation != 1 {
		t.Errorf("%d %v", spec.Generation, err)
	}
	ask = o.onTerminal("cluster", "set", "--no-wait", one)
	ask.stdout.await(t, "[y/N] ")
	ask.types("y\n")
	ask.must(exitDone)
	o.run(exitDone, "cluster", "set", "--no-wait", one)              // the same again takes nothing away
	o.run(exitDone, "cluster", "set", "--no-wait", o.file("", 1, 3)) // nor do more

	h := newHouse(t) // nothing was founded that could be taken away
	h.run(exitDone, "cluster", "set", "--no-wait", h.write("cluster.yml", clusterFile))
	h.run(exitDone, "cluster", "set", "--no-wait", h.write("one.yml", "name: prod\nnodes:\n  - {address: 10.0.0.11, hostname: cp1, user: cke, control_plane: true}\n"))
}

func TestSet_StoresOnlyThePlanThatWasSeen(t *testing.T) {
	o := serving(t)
	file := o.file("", 1, 2, 3, 4)
	name, _ := o.run(exitDone, "plan", file, "-o", "name")
	hash := strings.TrimSpace(name)
	_, stderr := o.run(exitRefused, "cluster", "set", "--no-wait", "--plan", "0123456789abcdef", file)
	contains(t, stderr, "error[CKE103]: the plan of ", " is "+hash+" now, not 0123456789abcdef\n", "Nothing was changed.\nTry: ckecli plan ")

	o.unreachable("cp3")
	_, stderr = o.run(exitRefused, "cluster", "set", "--no-wait", "--plan", hash, file)
	contains(t, stderr, "error[CKE103]: the plan of ", "now, not "+hash+"\n")
	if spec, err := o.store.Spec(o.ctx(), "prod"); err != nil || spec.Generation != 1 {
		t.Errorf("%d %v", spec.Generation, err)
	}
	o.in.Seen = seenServing(o.in.Identity)
	o.tell()
	stdout, _ := o.run(exitDone, "cluster", "set", "--dry-run", "--plan", hash, file)
	contains(t, stdout, "prod: would be stored as revision 2; nothing was stored\n", "add-member")
	stdout, _ = o.run(exitDone, "cluster", "set", "--no-wait", "--plan", hash, file)
	if stdout != "2\n" {
		t.Errorf("stdout is %q", stdout)
	}
}

// A version that the data has left is refused by every way into the store, also while nobody has observed the cluster.
func TestSet_RefusesAVersionThatTheDataHasLeft(t *testing.T) {
	o := servingIn(newHouse(t), clusterFile+"options: {etcd: {version: 3.6.16}}\n")
	o.run(exitDone, "cluster", "set", "--no-wait", o.write("up.yml", clusterFile+"options: {etcd: {version: 3.7.3}}\n"))
	for i := range o.in.Seen.Etcd.Endpoints {
		o.in.Seen.Etcd.Endpoints[i].Version = "3.7.3"
	}
	o.tell()
	for _, command := range [][]string{{"cluster", "rollback", "1"}, {"cluster", "rollback", "1", "--dry-run"}, {"cluster", "set", o.write("down.yml", clusterFile+"options: {etcd: {version: 3.6.16}}\n")}} {
		_, stderr := o.run(exitRefused, append(command, "--yes")...)
		contains(t, stderr, "error[CKE113]: etcd 3.6.16 cannot be reached from 3.7.3\n", "the data has left 3.6")
	}
}
