package sim_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cke/server"
	"cke/sim"
)

var _ server.FleetLockStore = sim.Front{}

// agents are those of the machines: they ask any daemon that runs whether they may reboot, by the handler that serves
// them in a daemon.
type agents struct {
	mu       sync.Mutex
	handlers map[int]http.Handler // by the number of the daemon
	asking   map[string]bool      // by node
	hushed   *atomic.Bool         // those that run ask for nothing more
	// ctx ends with the stage.
	ctx context.Context
	end context.CancelFunc
	// front changes what daemons read when they answer: for mutations.
	front func(server.FleetLockStore) server.FleetLockStore
}

func newAgents() *agents {
	a := &agents{handlers: map[int]http.Handler{}, asking: map[string]bool{}, hushed: &atomic.Bool{}}
	a.ctx, a.end = context.WithCancel(context.Background())
	return a
}

// hush lets the agents that run ask for nothing more. They report that their machines are back.
func (a *agents) hush() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hushed.Store(true)
	a.hushed = &atomic.Bool{}
}

// manner is how an agent behaves.
type manner int

const (
	patient manner = iota // it asks until it may reboot, and reports when its machine is back
	doubled               // it sends each request twice at once, and asks on when it may reboot already
	givesUp               // it asks once or twice, and is not heard of again
	fickle                // it asks, and soon reports that its machine is in order
	unasked               // it reports that without having asked
	silent                // it asks until it may reboot, and does not report when its machine is back
	manners               // how many there are
)

// agent is that of one machine.
type agent struct {
	*rand.Rand
	s      *stage
	node   *sim.Node
	manner manner
	hushed *atomic.Bool
	// requests counts them, asked those for a reboot.
	requests, asked int
}

// agent lets the agent of a machine ask for a reboot, unless it does already.
func (s *stage) agent(node *sim.Node, m manner, seed uint64) {
	a := s.agents
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asking[node.Name()] {
		return
	}
	a.asking[node.Name()] = true
	one := &agent{Rand: rand.New(rand.NewPCG(seed, 7)), s: s, node: node, manner: m, hushed: a.hushed}
	s.wg.Go(func() {
		one.run(a.ctx)
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.asking, node.Name())
	})
}

// Bounds of an agent: its pause between two requests, which grows, how long it waits for an answer, how often it asks,
// and how long it is played.
const (
	agentPause   = 5 * time.Second
	agentTimeout = 40 * time.Second
	agentAsks    = 20
	agentLasts   = 2 * time.Hour
)

func (a *agent) run(ctx context.Context) {
	boots, granted, back := a.node.Boots(), false, false
	for end := time.Now().Add(agentLasts); time.Now().Before(end) && sleep(ctx, agentPause*time.Duration(1+a.asked/4)) == nil; {
		reaches := a.node.Reaches()
		back = back || a.node.Boots() != boots // whatever it rebooted for
		switch {
		case !reaches:
		case a.manner == silent && back, a.asked >= agentAsks && !granted:
			return
		case back, a.hushed.Load(), a.manner == unasked, a.manner == fickle && a.asked > 0:
			if a.releases(ctx) {
				return
			}
		case a.manner == givesUp && a.asked > a.IntN(2):
			return
		case granted && a.manner != doubled: // until it goes down
		default:
			a.asked++
			may, mode := a.asks(ctx)
			switch granted = granted || may; {
			case !may:
			case mode == sim.StaysUp: // the agent dies
				return
			case mode == sim.CommandFails: // it does not reboot
				back = true
			}
		}
	}
}

// asks requests a reboot, and reports whether the machine may reboot now, and what becomes of it.
func (a *agent) asks(ctx context.Context) (may bool, mode sim.RebootMode) {
	if a.manner == doubled {
		another := a.to(server.FleetLockAsk)
		a.s.wg.Go(func() { another(ctx) })
	}
	code, mode := a.to(server.FleetLockAsk)(ctx)
	return code == http.StatusOK, mode
}

// releases reports that the machine is in order, and whether that was heard, or is for nobody.
func (a *agent) releases(ctx context.Context) bool {
	a.node.Stays()
	code, _ := a.to(server.FleetLockRelease)(ctx)
	return code == http.StatusOK || code == http.StatusForbidden
}

// to is a request to a daemon that runs, mostly the one that leads: it returns the code of the answer, or 0 if none
// comes.
func (a *agent) to(path string) func(ctx context.Context) (code int, mode sim.RebootMode) {
	a.requests++
	actor := fmt.Sprintf("agent %s %d", a.node.Name(), a.requests)
	running := slices.DeleteFunc(a.s.Daemons(), (*sim.Daemon).Dead)
	if len(running) == 0 {
		return func(context.Context) (int, sim.RebootMode) { return 0, 0 }
	}
	d := running[len(running)-1]
	if a.IntN(4) == 0 {
		d = running[a.IntN(len(running))]
	}
	handler, declared := a.s.agents.handler(d), a.node.Declared()
	return func(ctx context.Context) (code int, mode sim.RebootMode) {
		ctx, cancel := context.WithTimeout(ctx, agentTimeout)
		defer cancel()
		body := fmt.Sprintf(`{"client_params": {"id": %q, "group": %q}}`, declared.AgentID(), clusterName)
		r := httptest.NewRequestWithContext(sim.WithActor(ctx, actor), http.MethodPost, path, strings.NewReader(body))
		r.Header.Set("fleet-lock-protocol", "true")
		r.RemoteAddr = declared.Address + ":1024"
		answers := make(chan *httptest.ResponseRecorder, 1)
		a.s.wg.Go(func() { // a daemon that is frozen answers when the agent no longer waits
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			answers <- w
		})
		select {
		case <-ctx.Done():
			return 0, 0
		case w := <-answers:
			if ctx.Err() != nil || d.Dead() || d.Frozen() || !a.node.Reaches() {
				return 0, 0
			}
			var no struct{ Kind string }
			_ = json.Unmarshal(w.Body.Bytes(), &no)
			if path == server.FleetLockAsk {
				mode = d.Front().Answered(a.node, actor, w.Code, no.Kind)
			}
			return w.Code, mode
		}
	}
}

// handler is that with which a daemon serves agents.
func (a *agents) handler(d *sim.Daemon) http.Handler {
	a.mu.Lock()
	defer a.mu.Unlock()
	h := a.handlers[d.Number()]
	if h == nil {
		var store server.FleetLockStore = d.Front()
		if a.front != nil {
			store = a.front(store)
		}
		h = server.FleetLock{Store: store, Now: d.Now, Log: slog.New(slog.DiscardHandler)}.Handler()
		a.handlers[d.Number()] = h
	}
	return h
}

// askByAgent lets the agent of one machine ask for a reboot, or those of all.
func (n *nemesis) askByAgent(node *sim.Node) {
	nodes := []*sim.Node{node}
	if n.IntN(3) == 0 {
		nodes = n.s.Nodes()
	}
	for _, node := range nodes {
		m := patient
		if n.IntN(2) == 0 {
			m = manner(n.IntN(int(manners)))
		}
		n.s.agent(node, m, n.Uint64())
	}
}

// pursueReboot lets machines be rebooted by their agents and by commands, also at the same time.
func (n *nemesis) pursueReboot(node *sim.Node) {
	if n.focus == agentsReboot && n.IntN(3) == 0 {
		node.SetRebootMode([]sim.RebootMode{sim.Reboots, sim.StaysOff, sim.RebootMode(n.IntN(int(sim.RebootModes)))}[n.IntN(3)])
	}
	switch {
	case n.focus == agentsReboot && n.IntN(4) > 0:
		n.askByAgent(node)
	case n.focus == agentsReboot && n.IntN(3) == 0:
		n.judgeQueue(node)
	case n.focus == agentsReboot:
		n.s.addReboots(node.Name())
	case !n.s.settled():
	case n.IntN(3) == 0:
		n.reboot(node)
	default:
		n.askByAgent(node)
	}
}

// answering is what becomes of a call with which a daemon answers an agent: it is part of no operation.
func (n *nemesis) answering(call int) sim.Verdict {
	if n.Float64() > n.rate {
		return sim.Proceed
	}
	v := n.fate(false)
	if v == sim.KillLate || v == sim.Linger || v == sim.Freeze {
		n.freeze = call + 1 + n.IntN(120)
	}
	n.s.marks.add(mark{"agent", v.String(), ""}, 1)
	return v
}
