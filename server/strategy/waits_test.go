package strategy_test

import (
	"testing"
	"time"

	"cke"
	"cke/op"
)

// gone lets the data of a member have been missing for an hour.
func (s *scene) gone(i int, mode cke.ReplaceMode) *scene {
	s.wiped(i)
	s.Before.Members = []cke.MemberStatus{{Name: s.join(i).Member, Join: s.join(i).ID, State: "missing", Watched: cke.Duration(time.Hour)}}
	s.Spec.Policies.Replace.Mode = mode
	return s
}

// answers lets a member answer at its former address: its machine has both.
func (s *scene) answers(i int) *scene {
	*s.endpoint(i) = formed(3).running().Seen.Etcd.Endpoints[i-1]
	return s
}

// What a rule waits for may be for a rule below it to do.
func TestDecide_RulesDoNotWaitForEachOther(t *testing.T) {
	ports := func(s *scene) { s.Spec.Options.Etcd.ClientPort = 3379 }
	lost := func() *scene { return formed(3).running().gone(3, cke.ReplaceAuto) }
	removed := func(s *scene, i int, silent bool) op.RemoveMember {
		r := remove(s, i)
		r.Silent = silent
		return r
	}
	full := formed(3).running().unjoined(3).with(func(s *scene) {
		s.Seen.Etcd.Alarms = []cke.Alarm{{MemberID: "m1", Kind: "NOSPACE"}}
		for i := 1; i <= 2; i++ {
			s.endpoint(i).DBSize, s.endpoint(i).DBSizeInUse = 2<<30, 100<<20
		}
	})
	args := func(s *scene) { s.Spec.Options.Etcd.ExtraArgs = []string{"--x"} }
	version := func(v string) func(*scene) { return func(s *scene) { s.Spec.Options.Etcd.Version = v } }
	third := op.AddMember{Node: formed(3).Spec.Nodes[2], Etcd: formed(3).Spec.Options.Etcd}
	soon := op.RenewCertificates{Join: formed(3).join(1)}
	check(t, []row{
		{"lost data and a move of another member", lost().readdressed(2, sameMachine).answers(2), repairing(removed(lost(), 3, false)), "the data of n3 is gone", nil},
		{"lost data and other ports", lost().with(ports), repairing(removed(lost(), 3, false)), "the data of n3 is gone", nil},
		{"a dead member that is to go, and other ports", formed(3).running().silent(3).undeclared(3).with(ports), removed(formed(3).silent(3), 3, true), "n3 is no longer a control-plane node", nil},
		{"certificates that end soon, and a move that waits", formed(3).running().renewable(100, 300, 300).silent(3).readdressed(2, sameMachine).answers(2), soon, "the certificate of n1", nil},
		{"certificates that end soon, and lost data for which a person is waited for", formed(3).running().renewable(100, 300, 300).gone(3, cke.ReplaceManual), soon, "the certificate of n1", nil},
		{"a full database and a missing member", full, third, "n3 is a control-plane node", nil},
		{"other options for two of three: the third comes first, and as they run", formed(3).running().unjoined(3).with(args), third, "n3 is a control-plane node", nil},
		{"a version that is refused: the third comes as the others are", formed(3).running().unjoined(3).with(version("3.8.0")), third, "n3 is a control-plane node", nil},
		{"a version that waits for a backup", formed(3).running().unjoined(3).with(version("3.7.3")).with(func(s *scene) { s.Spec.Backup.Target = "file:///b" }), third, "n3 is a control-plane node", nil},
	})
	if d := formed(3).running().unjoined(2).with(version("3.8.0")).asked(cke.TaskReplace, "n2", "join2"); d != nil {
		d.end(formed(3).join(2))
		check(t, []row{{"a replacement that was asked for", d, op.AddMember{Node: formed(3).Spec.Nodes[1], Etcd: formed(3).Spec.Options.Etcd}, "", nil}})
	}
}
