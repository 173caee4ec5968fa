package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"cke"
)

// Node is a machine: power, sshd, a Docker engine with a disk.
type Node struct {
	world         *World
	name, address string
	sshPort       int

	on, frozen bool
	hostKey    int // counts changes
	pinned     int // the one that a person accepted
	refusesKey bool
	hung       bool
	full       bool
	filtered   bool // the client port does not answer the management host
	liesOfData bool
	taken      map[int]bool // ports with a foreign listener
	slow       time.Duration

	images     map[string]bool
	volumes    map[string]*volume
	containers map[string]*container
	backlog    []func() // what a hung engine was asked for
}

// volume is a Docker volume.
type volume struct {
	name, cluster, incarnation string
	join                       cke.JoinID
	createdAt                  time.Time
	files                      map[string]bool
	wal                        *member // nil: no write-ahead log
}

// Name is the node's host name.
func (n *Node) Name() string { return n.name }

// World is the world that the node is in.
func (n *Node) World() *World { return n.world }

// Declared is the node as a cluster file names it.
func (n *Node) Declared() cke.Node {
	return cke.Node{Address: n.address, Hostname: n.name, ControlPlane: true, SSH: cke.SSH{Port: n.sshPort}}
}

// awake reports whether anything on the node runs.
func (n *Node) awake() bool { return n.on && !n.frozen }

// wipe leaves a blank disk.
func (n *Node) wipe() {
	n.images, n.volumes, n.containers, n.backlog = map[string]bool{}, map[string]*volume{}, map[string]*container{}, nil
	n.taken, n.full = map[int]bool{}, false
}

func (n *Node) change(what string, do func()) { n.world.change(n.name+": "+what, do) }

// PowerOff ends everything on the node at once; disks stay.
func (n *Node) PowerOff() { n.change("power off", n.powerOff) }

func (n *Node) powerOff() {
	n.on, n.frozen, n.backlog = false, false, nil
	for _, c := range n.sorted() {
		if c.State == cke.ContainerRunning || c.State == cke.ContainerPaused || c.State == cke.ContainerRestarting {
			c.ends(137, "")
		}
	}
}

// PowerOn boots the node; its engine starts what it is to keep running.
func (n *Node) PowerOn() {
	n.change("power on", func() {
		if n.on {
			return
		}
		n.on, n.hung = true, false
		for _, c := range n.sorted() {
			if c.keep && !c.stoppedByHand {
				c.run()
			}
		}
	})
}

// Reboot is a short loss of power.
func (n *Node) Reboot() { n.PowerOff(); n.PowerOn() }

// Blank replaces the node by a new machine at the same address, with an empty disk.
func (n *Node) Blank() {
	n.change("replaced by a blank machine", func() {
		n.powerOff()
		n.wipe()
		n.on, n.hung = true, false
	})
}

// Freeze stops the whole machine where it is; Thaw lets it go on.
func (n *Node) Freeze() { n.change("frozen", func() { n.frozen = true }) }

// Thaw ends a Freeze.
func (n *Node) Thaw() { n.change("thawed", func() { n.frozen = false }) }

// Hang stops the Docker engine from answering; containers go on. What it is asked meanwhile it does on Unhang.
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

// ChangeHostKey lets sshd show another key than the pinned one; AcceptHostKey is a person's consent.
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

// LieOfData lets the engine call every volume's data present.
func (n *Node) LieOfData() { n.change("lies of data", func() { n.liesOfData = true }) }

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
		c.Name, c.Image, c.State = name, "quay.io/coreos/etcd:v3.5.9", cke.ContainerRunning
		n.containers[name] = c
		for _, p := range ports {
			n.taken[p] = true
		}
	})
}

// AddVolume puts a volume on the node that a person or another life left.
func (n *Node) AddVolume(v cke.Volume) {
	n.change("volume "+v.Name, func() {
		n.volumes[v.Name] = &volume{name: v.Name, cluster: v.Cluster, incarnation: v.Incarnation, join: v.Join, createdAt: n.world.now(),
			files: map[string]bool{"something": true}}
	})
}

// Remove takes a container or volume away by a person's hand, whatever runs in it.
func (n *Node) Remove(name string) {
	n.change("a person removes "+name, func() {
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

// EmptyVolumes deletes the content of every volume behind the engine's back, and ends what ran on them.
func (n *Node) EmptyVolumes() {
	n.change("volumes emptied", func() {
		for _, v := range n.volumes {
			v.files, v.wal = map[string]bool{}, nil
		}
		n.crashAll(1, "open member/snap/db: no such file or directory")
	})
}

// RemoveVolumes takes the containers and the volumes of the cluster away behind our back.
func (n *Node) RemoveVolumes() {
	n.change("containers and volumes removed", func() {
		for _, c := range n.sorted() {
			c.ends(137, "")
		}
		n.volumes, n.containers = map[string]*volume{}, map[string]*container{}
	})
}

// StopByHand ends every container as `docker stop` does: the engine does not start them again.
func (n *Node) StopByHand() {
	n.change("a person stops the containers", func() {
		for _, c := range n.sorted() {
			c.stoppedByHand = true
			c.ends(0, "")
		}
	})
}

// RemoveContainers takes every container away, and leaves the volumes.
func (n *Node) RemoveContainers() {
	n.change("a person removes the containers", func() {
		for _, c := range n.sorted() {
			c.ends(137, "")
		}
		n.containers = map[string]*container{}
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

// PauseContainers pauses every etcd container, as `docker pause` does; with false they go on.
func (n *Node) PauseContainers(pause bool) {
	n.change(fmt.Sprintf("containers paused: %v", pause), func() {
		for _, c := range n.sorted() {
			switch {
			case pause && c.State == cke.ContainerRunning:
				c.State = cke.ContainerPaused
			case !pause && c.State == cke.ContainerPaused:
				c.State = cke.ContainerRunning
			}
		}
	})
}

// sorted returns the containers by name.
func (n *Node) sorted() []*container {
	var all []*container
	for _, name := range slices.Sorted(maps.Keys(n.containers)) {
		all = append(all, n.containers[name])
	}
	return all
}

// Look returns what really stands on the node.
func (n *Node) Look() (containers []cke.Container, volumes []cke.Volume) {
	n.world.mu.Lock()
	defer n.world.mu.Unlock()
	n.world.tick()
	var s cke.NodeStatus
	n.look(cke.EtcdOptions{}, "", &s)
	return s.Containers, s.Volumes
}

// trouble is why a connection to the node's sshd cannot be had, or nil.
func (n *Node) trouble(declared cke.Node) *cke.Error {
	fail := func(code cke.Code, what string, cause error) *cke.Error {
		return &cke.Error{Code: code, What: what, Err: cause}
	}
	switch {
	case !n.world.connected(Management, n.name):
		return fail(cke.CodeUnreachable, "no answer from sshd", cke.ErrUnreachable)
	case declared.SSH.Port != 0 && declared.SSH.Port != n.sshPort:
		return fail(cke.CodeUnreachable, fmt.Sprintf("nothing listens on port %d", declared.SSH.Port), cke.ErrUnreachable)
	case n.hostKey != n.pinned:
		return fail(cke.CodeHostKey, "shows another host key than the pinned one", nil)
	case n.refusesKey:
		return fail(cke.CodeSSHAuth, "refuses the key", nil)
	}
	return nil
}

func (n *Node) describe() string {
	var b strings.Builder
	state := "on"
	if !n.on {
		state = "off"
	} else if n.frozen {
		state = "frozen"
	}
	fmt.Fprintf(&b, "%s: %s\n", n.name, state)
	for _, c := range n.sorted() {
		fmt.Fprintf(&b, "  container %s %s %s keep=%v by-hand=%v\n", c.Name, c.State, c.spec.Mode, c.keep, c.stoppedByHand)
	}
	for _, name := range slices.Sorted(maps.Keys(n.volumes)) {
		v := n.volumes[name]
		data := "no data"
		if v.wal != nil {
			data = fmt.Sprintf("log of %d entries, %d committed", len(v.wal.log), v.wal.commit)
		}
		fmt.Fprintf(&b, "  volume %s: %d files, %s\n", name, len(v.files), data)
	}
	return b.String()
}

// Holds reports whether a volume on the node really holds a write-ahead log.
func (n *Node) Holds(volume string) bool {
	n.world.mu.Lock()
	defer n.world.mu.Unlock()
	v := n.volumes[volume]
	return v != nil && v.wal != nil
}
