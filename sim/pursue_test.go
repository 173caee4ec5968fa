package sim_test

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"cke"
	"cke/sim"
)

// pursue does the next thing that leads to the operation that the schedule is about. Some of them come by chance once in a thousand
// schedules: what must not happen while they run would hardly ever be tried.
func (n *nemesis) pursue(node *sim.Node) {
	s, id := n.s, n.s.Store().Identity()
	asked, inc := len(s.asked()) > 0, id.Incarnation
	if inc == nil {
		return
	}
	node = n.carrier(node)
	switch n.focus {
	case "unfreeze", "end-finding":
		n.pursueFinding(node, id.Freeze, asked)
	case "freeze", "reclaim": // what a comparison finds it records itself
		n.pursueReclaim(node, id, asked)
	case "record-start":
		n.pursueStart(node, asked)
	case "adopt-member":
		n.pursueAdoption(node)
	case "undelete-volume", "purge-volume", "undelete", "purge":
		i := slices.IndexFunc(id.Ended, func(j cke.Join) bool { return j.RemovedAt.IsZero() && !j.Copied() })
		kind := cke.TaskUndelete
		if strings.HasPrefix(n.focus, "purge") {
			kind = cke.TaskPurge
		}
		switch {
		case asked:
		case i >= 0 && (kind == cke.TaskPurge || !id.Ended[i].KeepUntil.IsZero() || n.IntN(4) == 0):
			s.ask(kind, "", id.Ended[i].Volume, "")
		default:
			c := s.Store().Spec().Cluster
			c.Policies.Volumes = cke.VolumePolicies{OnRemoval: cke.VolumeArchive, Keep: cke.Duration(10 * time.Hour)}
			s.Store().SetSpec(c)
			s.ask(cke.TaskReplace, node.Name(), string(s.join(node.Name()).ID), "")
		}
	case "drain-for-reboot", "reboot-node", "note-reboot", agentsReboot:
		n.pursueReboot(node)
	case "rotate-authority", "advance-authority", "finish-authority":
		n.rotate()
	case "drain", "drain-node", "move-leader", "defragment", "replace", "promote-member", "enable-authentication", "disable-authentication", "change-user":
		if !asked {
			n.pursueTask(node)
		}
	case "start-changed":
		if s.settled() {
			c := s.Store().Spec().Cluster
			c.Options.Etcd.ExtraEnv = map[string]string{"GOMAXPROCS": strconv.Itoa(2 + n.IntN(6))}
			s.Store().SetSpec(c)
			n.apply()
			node.StopByHand()
		}
	case "keep-running":
		node.SwitchRestartsOff()
	case "compare", "auth":
		n.s.Store().Hibernate(n.IntN(3) > 0)
		if kind := (map[string]cke.TaskKind{"compare": cke.TaskCompare, "auth": cke.TaskAuth})[n.focus]; !asked {
			s.ask(kind, "", map[string]string{"auth": cke.AuthOn}[n.focus], "")
		}
	case "cancel-restore", "restore", "finish-restore":
		operation, step := s.Store().Running()
		switch {
		case operation == "restore" && n.IntN(4) == 0 && slices.Contains(afterFence, step):
			startFormer(n, node) // and clients find who serves
		case operation == "restore" && n.focus == "finish-restore" && slices.Contains([]string{"start", "serve", "verify", "keep-running"}, step):
			s.latest().Kill()
		case inc.State == cke.Restoring && n.focus == "cancel-restore" && (step == "fence" || !slices.Contains([]string{"record-request", "start-again", "check-started"}, n.at) && n.IntN(16) == 0):
			n.cancel()
		case inc.State == cke.Formed && !asked && s.settled():
			switch s.TakeBackup(); {
			case n.focus == "cancel-restore" && n.IntN(2) == 0:
				n.anotherHost()
			case n.at == "check": // it serves, and needs no recovery
				s.order(cke.RestoreOrder{Survivor: node.Name()})
			default:
				s.TargetRefuses(n.IntN(4) == 0) // then writes are not stopped
				s.order(fromBackup)
			}
		}
	case "allow-writes":
		n.pursueWrites(node, asked)
	case stuckLearner:
		if !asked && s.settled() {
			node.Trickle(true)
			s.ask(cke.TaskReplace, node.Name(), string(s.join(node.Name()).ID), "")
		}
	case olderBeside:
		n.pursueBeside(node)
	case wrongWord:
		n.pursueWord()
	case "begin-recovery":
		n.pursueRecovery(node, asked)
	case "end-membership":
		n.expelOurs(node)
	case "stop-apart":
		n.pursueApart(node, id, asked)
	case "mark-ended":
		n.pursueMark(node, id, asked)
	case "stop-stray":
		n.pursueStray(node, asked)
	case "renew-certificates":
		n.ageCertificates(node)
	case "change-address":
		n.move(node)
	case "restart-member":
		if s.settled() { // also by way of a version that cannot read what the one before wrote
			n.minor = min(n.minor+1, 7)
			n.edit()
		}
	case "disarm":
		switch {
		case n.at != "disarm NOSPACE" && n.IntN(3) > 0:
			n.pursueCorrupt(node, id.Freeze, asked)
		case slices.ContainsFunc(s.Alarms(), func(a cke.Alarm) bool { return a.Kind == "NOSPACE" }):
			s.Compact()
		default:
			n.fill(node)
		}
	}
}

// pursueTask asks for what the schedule is about, which is done or refused.
func (n *nemesis) pursueTask(node *sim.Node) {
	member := string(n.s.join(node.Name()).ID)
	switch n.focus {
	case "move-leader":
		n.s.ask(cke.TaskMoveLeader, node.Name(), "", "")
	case "defragment":
		n.s.ask(cke.TaskDefragment, node.Name(), "", "")
	case "replace":
		n.s.ask(cke.TaskReplace, node.Name(), "none", "")
	case "promote-member":
		n.s.ask(cke.TaskReplace, node.Name(), member, "")
	case "drain", "drain-node":
		n.drain(node.Name())
	case "change-user":
		n.changeUsers()
	default:
		n.authenticate()
	}
}

// gap is how many calls are let through before more is done that leads to the operation that the schedule is about.
func (n *nemesis) gap() int {
	often := n.focus == "allow-writes" || n.focus == "cancel-restore"
	if inc := n.s.Store().Identity().Incarnation; often && inc != nil && inc.State == cke.Restoring {
		return 1 + n.IntN(4)
	}
	return 4 + n.IntN(16)
}

// pursueCorrupt lets etcd find that data differs, and a person judge it, repair it, and take the alarm back.
func (n *nemesis) pursueCorrupt(node *sim.Node, f *cke.Freeze, asked bool) {
	switch {
	case !slices.ContainsFunc(n.s.Alarms(), func(a cke.Alarm) bool { return a.Kind == "CORRUPT" && !a.StopsWrites() }):
		n.corrupt(node)
		n.s.NoticeCorruption()
	case asked:
	case f.Active():
		n.s.eachNode((*sim.Node).RepairData)
		n.unfreeze()
	default:
		n.s.ask(cke.TaskDisarm, "", "", "")
	}
}

// pursueMark lets memberships end while their node is off, and puts it on again, which is marked then.
func (n *nemesis) pursueMark(node *sim.Node, id cke.Identity, asked bool) {
	switch carries := slices.ContainsFunc(id.Joins, func(j cke.Join) bool { return j.Node.Name() == n.away && !j.StartedAt.IsZero() }); {
	case n.away != "" && !carries:
		n.s.Node(n.away).PowerOn()
		n.away = ""
	case n.away == "" && !asked && len(id.Joins) > 2 && n.s.settled():
		n.away = node.Name()
		node.PowerOff()
		n.s.ask(cke.TaskReplace, n.away, string(n.s.join(n.away).ID), "")
	}
}

// carrier is a node that carries a member, if there is one: this one, or another.
func (n *nemesis) carrier(node *sim.Node) *sim.Node {
	if joins := n.s.Store().Identity().Joins; len(joins) > 0 {
		return n.s.MachineOf(joins[n.IntN(len(joins))])
	}
	return node
}

// pursueFinding lets data differ, be compared, be judged, and be repaired.
func (n *nemesis) pursueFinding(node *sim.Node, f *cke.Freeze, asked bool) {
	switch {
	case !f.Active() && n.focus == "unfreeze" && !asked && (n.at == "check" || n.IntN(8) == 0): // it is not frozen
		n.s.ask(cke.TaskUnfreeze, "", "none", "judged")
	case f.Active():
		if n.IntN(2) == 0 { // what differs next is another finding
			n.s.eachNode((*sim.Node).RepairData)
		}
		if !asked {
			n.unfreeze()
		}
	case f != nil && f.OverAt.IsZero() && n.IntN(3) > 0: // lifted, and not over
		n.s.eachNode((*sim.Node).RepairData)
		if !asked {
			n.s.ask(cke.TaskCompare, "", "", "")
		}
	default:
		n.corrupt(node)
		if !asked {
			n.s.ask(cke.TaskCompare, "", "", "")
		}
	}
}

// pursueReclaim lets a member be replaced, or all have other ports, after a copy of the store was made, and brings that back,
// often while a member is down.
func (n *nemesis) pursueReclaim(node *sim.Node, id cke.Identity, asked bool) {
	since := n.copied != nil && slices.ContainsFunc(id.Joins, func(j cke.Join) bool {
		was, there := n.copied.Identity().Join(j.ID)
		return !n.copied.Identity().Has(j.ID) && !j.StartedAt.IsZero() || there && was.Place() != j.Place()
	})
	switch {
	case !asked && n.IntN(4) == 0: // what is not, or not any more, to be put on record
		task := cke.NewTask(cke.TaskReclaim, "", "", "eve@host", n.s.Now())
		task.Reclaim = []cke.JoinID{"none"}
		n.s.Store().Ask("reclaim", func(q *cke.Requests) { q.Tasks = append(q.Tasks, task) })
	case id.Freeze.Active():
		if !asked && !n.reclaim() {
			n.unfreeze()
		}
	case n.copied == nil || !since && n.IntN(4) == 0:
		n.copy()
	case since && n.s.settled():
		if n.IntN(2) == 0 {
			[]func(){node.PowerOff, node.StopByHand, func() { n.s.Isolate(node.Name()) }}[n.IntN(3)]()
		}
		n.putBack()
	case n.s.settled() && n.IntN(2) == 0:
		c := n.s.Store().Spec().Cluster
		if n.ported = !n.ported; n.ported {
			c.Options.Etcd.ClientPort, c.Options.Etcd.PeerPort = 3379, 3380
		} else {
			c.Options.Etcd.ClientPort, c.Options.Etcd.PeerPort = 0, 0
		}
		n.s.Store().SetSpec(c)
	case !asked && n.s.settled():
		n.s.ask(cke.TaskReplace, node.Name(), string(n.s.join(node.Name()).ID), "")
	}
}

// pursueStart brings a copy back from the addition of a member, often while one is down.
func (n *nemesis) pursueStart(node *sim.Node, asked bool) {
	switch {
	case asked || !n.s.settled():
	case n.IntN(2) == 0:
		n.s.ask(cke.TaskReplace, node.Name(), string(n.s.join(node.Name()).ID), "")
	default:
		if n.copy(); n.IntN(2) == 0 {
			[]func(){node.PowerOff, node.StopByHand, func() { n.s.Isolate(node.Name()) }}[n.IntN(3)]()
		}
		n.putBack()
	}
}

// pursueAdoption lets a person add a member on a node that carries none, which is then to be adopted.
func (n *nemesis) pursueAdoption(node *sim.Node) {
	if n.s.ForeignMembers() > 0 {
		n.adopt(node)
		return
	}
	for _, free := range n.s.Nodes() {
		if containers, _ := free.Look(); len(containers) == 0 {
			c := n.s.Store().Spec().Cluster
			c.Policies.Foreign = cke.ForeignHold
			n.s.Store().SetSpec(c)
			n.addByHand(free)
			return
		}
	}
	n.edit()
}

// pursueWrites cuts a restore off while writes are stopped for it, and lets it wait for a node.
func (n *nemesis) pursueWrites(node *sim.Node, asked bool) {
	s := n.s
	operation, _ := s.Store().Running()
	switch inc := s.Store().Identity().Incarnation; {
	case inc.State == cke.Restoring && operation == "restore" && slices.ContainsFunc(s.Alarms(), cke.Alarm.StopsWrites):
		node.PowerOff()
		s.latest().Kill()
	case inc.State == cke.Restoring && n.IntN(12) == 0:
		s.eachNode((*sim.Node).PowerOn)
	case inc.State == cke.Formed && !asked && s.settled():
		s.TakeBackup()
		s.order(toldStored)
	}
}

// pursueRecovery takes all data but that of one node away, and orders a recovery from that.
func (n *nemesis) pursueRecovery(node *sim.Node, asked bool) {
	id := n.s.Store().Identity()
	holds := func(o *sim.Node) bool {
		return slices.ContainsFunc(id.Joins, func(j cke.Join) bool { return j.Node.Name() == o.Name() && o.Holds(j.Volume) })
	}
	switch {
	case asked || n.keepsData || id.Incarnation.State != cke.Formed:
	case n.s.Recoverable():
		if n.s.settled() && holds(node) {
			for _, o := range n.s.Nodes() {
				if o != node {
					o.Blank()
				}
			}
		}
	default:
		if i := slices.IndexFunc(n.s.Nodes(), holds); i >= 0 {
			n.s.order(cke.RestoreOrder{Survivor: n.s.Nodes()[i].Name()})
		}
	}
}

// expelOurs removes a member of ours with etcdctl, where all are well.
func (n *nemesis) expelOurs(node *sim.Node) {
	if status := n.s.told(); status.Health == cke.HealthReady && status.Ready >= 3 && n.s.Serving() == status.Ready {
		n.s.Forget(node.Name())
	}
}

// pursueStray lets a membership end while its node is away, and come back.
func (n *nemesis) pursueStray(node *sim.Node, asked bool) {
	if n.away != "" {
		away := n.s.Node(n.away)
		if _, lasts := n.s.Store().Identity().On(away.Declared()); !lasts || n.IntN(10) == 0 {
			away.PowerOn()
			n.away = ""
		}
		return
	}
	if !asked && n.s.settled() {
		n.away = node.Name()
		j := n.s.join(node.Name())
		node.PowerOff()
		n.s.ask(cke.TaskReplace, node.Name(), string(j.ID), "")
	}
}
