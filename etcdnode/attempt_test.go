package etcdnode

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"

	"cke"
)

// silentNode accepts connections and never says anything; asked receives when a client has sent something.
func silentNode(t *testing.T, address string) (n cke.Node, asked <-chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", address+":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	heard := make(chan struct{}, 100)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { conn.Close() })
			if n, _ := conn.Read(make([]byte, 1)); n > 0 {
				heard <- struct{}{}
			}
		}
	}()
	n = cke.Node{Address: address, Hostname: "n-" + address, User: "cke", ControlPlane: true}
	n.SSH.Port = l.Addr().(*net.TCPAddr).Port
	return n, heard
}

// Nodes of one cluster that hang hold up no node of another.
func TestConnect_SilentNodesHoldNoHandshakeOfOthers(t *testing.T) {
	t.Parallel()
	slots := semaphore.NewWeighted(2)
	healthy := newFakeNode(t, "127.0.34.1", "ed25519", "ed25519")
	bound := func(c *Config) { c.Handshakes = slots }
	silent := fleetOf(t, newMemoryHostKeys(), func(c *Config) {
		bound(c)
		c.Keys = func(context.Context, cke.Node) ([]byte, error) { return healthy.keyPEM, nil }
	})
	cluster := cke.Cluster{Name: "silent"}
	for _, address := range []string{"127.0.34.2", "127.0.34.3"} {
		n, asked := silentNode(t, address)
		cluster.Nodes = append(cluster.Nodes, n)
		silent.Update(cluster, cke.Identity{})
		<-asked
	}
	if !slots.TryAcquire(2) {
		t.Error("a handshake is held for nodes that say nothing")
	} else {
		slots.Release(2)
	}
	if _, err := fleetOf(t, newMemoryHostKeys(), bound, healthy).session(t.Context(), healthy.node); err != nil {
		t.Error(err)
	}
}

func TestAttempt_HoldsASlotWhileTheNodeAnswersAndIsNotLimitedWhileItWaitsForOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := semaphore.NewWeighted(1)
		free := func() bool {
			synctest.Wait()
			got := slots.TryAcquire(1)
			if got {
				slots.Release(1)
			}
			return got
		}
		a := newAttempt(t.Context(), slots, dialLimit)
		ours, node := net.Pipe()
		c := attemptConn{ours, a}
		read := make(chan error)
		reads := func() { _, err := c.Read(make([]byte, 1)); read <- err }

		go reads()
		if !free() {
			t.Error("it holds a slot before the node has said anything")
		}
		node.Write([]byte("S"))
		<-read
		time.Sleep(2 * slotIdle) // here it computes
		if free() {
			t.Error("it computes without a slot")
		}
		go reads()
		if free() {
			t.Error("it gives way at once")
		}
		time.Sleep(slotIdle)
		if !free() {
			t.Error("it holds a slot while the node keeps it waiting")
		}

		if !slots.TryAcquire(1) {
			t.Fatal("the slot is not free")
		}
		node.Write([]byte("S"))
		time.Sleep(10 * dialLimit)
		if err := a.ctx.Err(); err != nil {
			t.Error("the limit passed while it waited for a slot:", err)
		}
		slots.Release(1)
		<-read
		go reads()
		time.Sleep(dialLimit)
		synctest.Wait()
		if err := context.Cause(a.ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error("there is no limit any more:", err)
		}
		a.end()
		if !free() {
			t.Error("a slot is held after the end")
		}
		node.Close()
		<-read
	})
}

// What a node sends right after the login belongs to the session.
func TestAttempt_ThatIsOverLosesNothingAndHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := semaphore.NewWeighted(1)
		a := newAttempt(t.Context(), slots, dialLimit)
		ours, node := net.Pipe()
		defer node.Close()
		c := attemptConn{ours, a}
		slots.TryAcquire(1)
		read := make(chan error)
		for range 2 { // of two connections, one may still read
			go func() { _, err := c.Read(make([]byte, 1)); read <- err }()
			node.Write([]byte("S"))
		}
		synctest.Wait()
		a.end()
		for range 2 {
			if err := <-read; err != nil {
				t.Error(err)
			}
		}
		slots.Release(1)
		if !slots.TryAcquire(1) {
			t.Error("a slot is held")
		}
		a.end()
	})
}

func TestAttempt_OfTwoConnectionsHoldsOneSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := semaphore.NewWeighted(2)
		a := newAttempt(t.Context(), slots, dialLimit)
		slots.TryAcquire(2)
		for range 2 {
			go a.take()
		}
		synctest.Wait()
		slots.Release(2)
		synctest.Wait()
		if !slots.TryAcquire(1) || slots.TryAcquire(1) {
			t.Error("it does not hold one slot")
		}
		a.end()
		if !slots.TryAcquire(1) {
			t.Error("a slot is held after the end")
		}
	})
}
