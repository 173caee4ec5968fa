package op_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/op"
)

// slowLists is an etcd whose members that know no leader keep a linearizable question waiting, as etcd does, until
// the caller gives up (proposalLimit in etcdnode).
type slowLists struct{ cke.Etcd }

func (e slowLists) Members(ctx context.Context, url string) (string, []cke.Member, error) {
	id, all, err := e.Etcd.Members(ctx, url)
	if err != nil && strings.Contains(err.Error(), "no leader") {
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Second):
		}
	}
	return id, all, err
}

// There is no quorum, and a container runs that was made for another place than the one on record: it is moved, however long
// members without a leader take to say that they have none.
func TestStartChanged_MovesWhoIsMisplacedWhileListsAreSlow(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		j := w.joins()[0]
		w.runUntil(op.ChangeAddress{Join: j, Node: j.Node, ClientPort: 3379, PeerPort: 3380}, "stop") // told to etcd, still runs at 2379
		id := w.Store().Identity()
		for i := range id.Joins { // as the record has it once "record-address" is done and a start landed late
			if o := &id.Joins[i]; o.ID == j.ID {
				o.ClientPort, o.PeerPort, o.Etcd.ClientPort, o.Etcd.PeerPort = 3379, 3380, 3379, 3380
			}
		}
		w.Store().BringBack(w.Store().Copy().With(id))
		w.Nodes()[1].PowerOff()
		w.Nodes()[2].PowerOff()
		j = w.joins()[0]
		began := time.Now()
		_, err := w.runIn(func(e op.Env) op.Env { e.Etcd = slowLists{e.Etcd}; return e }, op.StartChanged{Join: j, Etcd: j.Etcd})
		c := w.looked0()
		t.Logf("after %s: %v", time.Since(began), err)
		if err != nil || !c.StandsAt(j) {
			t.Errorf("it stays where nobody reaches it: %v, %s", err, c.Place)
		}
	})
}
