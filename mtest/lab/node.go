package lab

import (
	"context"
	"fmt"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
)

// Node is a machine of the lab.
type Node struct {
	Name    string `json:"name"`
	Address string `json:"address"` // IPv4, reachable from this machine and from the other nodes
	User    string `json:"user"`    // member of the group docker
	Port    int    `json:"port"`    // of sshd
	KeyFile string `json:"keyFile"`
	// RestrictedKeyFile is a second key of User that is good for the Docker engine's socket and nothing else.
	RestrictedKeyFile string `json:"restrictedKeyFile"`
	HostKey           string `json:"hostKey"`  // as in cluster.yml: "ssh-ed25519 AAAA…"
	State             State  `json:"state"`    // empty where it was not asked for (Nodes)
	Cuts              []Cut  `json:"cuts"`     // cut cables
	DiskSize          int64  `json:"diskSize"` // bytes; 0: without a bound of its own
}

// State is the state of a node's power.
type State string

// The states of a node.
const (
	Running State = "running"
	Paused  State = "paused"  // frozen: connections stay, nothing answers
	Stopped State = "stopped" // switched off
	Missing State = "missing" // someone removed the container; Up and Wipe make it again
)

// User and port of every node's sshd.
const (
	nodeUser = "cke"
	nodePort = 22
)

// Labels that say whose a container, network or image is.
const (
	labelLab = "cke-lab.name"
	labelDir = "cke-lab.dir" // the state's directory: two labs of one name can be told apart
)

// Nodes returns the nodes as they were made, without asking Docker; their State is empty. No lab, no nodes.
func (l *Lab) Nodes() []Node {
	s, err := l.load()
	if err != nil {
		return nil
	}
	nodes := make([]Node, 0, len(s.Nodes))
	for _, n := range s.Nodes {
		nodes = append(nodes, l.describe(n))
	}
	return nodes
}

// Node returns one node, by name or address, without asking Docker. errNoNode: there is none.
func (l *Lab) Node(name string) (Node, error) {
	n, err := l.node(name)
	if err != nil {
		return Node{}, err
	}
	return l.describe(n), nil
}

// List returns the nodes with the state they are in now.
func (l *Lab) List(ctx context.Context) ([]Node, error) {
	if _, err := l.load(); err != nil {
		return nil, err
	}
	docker, err := l.engine(ctx)
	if err != nil {
		return nil, err
	}
	found, err := docker.ContainerList(ctx, container.ListOptions{All: true, Filters: l.mine()})
	if err != nil {
		return nil, fmt.Errorf("list the nodes of lab %s: %w", l.name, err)
	}
	states := map[string]State{}
	for _, c := range found {
		for _, name := range c.Names {
			states[name] = stateOf(c.State)
		}
	}
	nodes := l.Nodes()
	for i := range nodes {
		nodes[i].State = Missing
		if s, ok := states["/"+nodes[i].Name]; ok {
			nodes[i].State = s
		}
	}
	return nodes, nil
}

func (l *Lab) describe(n nodeState) Node {
	return Node{
		Name: n.Name, Address: n.Address, User: nodeUser, Port: nodePort,
		KeyFile: l.path("key"), RestrictedKeyFile: l.path("restricted_key"),
		HostKey: n.HostKey, Cuts: append([]Cut{}, n.Cuts...), DiskSize: n.Disk,
	}
}

// stateOf translates Docker's word for a container's state.
func stateOf(s container.ContainerState) State {
	switch s {
	case container.StateRunning, container.StateRestarting:
		return Running
	case container.StatePaused:
		return Paused
	}
	return Stopped
}

// mine selects what belongs to this lab.
func (l *Lab) mine() filters.Args {
	return filters.NewArgs(filters.Arg("label", labelLab+"="+l.name), filters.Arg("label", labelDir+"="+l.dir))
}

func (l *Lab) labels() map[string]string {
	return map[string]string{labelLab: l.name, labelDir: l.dir}
}
