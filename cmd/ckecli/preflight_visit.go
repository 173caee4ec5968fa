package main

import (
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"cke"
	"cke/etcdnode"
	"cke/preflight/probe"
)

const (
	// visitFor is how long ckecli looks at a node from inside.
	visitFor = 6 * time.Second
	// meetLimit bounds how long visits wait for each other, so that all nodes listen when others dial.
	meetLimit = time.Minute
	// visitAgain is the pause after a visit that a node was too busy for.
	visitAgain = time.Second
)

// visit is what was found from inside a node.
type visit struct {
	probe.Result
	// err is why nothing was.
	err error
	// noDir: the directory for volumes is not there yet.
	noDir bool
}

// newProbeCommand is hidden: `preflight` runs it on nodes.
func newProbeCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "probe-node TASK", Hidden: true, Args: arguments(1, 1), Short: "Look at this machine on behalf of preflight",
		RunE: func(cmd *cobra.Command, args []string) error {
			var task probe.Task
			if err := json.Unmarshal([]byte(args[0]), &task); err != nil {
				return usageError{fmt.Errorf("%q is no task: %w", args[0], err), cmd.CommandPath()}
			}
			return json.NewEncoder(a.stdout).Encode(probe.Run(cmd.Context(), task))
		},
	}
}

// visitNodes looks at the control-plane nodes that answered from inside, all at the same time; the result is by address.
func visitNodes(ctx context.Context, fleet *etcdnode.Fleet, c cke.Cluster, own members, seen cke.Observation) map[string]visit {
	program, unfit := ownProgram()
	var mu sync.Mutex
	all := map[string]visit{}
	var visits, yet sync.WaitGroup // those under way, and those that have not come as far as to begin
	met := make(chan struct{})
	for _, st := range seen.Nodes {
		if !st.Node.ControlPlane || !st.Answered() {
			continue
		}
		yet.Add(1)
		visits.Go(func() {
			there := sync.OnceFunc(yet.Done)
			defer there()
			v := visit{err: unfit}
			if unfit == nil {
				v = visitNode(ctx, fleet, c, own, st, program, func(ctx context.Context) error {
					there()
					select {
					case <-met:
					case <-time.After(meetLimit):
					case <-ctx.Done():
						return ctx.Err()
					}
					return nil
				})
			}
			mu.Lock()
			defer mu.Unlock()
			all[st.Node.Address] = v
		})
	}
	yet.Wait()
	close(met)
	visits.Wait()
	return all
}

// visitNode looks at one node from inside. A directory for volumes that is not there is left out.
func visitNode(ctx context.Context, fleet *etcdnode.Fleet, c cke.Cluster, own members, st cke.NodeStatus, program []byte, meet func(context.Context) error) visit {
	o := c.Options.Etcd
	task := probe.Task{For: visitFor.Seconds(), Dir: etcdnode.VisitDir}
	if _, runs := own.running(st); !runs {
		task.Listen = portsOf(o, st.Node)
	}
	for _, n := range c.ControlPlane() {
		if n.Address != st.Node.Address {
			task.Dial = append(task.Dial, portsOf(o, n)...)
		}
	}
	v := etcdnode.Visit{Image: o.Image, Program: program, Dir: o.VolumeRoot}
	once := func() visit {
		text, err := json.Marshal(task)
		if err != nil {
			return visit{err: err}
		}
		v.Args = []string{"probe-node", string(text)}
		out, err := visitBusy(ctx, fleet, st.Node, v, meet)
		found := visit{err: err}
		if err == nil {
			found.err = json.Unmarshal(out, &found.Result)
		}
		return found
	}
	found := once()
	if errors.Is(found.err, etcdnode.ErrNoDirectory) {
		v.Dir, task.Dir = "", ""
		found = once()
		found.noDir = true
	}
	return found
}

// visitBusy visits a node again that was too busy to take the program in, until it has met the others: they have begun
// without it then.
func visitBusy(ctx context.Context, fleet *etcdnode.Fleet, n cke.Node, v etcdnode.Visit, meet func(context.Context) error) ([]byte, error) {
	for began, met := time.Now(), false; ; {
		out, err := fleet.Visit(ctx, n, v, func(ctx context.Context) error {
			met = true
			return meet(ctx)
		})
		if met || !etcdnode.Unanswered(err) || time.Since(began) > meetLimit {
			return out, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(visitAgain):
		}
	}
}

// portsOf are the addresses of the client port and the peer port of a node.
func portsOf(o cke.EtcdOptions, n cke.Node) []string {
	return []string{net.JoinHostPort(n.Address, strconv.Itoa(o.ClientPort)), net.JoinHostPort(n.Address, strconv.Itoa(o.PeerPort))}
}

// members tells containers of the cluster's members from those of others.
type members struct {
	cluster string
	// identity is the cluster's; nil: nobody could be asked, and the name has to do.
	identity *cke.Identity
}

// has reports whether a container is labelled as one of the cluster's. What another life of it left under its name is not;
// an abandoned one is no obstacle.
func (m members) has(c cke.Container) bool {
	if c.Cluster != m.cluster || m.identity == nil {
		return c.Cluster == m.cluster
	}
	life := m.identity.Incarnation
	return life.Life(c.Incarnation) || life.WasAbandoned(c.Incarnation)
}

// running is the container of the cluster's member that runs on a node.
func (m members) running(st cke.NodeStatus) (cke.Container, bool) {
	i := slices.IndexFunc(st.Containers, func(c cke.Container) bool { return m.has(c) && c.Running() })
	if i < 0 {
		return cke.Container{}, false
	}
	return st.Containers[i], true
}

// ownProgram is this program, which must need no library to run in any image.
func ownProgram() ([]byte, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	f, err := elf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("this ckecli does not run on nodes: %w", err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return nil, errors.New("this ckecli was built to need libraries, which nodes may lack; build it with CGO_ENABLED=0")
		}
	}
	return os.ReadFile(path)
}

// holdSignals keeps further signals from ending the process before it has tidied up; the returned function ends that.
func holdSignals() func() {
	held := make(chan os.Signal, 1)
	signal.Notify(held, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	return func() { signal.Stop(held) }
}

// seenKeys compares host keys with those that are known, and stores none.
type seenKeys struct {
	pinned map[string]string // by address
	// blind: nobody could be asked for those that are known.
	blind bool
	// strict: no node is talked to whose key is not known.
	strict bool

	mu    sync.Mutex
	shown map[string]string // those that were seen for the first time
}

var _ etcdnode.HostKeys = (*seenKeys)(nil)

// Pinned implements etcdnode.HostKeys.
func (k *seenKeys) Pinned(address string) (string, bool) {
	line, ok := k.pinned[address]
	return line, ok
}

// Pin implements etcdnode.HostKeys.
func (k *seenKeys) Pin(_ context.Context, address, line string) error {
	if k.strict {
		return &cke.Error{Code: cke.CodeHostKey, What: "no host key of " + address + " is known yet"}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.shown[address] = line
	return nil
}

// Offered implements etcdnode.HostKeys.
func (*seenKeys) Offered(context.Context, string, string) {}

// first is the key that a node showed of which none was known.
func (k *seenKeys) first(address string) (string, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	line, ok := k.shown[address]
	return line, ok
}
