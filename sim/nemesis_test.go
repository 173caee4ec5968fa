package sim_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"cke"
	"cke/sim"
)

// nemesis does what can go wrong, by chance, until it is over.
type nemesis struct {
	*rand.Rand
	s      *stage
	rate   float64 // of a fault at a call
	writes int
	// replace says whether members whose data is gone are replaced.
	replace   cke.ReplaceMode
	keepsData bool // takes no data away
	over      bool
	freeze    int // the call at which a frozen daemon wakes and late calls land
}

// judge is asked before every call.
func (n *nemesis) judge(call int, c sim.Call) sim.Verdict {
	if n.over {
		return sim.Proceed
	}
	if n.freeze > 0 && call >= n.freeze {
		n.land()
	}
	if n.Float64() > n.rate {
		return sim.Proceed
	}
	if n.IntN(3) == 0 {
		v := sim.Refuse + sim.Verdict(n.IntN(8))
		if v == sim.KillLate || v == sim.Linger || v == sim.Freeze {
			n.freeze = call + 1 + n.IntN(120)
		}
		return v
	}
	n.strike()
	return sim.Proceed
}

func (n *nemesis) land() {
	n.freeze = 0
	n.s.Land()
	for _, d := range n.s.drivers {
		d.Wake()
	}
}

// strike does one thing to the world.
func (n *nemesis) strike() {
	nodes := n.s.Nodes()
	node := nodes[n.IntN(len(nodes))]
	places := append(n.s.everyNode(), sim.Management)
	other := places[n.IntN(len(places))]
	switch n.IntN(34) {
	case 0:
		node.PowerOff()
	case 1, 2:
		node.PowerOn()
	case 3:
		node.Reboot()
	case 4:
		node.Freeze()
	case 5, 6:
		node.Thaw()
	case 7:
		node.Hang()
	case 8, 9:
		node.Unhang()
	case 10:
		n.s.Isolate(node.Name())
	case 11:
		n.s.Rejoin(node.Name())
	case 12:
		n.s.Cut(node.Name(), other)
	case 13:
		n.s.HealNetwork()
	case 14:
		node.FillDisk()
	case 15:
		node.FreeDisk()
	case 16:
		node.TakePort(cke.DefaultClientPort + n.IntN(2))
	case 17:
		node.ReleasePort(cke.DefaultClientPort)
		node.ReleasePort(cke.DefaultPeerPort)
	case 18:
		node.KillEtcd()
	case 19:
		node.PauseContainers(n.IntN(2) == 0)
	case 20:
		node.SlowDown(time.Duration(n.IntN(40)) * time.Second)
	case 21:
		node.SlowDown(0)
	case 22:
		n.s.Store().SetDown(true)
	case 23:
		n.s.Store().SetDown(false)
	case 24:
		n.lose(node)
	case 25:
		n.edit()
	case 26:
		node.ChangeHostKey()
	case 27:
		node.LieOfData(n.IntN(2) == 0)
	case 28:
		node.AddForeignEtcd("etcd", cke.DefaultClientPort)
	case 29:
		node.AddVolume(cke.Volume{Name: "etcd-cke"})
	case 30:
		node.StopByHand()
	default:
		n.write()
	}
}

// lose takes data away; once in a while from every node.
func (n *nemesis) lose(node *sim.Node) {
	if n.keepsData {
		return
	}
	nodes := []*sim.Node{node}
	if n.IntN(4) == 0 {
		nodes = n.s.Nodes()
	}
	how := n.IntN(3)
	for _, node := range nodes {
		switch how {
		case 0:
			node.Blank()
		case 1:
			node.RemoveVolumes()
		case 2:
			node.EmptyVolumes()
		}
	}
}

// edit changes the spec: which nodes are to carry members, and now and then how they run. Nodes without a member are
// declared, too, so that what is on them is seen.
func (n *nemesis) edit() {
	nodes := n.s.Nodes()
	n.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	c := n.s.cluster(nodes)
	members := 1 + n.IntN(len(nodes))
	for i := range c.Nodes {
		c.Nodes[i].ControlPlane = i < members
	}
	c.Options.Etcd.ExtraArgs = [][]string{nil, nil, nil, {"--quota-backend-bytes=1"}}[n.IntN(4)]
	c.Policies.Replace.Mode = n.replace
	n.s.Store().SetSpec(c)
}

// write lets a client write through some node.
func (n *nemesis) write() {
	nodes := n.s.everyNode()
	n.writes++
	n.s.Write(nodes[n.IntN(len(nodes))], fmt.Sprintf("w%d", n.writes))
}

// heal ends every fault, as persons would; data that was lost stays lost.
func (n *nemesis) heal() {
	n.over = true
	n.land()
	n.s.Store().SetDown(false)
	n.s.HealNetwork()
	for _, node := range n.s.Nodes() {
		node.PowerOn()
		node.Thaw()
		node.Unhang()
		node.FreeDisk()
		node.ReleasePort(cke.DefaultClientPort)
		node.ReleasePort(cke.DefaultPeerPort)
		node.PauseContainers(false)
		node.SlowDown(0)
		node.AcceptHostKey()
		node.RefuseKey(false)
		node.LieOfData(false)
		node.Remove("etcd")
		node.Remove("etcd-cke")
		node.FilterClientPort(false)
	}
}
