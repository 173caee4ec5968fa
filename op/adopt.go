package op

import (
	"context"
	"fmt"
	"strings"

	"cke"
)

// AdoptMember takes a member that no membership names out of the list, and stops the foreign container on its node that
// carried it for good. The container and its volumes are kept. What comes in its place is AddMember's.
type AdoptMember struct {
	Node cke.Node
	// Member is its entry in the list, which may have left it already.
	Member cke.Member
	// Container is the engine's id of what carries it; empty: nothing is to be stopped.
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
		{{Name: "move-leader", Node: n, Run: a.moveLeader}},
		{{Name: "remove", Node: n, Limit: ChangeLimit, Run: func(ctx context.Context, e Env) error {
			return whenReady(ctx, e, func() error { return RemoveMember{Member: a.Member}.remove(ctx, e) })
		}}},
	}
	if a.Container == "" {
		return stages
	}
	find := Stage{{Name: "find-container", Node: n, Run: a.find}}
	return append(append([]Stage{find}, stages...), Stage{{Name: "stop-container", Node: n, Limit: stopLimit, Run: a.stop}})
}

// listed looks for the member in the list.
func (a AdoptMember) listed(ctx context.Context, e Env) (m cke.Member, id cke.Identity, there bool, err error) {
	list, id, err := readList(ctx, e)
	for _, m := range list.members {
		if m.ID == a.Member.ID {
			return m, id, true, err
		}
	}
	return m, id, false, err
}

// find makes sure, while the member is in the list, that the container is what carries it.
func (a AdoptMember) find(ctx context.Context, e Env) error {
	m, id, there, err := a.listed(ctx, e)
	if err != nil || !there {
		return err
	}
	for _, j := range id.Joins {
		if Is(m, j) {
			return fmt.Errorf("member %s is that of membership %s: %w", m.ID, j.ID, cke.ErrConflict)
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

// moveLeader moves leadership away from the member if it leads. etcd takes that from the leader alone.
func (a AdoptMember) moveLeader(ctx context.Context, e Env) error {
	m, id, there, err := a.listed(ctx, e)
	if err != nil || !there || !leads(ctx, e, id, m.ID) {
		return err
	}
	best := successor(ctx, e, id, "")
	if best == "" {
		return nil // the gate will not let it pass
	}
	url, known := cke.StrangerURL(m, id.Joins)
	if !known {
		return LeadsAlone(m, nil)
	}
	if err := e.Etcd.MoveLeader(ctx, url, best); err != nil && leads(ctx, e, id, m.ID) {
		return LeadsAlone(m, err)
	}
	return nil
}

// LeadsAlone is the refusal to take a member away that leads and does not let cke move its leadership.
func LeadsAlone(m cke.Member, err error) *cke.Error {
	return &cke.Error{Code: cke.CodeCannot, What: fmt.Sprintf("member %s leads, and its leadership cannot be moved away by cke", m.ID), Unchanged: true, Err: err,
		Facts: []string{"etcd takes that order from the leader alone, which has to trust cke's client certificate"},
		Try:   "etcdctl --endpoints=" + strings.Join(m.ClientURLs, ",") + " move-leader ID"}
}

// leads reports whether the members of memberships that answer say that this one leads.
func leads(ctx context.Context, e Env, id cke.Identity, member string) bool {
	for _, j := range id.Joins {
		if s := e.Etcd.Endpoint(ctx, j.ClientURL()); s.Healthy() && s.LeaderID != "" {
			return s.LeaderID == member
		}
	}
	return false
}

// stop stops the container, unless the member is in the list again.
func (a AdoptMember) stop(ctx context.Context, e Env) error {
	m, _, there, err := a.listed(ctx, e)
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
		e.Progress(keptWords(c))
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
