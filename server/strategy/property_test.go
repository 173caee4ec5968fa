package strategy_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"cke"
	"cke/op"
	"cke/quorum"
	"cke/server/strategy"
)

// anyInput draws a scene and then spoils it: every list may lack entries, every field may have any of its values.
func anyInput(t *rapid.T) strategy.Input {
	n := rapid.IntRange(0, 5).Draw(t, "nodes")
	var s *scene
	switch rapid.IntRange(0, 4).Draw(t, "state") {
	case 0:
		s = blank(n)
	case 1:
		s = forming(n, false)
	case 2:
		s = forming(n, true)
	case 3:
		s = abandoned(n)
	default:
		s = formed(n)
	}
	flip := func(name string) bool { return rapid.IntRange(0, 3).Draw(t, name) == 0 }
	for i := range s.Seen.Nodes {
		anyNode(t, s, i, flip)
	}
	if flip("unseen") && n > 0 {
		s.Seen.Nodes = s.Seen.Nodes[:n-1]
	}
	if flip("undeclared") && n > 0 {
		s.Spec.Nodes = s.Spec.Nodes[1:]
	}
	for i := range s.Spec.Nodes {
		s.Spec.Nodes[i].ControlPlane = !flip("no control plane")
	}
	if flip("options") {
		s.Spec.Options.Etcd.ExtraArgs = []string{"--x"}
	}
	s.Deleting = flip("deleting") && flip("really deleting")
	if flip("no quorum") {
		s.lost()
	}
	anyMembers(t, s, flip)
	for i := range s.Seen.Etcd.Endpoints {
		if flip("other cluster") && flip("really other") {
			s.Seen.Etcd.Endpoints[i].ClusterID = "c2"
		}
	}
	s.Failures = map[string]strategy.Failure{}
	if o := strategy.Decide(s.Input).Operation; o != nil && flip("failed") {
		s.failed(o, rapid.IntRange(-1, 100).Draw(t, "count"), time.Duration(rapid.IntRange(-100, 100).Draw(t, "before"))*time.Second)
	}
	return s.Input
}

func anyNode(t *rapid.T, s *scene, i int, flip func(string) bool) {
	n := &s.Seen.Nodes[i]
	if flip("silent") {
		s.silent(i + 1)
	}
	n.ClientPort = rapid.SampledFrom([]cke.PortState{cke.PortClosed, cke.PortClosed, cke.PortOpen, cke.PortUnknown}).Draw(t, "port")
	if flip("no containers") {
		n.Containers = nil
	}
	if flip("no volumes") {
		n.Volumes = nil
	}
	for k := range n.Containers {
		c := &n.Containers[k]
		c.State = rapid.SampledFrom([]cke.ContainerState{cke.ContainerRunning, cke.ContainerRunning, cke.ContainerCreated, cke.ContainerPaused, cke.ContainerRestarting, cke.ContainerExited, cke.ContainerDead, "odd"}).Draw(t, "container")
		c.Data = rapid.SampledFrom([]cke.DataState{cke.DataPresent, cke.DataMissing, cke.DataUnknown}).Draw(t, "data")
		if flip("never ran") {
			c.StartedAt = time.Time{}
		}
		if flip("foreign") && flip("really foreign") {
			c.Cluster, c.Join = "", ""
		}
	}
	if flip("old life") {
		n.Volumes = append(n.Volumes, cke.Volume{Name: "etcd-cke.old", Cluster: "demo", Incarnation: "past", Join: "old"})
		if s.Identity.Incarnation != nil && flip("known") {
			s.Identity.Incarnation.Previous = []string{"past"}
		}
	}
}

// anyMembers spoils what etcd told.
func anyMembers(t *rapid.T, s *scene, flip func(string) bool) {
	s.Spec.Policies.Replace.Mode = rapid.SampledFrom([]cke.ReplaceMode{cke.ReplaceAuto, cke.ReplaceManual}).Draw(t, "replace")
	s.Spec.Policies.Foreign = rapid.SampledFrom([]cke.ForeignPolicy{cke.ForeignHold, cke.ForeignRemove}).Draw(t, "foreign")
	if flip("versions") {
		s.running()
	}
	for i := range s.Seen.Etcd.Endpoints {
		e := &s.Seen.Etcd.Endpoints[i]
		if flip("unhealthy") {
			e.Problem = "no answer"
		}
		e.RaftApplied = e.RaftIndex - min(e.RaftIndex, uint64(rapid.IntRange(0, 3000).Draw(t, "behind")))
	}
	for i := range s.Seen.Etcd.Members {
		m := &s.Seen.Etcd.Members[i]
		m.Learner = flip("learner")
		if m.Learner && flip("unstarted") {
			m.Name = ""
		}
	}
	if n := len(s.Seen.Etcd.Members); n > 0 && flip("left the list") {
		s.Seen.Etcd.Members = s.Seen.Etcd.Members[:n-1]
	}
	if flip("stranger") {
		s.Seen.Etcd.Members = append(s.Seen.Etcd.Members, cke.Member{ID: "s1", Name: "stranger", PeerURLs: []string{"https://10.9.9.9:2380"}})
	}
	if n := len(s.Identity.Joins); n > 0 && flip("only recorded") {
		s.Identity.Joins[n-1].StartedAt, s.Identity.Joins[n-1].MemberID = time.Time{}, ""
	}
	if n := len(s.Identity.Joins); n > 0 && flip("missing") {
		s.Before.Members = []cke.MemberStatus{{Join: s.Identity.Joins[0].ID, State: "missing", Watched: cke.Duration(time.Duration(rapid.IntRange(0, 1200).Draw(t, "watched")) * time.Second)}}
	}
	if flip("list unknown") && flip("really unknown") {
		s.Seen.Etcd.MembersSource = cke.MembersLocal
	}
}

func written(t *rapid.T, in strategy.Input) string {
	b, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestDecide_AlwaysGivesAReasonAndIsPure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput(t)
		before := written(t, in)
		d := strategy.Decide(in)
		if d.Reason == "" {
			t.Fatalf("no reason: %+v", d)
		}
		if after := written(t, in); after != before {
			t.Fatalf("the input was changed:\n%s", cmp.Diff(before, after))
		}
		if again := strategy.Decide(in); !cmp.Equal(d, again) {
			t.Fatalf("decided otherwise the second time:\n%s", cmp.Diff(d, again))
		}
		if d.Operation != nil && d.Converged && !housekeeping(d.Operation) {
			t.Fatalf("converged, and yet %s", d.Operation.Name())
		}
		if d.Operation != nil && d.Frozen != nil && !changesNothing(d.Operation) {
			t.Fatalf("frozen, and yet %s", d.Operation.Name())
		}
		if d.Converged && len(d.Blockers) > 0 && in.Failures == nil {
			t.Fatalf("converged, and yet %+v", d.Blockers)
		}
		if d.Again < 0 || d.Again > time.Hour {
			t.Fatalf("again in %v", d.Again)
		}
		strategy.Report(in, d, cke.Status{})
		if d.Operation != nil {
			unharmed(t, d.Operation.Stages())
			strategy.FailureKey(d.Operation)
		}
	})
}

// unharmed puts marks around all steps, and fails if that changes the stages, or marks one twice.
func unharmed(t *rapid.T, stages []op.Stage) {
	before := fmt.Sprintf("%v", stages)
	for _, stage := range op.Around(stages, func(_ int, s op.Step) op.Step { s.Name += "+"; return s }) {
		for _, s := range stage {
			if strings.Count(s.Name, "+") != 1 {
				t.Fatalf("%s is marked %d times", s.Name, strings.Count(s.Name, "+"))
			}
		}
	}
	if after := fmt.Sprintf("%v", stages); after != before {
		t.Fatalf("the stages were changed:\n%s\n%s", before, after)
	}
}

// housekeeping looks after a cluster that is as declared.
func housekeeping(o op.Operation) bool {
	switch o.(type) {
	case op.CompareData, op.EndFinding, op.PurgeVolume, op.Defragment:
		return true
	}
	return false
}

// changesNothing is what may be done while a cluster is frozen.
func changesNothing(o op.Operation) bool {
	switch o.(type) {
	case op.Freeze, op.Unfreeze, op.CompareData, op.Refuse:
		return true
	}
	return false
}

// TestDecide_NeverDoesTheWorst states what must hold whatever is seen.
func TestDecide_NeverDoesTheWorst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput(t)
		d := strategy.Decide(in)
		if err := worst(in, d); err != nil {
			t.Fatalf("%v\n%s: %s", err, d.Operation.Name(), d.Reason)
		}
	})
}

func worst(in strategy.Input, d strategy.Decision) error {
	inc := in.Identity.Incarnation
	answers := func(n cke.Node) cke.NodeStatus {
		for _, s := range in.Seen.Nodes {
			if s.Node.Address == n.Address && s.Answered() {
				return s
			}
		}
		return cke.NodeStatus{Problem: &cke.Problem{}}
	}
	switch o := d.Operation.(type) {
	case op.Bootstrap:
		if inc != nil && inc.State == cke.Formed {
			return fmt.Errorf("a formed cluster is founded again")
		}
		if o.Resume != (inc != nil && inc.State == cke.Forming) {
			return fmt.Errorf("resume is %v", o.Resume)
		}
		for _, n := range o.Founders {
			s := answers(n)
			if !s.Answered() {
				return fmt.Errorf("a founder does not answer")
			}
			if !o.Resume && (s.ClientPort != cke.PortClosed || len(s.Volumes)+len(s.Containers) > 0) {
				return fmt.Errorf("%s holds something", n.Name())
			}
		}
	case op.StartMembers:
		if inc == nil || inc.State != cke.Formed {
			return fmt.Errorf("members of no formed cluster are started")
		}
		for _, j := range o.Joins {
			s := answers(j.Node)
			c, _ := s.Of(j.ID)
			if _, there := s.VolumeOf(j); !there || c.Running() || c.Data == cke.DataMissing {
				return fmt.Errorf("%s is started: %+v", j.Node.Name(), s)
			}
		}
	case op.AbandonBootstrap:
		if inc == nil || inc.State != cke.Forming {
			return fmt.Errorf("what is not forming is abandoned")
		}
	case op.CleanUp:
		for _, j := range o.Left {
			if !inc.WasAbandoned(j.Incarnation) {
				return fmt.Errorf("a life that was not abandoned is cleaned up")
			}
		}
	case op.DeleteCluster:
		if !in.Deleting {
			return fmt.Errorf("nobody asked for deletion")
		}
	case op.AddMember, op.PromoteMember, op.RemoveMember, op.RestartMember, op.EndMembership, op.ChangeAddress:
		return worstChange(in, d.Operation)
	}
	return nil
}

// worstChange states the quorum arithmetic for changes of the member list.
func worstChange(in strategy.Input, o op.Operation) error {
	if in.Seen.Etcd.MembersSource != cke.MembersLinearizable || !in.Seen.Etcd.Quorate {
		return fmt.Errorf("the member list was not read through a quorum")
	}
	healthy := func(m cke.Member) bool {
		for _, e := range in.Seen.Etcd.Endpoints {
			if e.MemberID == m.ID {
				return e.Healthy() && (m.Learner || e.Linearizable)
			}
		}
		return false
	}
	voters, well, pending := 0, 0, 0
	for _, m := range in.Seen.Etcd.Members {
		if m.Learner || m.Name == "" {
			pending++
		}
		if !m.Learner {
			voters++
			if healthy(m) {
				well++
			}
		}
	}
	switch o := o.(type) {
	case op.AddMember:
		listed := false
		for _, j := range in.Identity.Joins {
			for _, m := range in.Seen.Etcd.Members {
				listed = listed || j.ID == o.Resume && m.Of(j)
			}
		}
		if pending > 1 || pending == 1 && !listed {
			return fmt.Errorf("a second change while one is in flight")
		}
	case op.RemoveMember:
		if o.Member.Learner {
			return nil
		}
		left := well
		if healthy(o.Member) {
			left--
			if pending > 0 || well < voters {
				return fmt.Errorf("a healthy voter is taken away while not all is well")
			}
		}
		if left < quorum.Of(voters-1) || voters == 1 {
			return fmt.Errorf("%d of %d voters are left", left, voters-1)
		}
	case op.RestartMember:
		if well < voters || pending > 0 {
			return fmt.Errorf("a voter is restarted while not all is well")
		}
	case op.PromoteMember:
		for _, m := range in.Seen.Etcd.Members {
			if m.Of(o.Join) && (!m.Learner || !healthy(m)) {
				return fmt.Errorf("%+v is promoted", m)
			}
		}
	}
	return nil
}
