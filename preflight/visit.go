package preflight

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"cke"
	"cke/etcdnode"
	"cke/preflight/probe"
)

const (
	// visitFor is how long ckecli checks a node from inside.
	visitFor = 6 * time.Second
	// meetLimit bounds how long visits wait for each other, so that all nodes listen when others dial.
	meetLimit = time.Minute
	// visitAgain is the pause after a visit that a node was too busy for.
	visitAgain = time.Second
)

// Visit is what was found from inside a node.
type Visit struct {
	// Result is what the probe found.
	probe.Result
	// Err is why nothing was.
	Err error
	// NoDir: the directory for volumes is not there yet.
	NoDir bool
}

// VisitNodes checks the control-plane nodes that answered from inside, all at the same time; the result is by address.
func VisitNodes(ctx context.Context, fleet *etcdnode.Fleet, c cke.Cluster, own Members, seen cke.Observation) map[string]Visit {
	program, unfit := etcdnode.ReadProbe()
	var mu sync.Mutex
	all := map[string]Visit{}
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
			v := Visit{Err: unfit}
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

// visitNode checks one node from inside. A directory for volumes that is not there is left out.
func visitNode(ctx context.Context, fleet *etcdnode.Fleet, c cke.Cluster, own Members, st cke.NodeStatus, program []byte, meet func(context.Context) error) Visit {
	o := c.Options.Etcd
	task := probe.Task{For: visitFor.Seconds(), Dir: etcdnode.VisitDir}
	if !own.runsOn(st) {
		task.Listen = portsOf(o, st.Node)
	}
	for _, n := range c.ControlPlane() {
		if n.Address != st.Node.Address {
			task.Dial = append(task.Dial, portsOf(o, n)...)
		}
	}
	v := etcdnode.Visit{Image: o.Image, Program: program, Dir: o.VolumeRoot}
	once := func() Visit {
		text, err := json.Marshal(task)
		if err != nil {
			return Visit{Err: err}
		}
		v.Args = []string{string(text)}
		out, err := visitBusy(ctx, fleet, st.Node, v, meet)
		found := Visit{Err: err}
		if err == nil {
			found.Err = json.Unmarshal(out, &found.Result)
		}
		return found
	}
	found := once()
	if errors.Is(found.Err, etcdnode.ErrNoDirectory) {
		v.Dir, task.Dir = "", ""
		found = once()
		found.NoDir = true
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

// Observe observes all nodes, and once more if one did not answer: a slow connection may have left no time for an answer.
func Observe(ctx context.Context, fleet *etcdnode.Fleet) cke.Observation {
	seen := fleet.Observe(ctx)
	if slices.ContainsFunc(seen.Nodes, func(st cke.NodeStatus) bool { return !st.Answered() }) {
		seen = fleet.Observe(ctx)
	}
	return seen
}
