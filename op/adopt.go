package op

import (
	"context"
	"fmt"
	"strings"

	"cke"
)

// AdoptMember removes a member that no membership names from the list, and permanently stops the foreign container on
// its node that ran it. The container and its volumes are kept. AddMember then adds its replacement.
type AdoptMember struct {
	Node cke.Node
	// Member is its entry in the list, which may have left it already.
	Member cke.Member
	// Container is the engine's id of its container; empty: nothing must be stopped.
	Container string
}

var _ Operation = AdoptMember{}

// Name implements Operation.
func (AdoptMember) Name() string { return "adopt-member" }

// Targets implements Operation.
func (a AdoptMember) Targets() []string { return []string{a.Node.Name()} }

// Stages implements Operation.
func (a AdoptMember) Stages() []Stage {
	n := a.Node.Name()
	stages := []Stage{
		{{Name: "move-leader", Node: n, Run: func(ctx context.Context, e Env) error { return moveLeaderFromStranger(ctx, e, a.Member.ID) }}},
		{{Name: "remove", Node: n, Limit: changeLimit, Run: func(ctx context.Context, e Env) error {
			return whenReady(ctx, e, func() error { return RemoveMember{Member: a.Member}.remove(ctx, e) })
		}}},
	}
	if a.Container == "" {
		return stages
	}
	find := Stage{{Name: "find-container", Node: n, Run: a.find}}
	return append(append([]Stage{find}, stages...), Stage{{Name: "stop-container", Node: n, Limit: stopLimit, Run: a.stop}})
}

// find makes sure, while the member is in the list, that the container is what carries it.
func (a AdoptMember) find(ctx context.Context, e Env) error {
	m, id, there, err := listedMember(ctx, e, a.Member.ID)
	if err != nil || !there {
		return err
	}
	for _, j := range id.Joins {
		if m.Of(j) {
			return fmt.Errorf("member %s belongs to membership %s: %w", m.ID, j.ID, cke.ErrConflict)
		}
	}
	c, err := e.Machines.Machine(a.Node).Foreign(ctx, a.Container)
	if err != nil {
		return err
	}
	if !c.Carries(m.PeerURLs) {
		return fmt.Errorf("container %s does not carry the member at %s: %w", c.Name, strings.Join(m.PeerURLs, ", "), cke.ErrConflict)
	}
	return nil
}

// stop stops the container, unless the member is in the list again.
func (a AdoptMember) stop(ctx context.Context, e Env) error {
	m, _, there, err := listedMember(ctx, e, a.Member.ID)
	if err != nil {
		return err
	}
	if there {
		return fmt.Errorf("member %s is still in the list: %w", m.ID, cke.ErrConflict)
	}
	machine := e.Machines.Machine(a.Node)
	if err := machine.StopForeign(ctx, a.Container, a.Member.PeerURLs, stopGrace); err != nil {
		return err
	}
	if c, err := machine.Foreign(ctx, a.Container); err == nil {
		e.Note(keptWords(c))
	}
	return nil
}

// keptWords tell what is left of a stranger on its node.
func keptWords(c cke.Container) string {
	words := "container " + c.Name + " is stopped, not started again, and kept"
	if len(c.Mounts) > 0 {
		words += ", with " + strings.Join(c.Mounts, ", ")
	}
	return words
}
