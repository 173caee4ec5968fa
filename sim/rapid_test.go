package sim_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cke"
	"cke/sim"
)

// step is one line of a short story: what happens, and how long the world then goes on.
type step struct {
	text string
	do   func(s *stage)
	then time.Duration
}

func (s step) String() string { return fmt.Sprintf("%s, %v", s.text, s.then) }

const storyNodes = 4

// anyStep draws one thing that happens to a cluster of storyNodes machines.
func anyStep(t *rapid.T) step {
	n := rapid.IntRange(1, storyNodes).Draw(t, "node")
	name := fmt.Sprintf("n%d", n)
	on := func(what string, do func(*sim.Node)) step {
		return step{text: name + ": " + what, do: func(s *stage) { do(s.Node(name)) }}
	}
	kinds := []func() step{
		func() step {
			return step{text: fmt.Sprintf("members on n1 to n%d", n), do: func(s *stage) { s.Store().SetSpec(s.wantFirst(n)) }}
		},
		func() step {
			return step{text: "other arguments", do: func(s *stage) {
				c := s.Store().Spec().Cluster
				c.Options.Etcd.ExtraArgs = []string{fmt.Sprintf("--heartbeat-interval=%d", 100+n)}
				s.Store().SetSpec(c)
			}}
		},
		func() step { return on("power off", (*sim.Node).PowerOff) },
		func() step { return on("power on", (*sim.Node).PowerOn) },
		func() step { return on("volumes emptied", (*sim.Node).EmptyVolumes) },
		func() step { return on("engine hangs", (*sim.Node).Hang) },
		func() step { return on("engine answers", (*sim.Node).Unhang) },
		func() step { return on("docker stop", (*sim.Node).StopByHand) },
		func() step { return on("isolated", func(node *sim.Node) { node.World().Isolate(name) }) },
		func() step { return on("rejoined", func(node *sim.Node) { node.World().Rejoin(name) }) },
		func() step {
			return step{text: "drain " + name, do: func(s *stage) { s.person().drain(name) }}
		},
		func() step {
			return step{text: "replace " + name, do: func(s *stage) { s.ask(cke.TaskReplace, name, string(s.join(name).ID), "") }}
		},
		func() step {
			return step{text: "another daemon leads", do: func(s *stage) { s.latest().Kill(); s.daemon() }}
		},
		func() step {
			return step{text: "write through " + name, do: func(s *stage) { s.Write(name, fmt.Sprintf("w%d", time.Now().UnixNano())) }}
		},
	}
	s := kinds[rapid.IntRange(0, len(kinds)-1).Draw(t, "kind")]()
	s.then = time.Duration(rapid.IntRange(0, 3000).Draw(t, "milliseconds")) * time.Millisecond
	return s
}

// person is somebody who does nothing by chance but how long a lease lasts.
func (s *stage) person() *nemesis { return &nemesis{Rand: rand.New(rand.NewPCG(1, 1)), s: s} }

// wantFirst declares members on the first nodes.
func (s *stage) wantFirst(n int) cke.Cluster {
	var members []int
	for i := 1; i <= n; i++ {
		members = append(members, i)
	}
	c := s.want(members, false)
	c.Options.Etcd.ExtraArgs = s.Store().Spec().Cluster.Options.Etcd.ExtraArgs
	return c
}

// tellStory plays steps on a formed cluster of three, then heals the world. It returns what is wrong in the end.
func tellStory(t *testing.T, steps []step) (faults []string) {
	play(t, storyNodes, func(s *stage) {
		s.Store().SetSpec(s.wantFirst(3))
		s.daemon()
		if !s.until(convergence, s.settled) {
			faults = []string{"does not form"}
			return
		}
		n := s.person()
		for _, step := range steps {
			step.do(s)
			s.pass(step.then)
		}
		n.heal()
		s.until(bound, func() bool { s.succeed(); return s.news() && s.arrived() })
		if faults = s.Violations(); faults == nil && !s.arrived() {
			dec, _ := s.latest().now()
			faults = append(s.faults(s.declared()...), "does not converge: "+describeDecision(s.latest().Number(), dec))
		}
	})
	return faults
}

// Short stories without lost calls: whatever happens in whatever order, nothing that must never happen does, and the
// world comes where it can come. What fails is told in the fewest steps that rapid finds.
func TestCluster_KeepsItsPromisesInShortStories(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.Custom(anyStep), 1, 12).Draw(rt, "story")
		if faults := tellStory(t, steps); faults != nil {
			rt.Fatalf("%s\n%s", fmt.Sprint(steps), strings.Join(faults, "\n"))
		}
	})
}
