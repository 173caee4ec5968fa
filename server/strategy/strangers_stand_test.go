package strategy_test

import (
	"strings"
	"testing"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// standingOn lets a member that cke does not know, and that serves, stand on the ith node, which carries none of ours.
func (s *scene) standingOn(i int) *scene {
	s.unjoined(i).joinedBy(true)
	m := &s.Seen.Etcd.Members[len(s.Seen.Etcd.Members)-1]
	m.PeerURLs = []string{"https://" + s.Spec.Nodes[i-1].Address + ":2380"}
	return s
}

// Requirements A1, A22, I11: a member that cke does not know goes down with its node as any other one does.
func TestReport_TellsWhichNodesWithStrangersMayGoDown(t *testing.T) {
	worker := func(s *scene) { s.Spec.Nodes[3].ControlPlane = false }
	beside := func(s *scene) { s.Seen.Etcd.Members[3].PeerURLs = []string{"https://10.0.0.1:12380"} }
	for name, row := range map[string]struct {
		scene *scene
		yes   string
		why   string // of n4, or of the node where the stranger stands
	}{
		"all four serve":                                  {formed(4).running().standingOn(4), "n1 n2 n3 n4 stranger", ""},
		"one of ours is dead":                             {formed(4).running().standingOn(4).silent(3), "n3", "3 of 4 voters are healthy"},
		"on a node that is no control plane":              {formed(4).running().standingOn(4).with(worker).silent(3), "n3", "3 of 4 voters are healthy"},
		"it is dead itself":                               {formed(4).running().standingOn(4).with(func(s *scene) { s.endpoint(4).Problem = "no answer" }), "n4 stranger", ""},
		"beside one of ours":                              {formed(3).running().joinedBy(true).with(beside), "n2 n3", "now 4 voters, 4 healthy; meanwhile 2 healthy, 3 needed"},
		"without a quorum nobody knows what stands there": {formed(4).running().unjoined(4).silent(2, 3).lost(), "", "no member list could be read through a quorum"},
	} {
		var yes []string
		why := ""
		for _, m := range row.scene.report().Members {
			switch {
			case m.CanStop:
				yes = append(yes, m.Name)
			case m.Name == "n4" || m.State == "stranger" || m.Name == "n1" && strings.HasPrefix(name, "beside"):
				why = m.CannotStopBecause
			}
		}
		if strings.Join(yes, " ") != row.yes || !strings.Contains(why, row.why) {
			t.Errorf("%s: %v may stop, else %q", name, yes, why)
		}
	}
}

// strangerAs lets the member that cke does not know be known to the others by a host.
func strangerAs(host string) func(*scene) {
	return func(s *scene) {
		m := &s.Seen.Etcd.Members[len(s.Seen.Etcd.Members)-1]
		m.PeerURLs, m.ClientURLs = []string{"https://" + host + ":2380"}, []string{"https://" + host + ":2379"}
	}
}

// A member that cke does not know would run on while its node is called drained.
func TestDecide_DrainsNoNodeWhereAStrangerStands(t *testing.T) {
	says := func(code cke.Code, try string, facts ...string) func(strategy.Decision) bool {
		return func(d strategy.Decision) bool {
			o, is := d.Operation.(op.Refuse)
			return is && o.Why.Code == code && o.Why.Try == try && o.Why.Unchanged && strings.Join(o.Why.Facts, "; ") == strings.Join(facts, "; ")
		}
	}
	const adopt = "adopt it, and a member that cke adds replaces it; or remove it, if it is not needed"
	const remove = "remove it, if it is not needed; policies.foreign: remove does that, too"
	checkAsked(t, []askedRow{
		{"all serve", formed(4).running().standingOn(4).asked(cke.TaskDrain, "n4", ""), says(cke.CodeStranger, "ckecli etcd adopt n4", adopt)},
		{"quorum would be lost, too", formed(4).running().standingOn(4).silent(3).asked(cke.TaskDrain, "n4", ""),
			says(cke.CodeStranger, "ckecli etcd adopt n4", "3 of 4 voters are healthy", "a healthy one is taken away only when all are", adopt)},
		{"on a node that is no control plane", formed(4).running().standingOn(4).with(func(s *scene) { s.Spec.Nodes[3].ControlPlane = false }).asked(cke.TaskDrain, "n4", ""),
			says(cke.CodeStranger, "etcdctl member remove s1", remove)},
		{"beside one of ours", formed(3).running().joinedBy(true).with(func(s *scene) { s.Seen.Etcd.Members[3].PeerURLs = []string{"https://10.0.0.2:12380"} }).asked(cke.TaskDrain, "n2", ""),
			says(cke.CodeStranger, "etcdctl member remove s1", remove)},
		{"by the name of a machine, and the others are no quorum without it", formed(3).running().silent(1).unjoined(3).joinedBy(true).with(strangerAs("n3.example.com")).asked(cke.TaskDrain, "n3", ""),
			says(cke.CodeStranger, "etcdctl member remove s1", "2 of 3 voters are healthy", "a healthy one is taken away only when all are", remove)},
		{"by the name of a machine, and the others are a quorum", formed(4).running().unjoined(4).joinedBy(true).with(strangerAs("n4.example.com")).asked(cke.TaskDrain, "n4", ""), does("drain-node", false)},
		{"by another spelling", formed(4).running().unjoined(4).joinedBy(true).with(func(s *scene) {
			s.Spec.Nodes[3].Address, s.node(4).Node.Address, s.Seen.Etcd.Members[3].PeerURLs = "2001:db8::4", "2001:db8::4", []string{"https://[2001:0db8:0::4]:2380"}
		}).asked(cke.TaskDrain, "n4", ""), says(cke.CodeStranger, "etcdctl member remove s1", remove)},
		{"elsewhere it is no obstacle", formed(3).running().joinedBy(true).asked(cke.TaskDrain, "n2", ""), does("drain-node", false)},
	})
}
