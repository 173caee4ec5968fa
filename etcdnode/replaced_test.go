package etcdnode

import (
	"context"
	"errors"
	"testing"

	"cke"
)

// The cluster file names another user while an operation waits for an attempt that comes after the one under way.
func TestUpdate_AnOperationThatWaitsTakesTheNewAccess(t *testing.T) {
	t.Parallel()
	node := newFakeNode(t, "127.0.33.1", "ed25519", "ed25519")
	replaced, attempts := make(chan struct{}), make(chan int, 100)
	begun := 0
	fleet := fleetOf(t, newMemoryHostKeys(), func(c *Config) {
		c.Keys = func(ctx context.Context, n cke.Node) ([]byte, error) {
			if n.User == "other" {
				close(replaced)
				return node.keyPEM, nil
			}
			begun++
			attempts <- begun
			if begun > 1 {
				<-replaced
				<-ctx.Done()
			}
			return nil, errors.New("no key yet")
		}
	})
	fleet.Update(clusterOf(node), cke.Identity{})
	for <-attempts < 2 {
	}
	fleet.mu.Lock()
	link := fleet.nodes[node.node.Address].link
	fleet.mu.Unlock()
	got := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go func() {
		_, err := fleet.session(ctx, node.node)
		got <- err
	}()
	<-link.poked // it waits for the third attempt
	node.node.User = "other"
	fleet.Update(clusterOf(node), cke.Identity{})
	if err := <-got; err != nil {
		t.Error(err)
	}
}

// What is done on a node follows its name of now: keys are kept by it, and commands name it.
func TestUpdate_ARenamedNodeIsCalledByItsNewName(t *testing.T) {
	t.Parallel()
	node := newFakeNode(t, "127.0.33.2", "ed25519", "ed25519")
	fleet := fleetOf(t, newMemoryHostKeys(), func(c *Config) {
		c.Keys = func(_ context.Context, n cke.Node) ([]byte, error) {
			if n.Name() == "new" {
				return node.keyPEM, nil
			}
			return nil, cke.ErrNotFound
		}
	})
	fleet.Update(clusterOf(node), cke.Identity{})
	awaitProblem(t, fleet, cke.CodeNoSSHKey, patience)
	node.node.Hostname = "new"
	fleet.Update(clusterOf(node), cke.Identity{})
	awaitProblem(t, fleet, "", patience)
	node.engine.answer("GET /volumes", `{"Volumes":5}`)
	if p := awaitProblemBy(t, fleet, cke.CodeAnswer); p.Node != "new" {
		t.Errorf("%+v", p)
	}
}
