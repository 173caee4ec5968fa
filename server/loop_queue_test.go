package server_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"cke"
)

// EditQueue changes a queue of the requests.
func (t *stageTerm) EditQueue(ctx context.Context, kind cke.QueueKind, edit func(cke.Queue) (cke.Queue, error)) (err error) {
	failed := t.write(ctx, "edit-queue", func() {
		var q cke.Queue
		if q, err = edit(*t.requests.Queue(kind)); err == nil {
			*t.requests.Queue(kind) = q
		}
	})
	return errors.Join(failed, err)
}

// EnsureImage needs the node to take an image.
func (m stageMachine) EnsureImage(ctx context.Context, _ string, _ func(string)) error {
	return m.call(ctx, "image", func(int) {})
}

// noCommand is a command that is there and does nothing.
type noCommand struct{}

func (noCommand) Names() []string { return []string{"power-cycle"} }

func (noCommand) Run(context.Context, cke.CommandRun, ...string) (string, error) { return "", nil }

// In a cluster that is as declared, what failed counts for as long as it is held back: it is tried with growing pauses, the list shows why,
// and it is given up in the end.
func TestLoop_ANodeThatCannotBeDrainedIsFailedInTheEnd(t *testing.T) {
	onStage(t, formed(3), func(g *stage) {
		g.commands = noCommand{}
		n := cke.Node{Hostname: "n4", Address: "10.0.0.4"}
		g.scene.Spec.Nodes = append(g.scene.Spec.Nodes, n)
		g.scene.Spec.Reboot = cke.RebootOptions{Command: "power-cycle"}.WithDefaults()
		g.scene.Seen.Nodes = append(g.scene.Seen.Nodes, cke.NodeStatus{Node: n})
		for i := range g.scene.Seen.Nodes {
			g.scene.Seen.Nodes[i].Clock = time.Time{}
		}
		g.do = func(context.Context, string, string) error { return errors.New("the disk is full") }
		p := g.perform()
		g.change(func() {
			p.term.requests.Reboots.Entries = []cke.Entry{{ID: "r4", Node: "n4", Address: n.Address, State: cke.EntryQueued, AddedAt: time.Now(), Since: time.Now()}}
		})
		p.term.wake()
		g.pass(30 * time.Second)
		s := g.status()
		if len(s.Reboots.Entries) != 1 || !strings.Contains(s.Reboots.Entries[0].Waits, "the disk is full") || len(s.LastErrors) != 1 || s.Health != cke.HealthReady {
			t.Errorf("%s, %+v, last errors %+v", s.Health, s.Reboots.Entries, s.LastErrors)
		}
		if got := g.told(); len(got) > 8 {
			t.Errorf("%d records in half a minute: %v", len(got), got)
		}
		g.pass(15 * time.Minute)
		if e := p.term.Requests().Reboots.Entries; len(e) != 1 || e[0].State != cke.EntryFailed || !strings.Contains(e[0].Error, "the disk is full") {
			t.Errorf("%+v", e)
		}
		if got := g.told(); len(got) > 40 {
			t.Errorf("%d records in a quarter of an hour", len(got))
		}
		p.over()
	})
}
