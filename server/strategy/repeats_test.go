package strategy_test

import (
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// completed notes that what the scene wants was done so often in a row, the last time so long ago.
func (s *scene) completed(count int, ago time.Duration) *scene {
	d := strategy.Decide(s.Input)
	s.Completed = map[string]strategy.Completion{strategy.FailureKey(d.Operation): {Reason: d.Reason, Count: count, At: noon.Add(-ago)}}
	return s
}

func TestDecide_HoldsBackWhatHadNoLastingEffect(t *testing.T) {
	limited := func() *scene { return formed(3).updated(2, 1<<30) }
	restart := strategy.Decide(limited().Input).Operation
	other := limited().completed(9, time.Second)
	for key, c := range other.Completed {
		c.Reason = "another one"
		other.Completed[key] = c
	}
	check(t, []row{
		{"once, a second is enough", limited().completed(1, 2*time.Second), restart, "n2 runs with other limits", nil},
		{"twice it is told", limited().completed(2, time.Second), nil, "restart-member completed 2 times in a row and is needed again; it is repeated in", []string{"CKE226 n2"}},
		{"often it waits long", limited().completed(12, 25*time.Minute), nil, "completed 12 times in a row", []string{"CKE226 n2"}},
		{"for another reason it is another one", other, restart, "n2 runs with other limits", nil},
		{"what was long ago does not count", limited().completed(3, 3*time.Hour), restart, "n2 runs with other limits", nil},
		{"a clock that was set back holds nothing back", limited().completed(9, -time.Hour), restart, "n2 runs with other limits", nil},
		{"members that stop are started soon", formed(3).stopped(2).completed(5, 2*time.Second), op.StartMembers{Joins: []cke.Join{formed(3).join(2)}, AwaitServing: true}, "n2 stopped", nil},
		{"and never later than in half a minute", formed(3).stopped(2).completed(500, 37*time.Second), op.StartMembers{Joins: []cke.Join{formed(3).join(2)}, AwaitServing: true}, "n2 stopped", nil},
	})
}

// A part of a task that completed and is needed again is held back like any operation; an order that is given again is not.
func TestDecide_HoldsBackTheRepeatedPartOfATask(t *testing.T) {
	replaced := func() *scene { return formed(3).gaveUp(3).asked(cke.TaskReplace, "n3", "join3") }
	if d := strategy.Decide(replaced().completed(1, 0).Input); d.Operation != nil || d.Again <= 0 {
		t.Errorf("add-member has just completed: %#v, again in %s", d.Operation, d.Again)
	}
	if d := strategy.Decide(replaced().completed(1, 2*time.Second).Input); d.Operation == nil || !d.Part {
		t.Errorf("two seconds later: %s", d.Reason)
	}
	if d := strategy.Decide(formed(3).asked(cke.TaskDefragment, "n2", "").completed(3, 0).Input); d.Operation == nil {
		t.Errorf("an order that is given again: %s", d.Reason)
	}
}

// An engine that discards a limit, as on a kernel without the memory cgroup, would do so again.
func TestDecide_LeavesALimitThatTheEngineDiscards(t *testing.T) {
	discarded := func() *scene {
		return formed(3).with(func(s *scene) {
			s.Spec.Options.Etcd.Resources.Memory = 8 << 30
			for i := 1; i <= 3; i++ {
				s.Identity.Joins[i-1].Etcd = s.Spec.Options.Etcd
				s.Identity.Joins[i-1].Made = &cke.Resources{}
				s.container(i).Options = s.Spec.Options.Etcd.Digest()
			}
		})
	}
	byHand := discarded().updated(2, 1<<30)
	check(t, []row{
		{"it is no reason for a restart", discarded(), nil, "nothing to do", nil},
		{"one that a person changed is", byHand, op.RestartMember{Join: byHand.join(2), Etcd: byHand.Spec.Options.Etcd}, "n2 runs with other limits", nil},
	})
	told := 0
	for _, p := range discarded().report().Problems {
		if p.Code == cke.CodeDiscarded && p.Message == "limits: its container was created with 8GiB, and the engine applied none" {
			told++
		}
	}
	if told != 3 {
		t.Errorf("told of %d: %+v", told, discarded().report().Problems)
	}
}

// withdrawn puts learners on record that were withdrawn on the fourth node one after the other, the last one so long ago.
func withdrawn(count int, ago time.Duration, volumes bool) *scene {
	s := formed(4).unjoined(4)
	n := s.node(4)
	for i := range count {
		id := cke.JoinID(string(rune('a' + i)))
		at := noon.Add(-ago - time.Duration(count-1-i)*time.Hour)
		j := cke.Join{ID: id, Incarnation: "life", Node: n.Node, Volume: "etcd-cke." + string(id), NeverVoted: true, Repair: true, StartedAt: at, EndedAt: at, KeepUntil: at}
		if !volumes {
			j.RemovedAt = at
		} else {
			n.Volumes = append(n.Volumes, cke.Volume{Name: j.Volume, Cluster: "demo", Incarnation: "life", Join: id})
		}
		s.Identity.Ended = append(s.Identity.Ended, j)
	}
	return s
}

func TestDecide_TriesLearnersEverMoreSeldom(t *testing.T) {
	add := func(s *scene) op.Operation { return op.AddMember{Node: s.Spec.Nodes[3], Etcd: s.Spec.Options.Etcd} }
	set := withdrawn(5, time.Minute, false)
	set.SetAt = noon
	kept := withdrawn(1, time.Minute, true)
	undeleted := withdrawn(1, time.Minute, true)
	undeleted.Identity.Ended[0].KeepUntil = time.Time{}
	check(t, []row{
		{"after one at once", withdrawn(1, time.Second, false), add(formed(4)), "", nil},
		{"after two in five minutes", withdrawn(2, 4*time.Minute, false), nil, "2 new members in a row did not start to vote", []string{"CKE224 n4"}},
		{"and not later", withdrawn(2, 6*time.Minute, false), add(formed(4)), "", nil},
		{"after many within an hour", withdrawn(20, 59*time.Minute, false), nil, "20 new members in a row", []string{"CKE224 n4"}},
		{"and not later", withdrawn(20, time.Hour, false), add(formed(4)), "", nil},
		{"a file that was set since is a reason to try", set, add(formed(4)), "", nil},
		{"its volume goes first", kept, op.PurgeVolume{Join: kept.Identity.Ended[0]}, "of a learner that never voted", nil},
		{"unless a person keeps it", undeleted, add(formed(4)), "", nil},
	})
}
