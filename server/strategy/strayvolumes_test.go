package strategy_test

import (
	"testing"

	"cke"
	"cke/server/strategy"
)

// A store that was older than a membership does not have it after a restore either: what that left is reported, since no rule removes it.
func TestReport_TellsOfVolumesOfReplacedLivesThatAreNotOnRecord(t *testing.T) {
	left := formed(3).running().with(func(s *scene) {
		s.Identity.Incarnation.Replaced = []string{"before"}
		for id, on := range map[cke.JoinID]int{"kept": 2, "lost": 2, "stopped": 3, "used": 2} {
			s.node(on).Volumes = append(s.node(on).Volumes, cke.Volume{Name: "etcd-cke." + string(id), Cluster: "demo", Incarnation: "before", Join: id})
		}
		carries := func(on int, id cke.JoinID, state cke.ContainerState) {
			s.node(on).Containers = append(s.node(on).Containers, cke.Container{Name: "etcd-cke." + string(id), State: state, Cluster: "demo", Incarnation: "before", Join: id, Data: cke.DataPresent})
		}
		carries(3, "stopped", cke.ContainerExited)
		carries(2, "used", cke.ContainerRunning) // it is stopped first
		s.Identity.Ended = append(s.Identity.Ended, cke.Join{ID: "kept", Incarnation: "before", Node: s.node(2).Node, Volume: "etcd-cke.kept", EndedAt: noon})
	})
	problems := strategy.Report(left.Input, strategy.Decide(left.Input), cke.Status{}).Problems
	purges := func(p cke.Problem, volume string) bool {
		return p.Code == cke.CodeNotOnRecord && p.Remedy == "if its data is not needed: ckecli volume purge etcd-cke."+volume
	}
	if len(problems) != 2 || !purges(problems[0], "lost") || !purges(problems[1], "stopped") {
		t.Errorf("%+v", problems)
	}
}
