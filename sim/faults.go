package sim

import (
	"fmt"
	"time"

	"cke"
)

// PowerOff stops everything on the node at once; disks stay.
func (n *Node) PowerOff() { n.change("power off", n.powerOff) }

func (n *Node) powerOff() {
	n.on, n.frozen, n.backlog = false, false, nil
	for _, c := range n.sorted() {
		if c.State == cke.ContainerRunning || c.State == cke.ContainerPaused || c.State == cke.ContainerRestarting {
			c.ends(255, "")
		}
	}
}

// PowerOn boots the node; its engine starts what it is to keep running.
func (n *Node) PowerOn() {
	n.change("power on", func() {
		if !n.on {
			n.powerOn()
		}
	})
}

func (n *Node) powerOn() {
	if n.left {
		return
	}
	n.on, n.hung, n.commanded, n.granted = true, false, false, false
	n.boots++
	for _, c := range n.sorted() {
		if c.keep && !c.stoppedByHand {
			c.run()
		}
	}
}

// On reports whether the node has power.
func (n *Node) On() bool {
	n.world.mu.Lock()
	defer n.world.mu.Unlock()
	return n.on
}

// Reboot is a short loss of power.
func (n *Node) Reboot() { n.PowerOff(); n.PowerOn() }

// Blank replaces the node by a new machine at the same address, with an empty disk.
func (n *Node) Blank() {
	n.change("replaced by a blank machine", func() {
		n.powerOff()
		n.wipe()
		n.on, n.hung, n.commanded, n.granted = true, false, false, false
		n.boots++
	})
}

// Freeze stops the whole machine where it is; Thaw lets it continue.
func (n *Node) Freeze() { n.change("frozen", func() { n.frozen = true }) }

// Thaw ends a Freeze.
func (n *Node) Thaw() {
	n.change("thawed", func() {
		if n.frozen {
			n.frozen, n.rejoined = false, n.world.now()
		}
	})
}

// Hang stops the Docker engine from answering; containers continue. What is requested meanwhile it does on Unhang.
func (n *Node) Hang() { n.change("engine hangs", func() { n.hung = true }) }

// Unhang lets the engine do what it was asked.
func (n *Node) Unhang() {
	n.change("engine answers again", func() {
		n.hung = false
		backlog := n.backlog
		n.backlog = nil
		for _, do := range backlog {
			do()
			n.world.settle()
		}
	})
}

// FillDisk leaves no room; FreeDisk makes room again.
func (n *Node) FillDisk() { n.change("disk full", func() { n.full = true }) }

// FreeDisk ends a FillDisk.
func (n *Node) FreeDisk() { n.change("disk has room", func() { n.full = false }) }

// TakePort lets something else listen on a port; ReleasePort ends it.
func (n *Node) TakePort(port int) {
	n.change(fmt.Sprintf("port %d taken", port), func() { n.taken[port] = true })
}

// ReleasePort ends a TakePort.
func (n *Node) ReleasePort(port int) {
	n.change(fmt.Sprintf("port %d free", port), func() { delete(n.taken, port) })
}

// ChangeHostKey lets sshd show another key than the pinned one; AcceptHostKey is the operator's consent.
func (n *Node) ChangeHostKey() { n.change("host key changed", func() { n.hostKey++ }) }

// AcceptHostKey pins the key that is shown now.
func (n *Node) AcceptHostKey() { n.change("host key accepted", func() { n.pinned = n.hostKey }) }

// RefuseKey lets sshd refuse the login or, with false, accept it again.
func (n *Node) RefuseKey(refuse bool) {
	n.change(fmt.Sprintf("refuses the login: %v", refuse), func() { n.refusesKey = refuse })
}

// FilterClientPort lets a firewall drop what the management host sends to the client port, or ends that.
func (n *Node) FilterClientPort(on bool) {
	n.change(fmt.Sprintf("client port filtered: %v", on), func() { n.filtered = on })
}

// LieOfData lets the engine call every volume's data present; with false it reports the truth again.
func (n *Node) LieOfData(lie bool) {
	n.change(fmt.Sprintf("lies of data: %v", lie), func() { n.liesOfData = lie })
}

// SlowVolumes lets no check of a volume on the node complete in time: its content stays unknown unless the caller waits.
func (n *Node) SlowVolumes(on bool) {
	n.change(fmt.Sprintf("checks of volumes are slow: %v", on), func() { n.slowVolume = on })
}

// Trickle lets members on the node fall behind, as a slow disk or a slow link does; learners there never catch up.
func (n *Node) Trickle(on bool) {
	n.change(fmt.Sprintf("members fall behind: %v", on), func() { n.trickles = on })
}

// Strain lets clients write more than a member on the node can write snapshots of, if it is to write one after every entry: it applies
// more and more, and serves no client.
func (n *Node) Strain(on bool) {
	n.change(fmt.Sprintf("members that write snapshots fall behind: %v", on), func() { n.strained = on })
}

// SlowStart lets members on the node read their databases for so long after each start before they answer clients.
func (n *Node) SlowStart(d time.Duration) {
	n.change(fmt.Sprintf("members start slowly: %v", d), func() { n.loads = d })
}

// JumpClock sets the node's clock forward, or back.
func (n *Node) JumpClock(d time.Duration) {
	n.change(fmt.Sprintf("clock jumps by %v", d), func() { n.skew += d })
}

// SetClock corrects the node's clock.
func (n *Node) SetClock() { n.change("clock set right", func() { n.skew = 0 }) }

func (n *Node) clock() time.Time { return n.world.now().Add(n.skew) }

// MoveSSH lets sshd listen on another port.
func (n *Node) MoveSSH(port int) {
	n.change(fmt.Sprintf("sshd on port %d", port), func() { n.sshPort = port })
}

// SlowDown lets every call to the node take this long.
func (n *Node) SlowDown(d time.Duration) {
	n.change(fmt.Sprintf("slow: %v", d), func() { n.slow = d })
}

// AddForeignEtcd runs an etcd container that cke did not make, which listens on the ports given.
func (n *Node) AddForeignEtcd(name string, ports ...int) {
	n.change("foreign etcd "+name, func() {
		c := &container{node: n, foreign: true}
		c.ID, c.Name, c.Image, c.State = n.name+"/"+name, name, "quay.io/coreos/etcd:v3.5.9", cke.ContainerRunning
		n.containers[name] = c
		for _, p := range ports {
			n.taken[p] = true
		}
	})
}

// ForgetLabels is what an engine does whose database of volumes was lost or removed: volumes and their data are there, their labels are not.
func (n *Node) ForgetLabels() {
	n.change("the engine has lost the labels of its volumes", func() {
		for _, v := range n.volumes {
			v.cluster, v.incarnation, v.join = "", "", ""
		}
	})
}

// Rename is `docker rename`: the container keeps running, with its labels.
func (n *Node) Rename(from, to string) {
	n.change("an operator renames "+from, func() {
		if c := n.containers[from]; c != nil {
			delete(n.containers, from)
			c.Name, n.containers[to] = to, c
		}
	})
}

// AddVolume puts a volume on the node that the operator or another incarnation left.
func (n *Node) AddVolume(v cke.Volume) {
	n.change("volume "+v.Name, func() {
		n.volumes[v.Name] = &volume{name: v.Name, cluster: v.Cluster, incarnation: v.Incarnation, join: v.Join, createdAt: n.world.now(),
			files: map[string]bool{"something": true}}
	})
}

// Remove removes a container or volume, as an operator does, whatever runs in it.
func (n *Node) Remove(name string) {
	n.change("the operator removes "+name, func() {
		if c := n.containers[name]; c != nil {
			if c.foreign {
				clear(n.taken)
			}
			c.ends(137, "")
			delete(n.containers, name)
		}
		delete(n.volumes, name)
	})
}

// EmptyVolumes deletes the content of every volume without the engine's knowledge, and stops what ran on them.
func (n *Node) EmptyVolumes() {
	n.change("volumes emptied", func() {
		for _, v := range n.volumes {
			v.files, v.wal, v.worth = map[string]bool{}, nil, nil
		}
		n.crashAll(1, "open member/snap/db: no such file or directory")
	})
}

// RemoveVolumes removes the containers and the volumes of the cluster without cke's knowledge.
func (n *Node) RemoveVolumes() {
	n.change("containers and volumes removed", func() {
		for _, c := range n.sorted() {
			c.ends(137, "")
		}
		n.volumes, n.containers = map[string]*volume{}, map[string]*container{}
	})
}

// StopByHand stops every container as `docker stop` does: the engine does not start them again.
func (n *Node) StopByHand() {
	n.change("the operator stops the containers", func() {
		for _, c := range n.sorted() {
			c.stoppedByHand = true
			c.ends(0, "")
		}
	})
}

// SwitchRestartsOff lets the engine start nothing by itself, as `docker update --restart=no` does.
func (n *Node) SwitchRestartsOff() {
	n.change("the operator switches restarts off", func() {
		for _, c := range n.sorted() {
			c.keep = false
		}
	})
}

// RemoveContainers takes every container away, and leaves the volumes.
func (n *Node) RemoveContainers() {
	n.change("the operator removes the containers", func() {
		for _, c := range n.sorted() {
			c.ends(137, "")
		}
		n.containers = map[string]*container{}
	})
}

// RemoveContainer takes one container away, and leaves its volume.
func (n *Node) RemoveContainer(name string) {
	n.change("the operator removes the container "+name, func() {
		n.containers[name].ends(137, "")
		delete(n.containers, name)
	})
}

// SetLimits gives every container others, as `docker update` does.
func (n *Node) SetLimits(cpus float64, memory int64) {
	n.change(fmt.Sprintf("the operator limits the containers to %g CPUs and %d bytes", cpus, memory), func() {
		for _, c := range n.sorted() {
			c.CPUs, c.Memory = cpus, memory
		}
	})
}

// KillEtcd ends every etcd process on the node; the engine's restart policy decides what follows.
func (n *Node) KillEtcd() {
	n.change("etcd killed", func() { n.crashAll(137, "") })
}

func (n *Node) crashAll(code int, words string) {
	for _, c := range n.sorted() {
		if c.Running() && !c.foreign {
			c.crash(code, words)
		}
	}
}

// PauseContainers pauses every etcd container, as `docker pause` does; with false they continue.
func (n *Node) PauseContainers(pause bool) {
	n.change(fmt.Sprintf("containers paused: %v", pause), func() {
		for _, c := range n.sorted() {
			switch {
			case pause && c.State == cke.ContainerRunning:
				c.State = cke.ContainerPaused
			case !pause && c.State == cke.ContainerPaused:
				c.State, n.rejoined = cke.ContainerRunning, n.world.now()
			}
		}
	})
}
