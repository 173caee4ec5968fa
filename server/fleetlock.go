package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"sync"
	"time"

	"cke"
)

// FleetLock answers agents of machines that ask whether they may reboot, as their protocol says:
// https://coreos.github.io/zincati/development/fleetlock/protocol. A request is an entry of the reboot queue; the leader gives the
// lease, and any daemon reports that from the store.
type FleetLock struct {
	Store FleetLockStore
	// Proxies are addresses from which any machine may ask; all others may ask only for the node with their address.
	Proxies []netip.Prefix
	Now     func() time.Time
	Log     *slog.Logger
	// Hold bounds how long a request waits for its lease; zero: 25 s.
	Hold time.Duration

	waiting *sync.Map // nodes for which a request waits: a second one is answered at once
}

// FleetLockStore is what FleetLock needs of the store.
type FleetLockStore interface {
	Clusters(ctx context.Context) ([]string, error)
	Spec(ctx context.Context, cluster string) (cke.Spec, error)
	Identity(ctx context.Context, cluster string) (cke.Identity, error)
	// Leader returns the daemon that leads. ErrNotFound: none does.
	Leader(ctx context.Context, cluster string) (cke.Leader, error)
	RequestsOf(ctx context.Context, cluster string) (cke.Requests, error)
	EditQueue(ctx context.Context, cluster string, kind cke.QueueKind, by string, edit func(cke.Queue) (cke.Queue, error)) error
	// Changed receives when the requests of a cluster may have changed, until ctx ends, which closes it.
	Changed(ctx context.Context, cluster string) <-chan struct{}
}

const (
	fleetLockHold = 25 * time.Second
	// fleetLockBody bounds a body in bytes; the server bounds the time in which it must come.
	fleetLockBody = 4 << 10
	// askedAgain is how old the last request on record may be: a later one is not put on record.
	askedAgain = 15 * time.Second
)

// Paths of FleetLock.
const (
	FleetLockAsk     = "/v1/pre-reboot"
	FleetLockRelease = "/v1/steady-state"
)

var (
	agentID    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$`)
	agentGroup = regexp.MustCompile(`^[A-Za-z0-9.-]{1,64}$`)
)

// lockRefusal is an answer that is not "yes". The protocol names its two keys.
type lockRefusal struct {
	status int
	Kind   string `json:"kind"`
	Value  string `json:"value"`
}

func (r *lockRefusal) Error() string { return r.Value }

func refuse(status int, kind, format string, args ...any) *lockRefusal {
	return &lockRefusal{status, kind, fmt.Sprintf(format, args...)}
}

// Handler serves both paths.
func (f FleetLock) Handler() http.Handler {
	mux := http.NewServeMux()
	f.waiting = &sync.Map{}
	serve := func(do func(ctx context.Context, a asker) error) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			err := f.answer(w, r, do)
			if err == nil {
				writeJSON(w, http.StatusOK, struct{}{})
				return
			}
			var no *lockRefusal
			if !errors.As(err, &no) {
				f.Log.Warn("FleetLock: not answered", "error", err)
				no = refuse(http.StatusServiceUnavailable, "unavailable", "the store does not answer")
			}
			writeJSON(w, no.status, no)
		}
	}
	mux.HandleFunc("POST "+FleetLockAsk, serve(f.ask))
	mux.HandleFunc("POST "+FleetLockRelease, serve(f.release))
	return mux
}

// asker is a machine that asks, and its node.
type asker struct {
	id, cluster string
	node        cke.Node
	options     cke.RebootOptions
}

func (f FleetLock) answer(w http.ResponseWriter, r *http.Request, do func(context.Context, asker) error) error {
	if r.Header.Get("fleet-lock-protocol") != "true" {
		return refuse(http.StatusBadRequest, "bad_request", "the header fleet-lock-protocol: true is missing")
	}
	var body struct {
		Params struct {
			ID    string `json:"id"`
			Group string `json:"group"`
		} `json:"client_params"`
	}
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, fleetLockBody))
	err := d.Decode(&body)
	if err == nil && d.Decode(&struct{}{}) != io.EOF {
		err = errors.New("more follows it")
	}
	id, group := body.Params.ID, body.Params.Group
	switch {
	case err != nil:
		return refuse(http.StatusBadRequest, "bad_request", "the body is not a JSON object with client_params, or has more than %d bytes", fleetLockBody)
	case !agentID.MatchString(id) || !agentGroup.MatchString(group):
		return refuse(http.StatusBadRequest, "bad_request", "client_params has no good id and group")
	}
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return fmt.Errorf("the address of the client: %w", err)
	}
	a, err := f.asker(r.Context(), id, group, from.Addr().Unmap().WithZone(""))
	if err != nil {
		return err
	}
	return do(r.Context(), a)
}

// asker finds the node that asks. A client that may not ask learns nothing about nodes.
func (f FleetLock) asker(ctx context.Context, id, group string, from netip.Addr) (asker, error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	clusters, err := f.Store.Clusters(ctx)
	if err != nil {
		return asker{}, err
	}
	var found []asker
	for _, name := range clusters {
		if group != name && group != "default" {
			continue
		}
		spec, err := f.Store.Spec(ctx, name)
		if errors.Is(err, cke.ErrNotFound) {
			continue
		}
		if err != nil {
			return asker{}, err
		}
		c := spec.Wanted()
		for _, n := range c.Nodes {
			if c.Reboot.FleetLock && n.AgentID() == id && f.may(n, from) {
				found = append(found, asker{id, name, n, c.Reboot})
			}
		}
	}
	if len(found) != 1 {
		f.Log.Warn("FleetLock: refused", "id", id, "group", group, "from", from, "nodes", len(found))
		return asker{}, refuse(http.StatusForbidden, "not_allowed", "no node of a cluster with reboot.fleet_lock has this id and may ask from %s", from)
	}
	return found[0], nil
}

// may reports whether a request for the node may come from an address.
func (f FleetLock) may(n cke.Node, from netip.Addr) bool {
	at, err := netip.ParseAddr(n.Address)
	return err == nil && at.Unmap() == from || slices.ContainsFunc(f.Proxies, func(p netip.Prefix) bool { return p.Contains(from) })
}

// errAsIs ends an edit that has nothing to change.
var errAsIs = errors.New("nothing is to be changed")

func (f FleetLock) edit(ctx context.Context, a asker, edit func(cke.Queue) (cke.Queue, error)) error {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	err := f.Store.EditQueue(ctx, a.cluster, cke.RebootQueue, "the agent of "+a.node.Name(), edit)
	if errors.Is(err, errAsIs) {
		return nil
	}
	return err
}

// ask puts the machine into the reboot queue, and waits for a while until it may reboot.
func (f FleetLock) ask(ctx context.Context, a asker) error {
	if _, err := f.Store.Leader(ctx, a.cluster); errors.Is(err, cke.ErrNotFound) {
		return refuse(http.StatusServiceUnavailable, "no_leader", "no daemon leads cluster %s", a.cluster)
	} else if err != nil {
		return err
	}
	err := f.edit(ctx, a, func(q cke.Queue) (cke.Queue, error) {
		now := f.Now().UTC()
		r := q.Of(a.node.Address)
		if r == nil {
			return q.Add([]cke.Node{a.node}, cke.Entry{Reason: "asked by its agent", By: "fleet-lock", Agent: a.id, AskedAt: now}, now)
		}
		if no := standing(*r, a); no != nil || f.late(*r, a) || now.Sub(r.AskedAt).Abs() < askedAgain {
			return q, errAsIs
		}
		return q.Moved(*r, func(r *cke.Entry) { r.AskedAt = now })
	})
	if err != nil {
		return err
	}
	hold := f.Hold
	if hold == 0 {
		hold = fleetLockHold
	}
	key := a.cluster + " " + a.node.Address
	_, another := f.waiting.LoadOrStore(key, true)
	if another {
		hold = 0
	} else {
		defer f.waiting.Delete(key)
	}
	waiting, cancel := context.WithTimeout(ctx, hold)
	defer cancel()
	for changed := f.Store.Changed(waiting, a.cluster); ; {
		no, err := f.granted(ctx, a)
		if err != nil || no == nil || no.Kind != "wait" {
			if no != nil {
				return no
			}
			return err
		}
		if _, open := <-changed; !open {
			return no
		}
	}
}

// standing is why an entry, as it is, does not let the agent go; nil: nothing is against it.
func standing(r cke.Entry, a asker) *lockRefusal {
	switch {
	case r.Agent != a.id:
		return refuse(http.StatusConflict, "queued", "%s is in the reboot queue already, and not for its agent (%s)", r.Node, r.State)
	case r.State == cke.EntryFailed:
		return refuse(http.StatusConflict, "failed", "the last reboot of %s failed, and an operator has to decide: %s", r.Node, r.Error)
	case r.Canceled:
		return refuse(http.StatusConflict, "canceled", "an operator canceled the reboot of %s", r.Node)
	case r.State == cke.EntryReturning || r.Acting() && !r.CommandEndedAt.IsZero():
		return refuse(http.StatusConflict, "returning", "%s is back from a reboot, and its member is not in sync yet", r.Node)
	}
	return nil
}

// late reports whether less than half of the time for a reboot is left: an agent may act on the answer late.
func (f FleetLock) late(r cke.Entry, a asker) bool {
	return r.Acting() && f.Now().Sub(r.StartedAt).Abs() > time.Duration(a.options.BootTimeout)/2
}

// leaseOver reports whether the machine carries a member that has no lease any more: it may be started any moment.
func (f FleetLock) leaseOver(asked cke.Requests, id cke.Identity, r cke.Entry, a asker) bool {
	_, carries := id.On(a.node)
	return carries && !slices.ContainsFunc(asked.Drains, func(d cke.Drain) bool { return d.Entry == r.ID && d.Active(f.Now()) })
}

// granted is why the machine may not reboot now; nil: it may.
func (f FleetLock) granted(ctx context.Context, a asker) (*lockRefusal, error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	asked, err := f.Store.RequestsOf(ctx, a.cluster)
	if err != nil {
		return nil, err
	}
	id, err := f.Store.Identity(ctx, a.cluster)
	if err != nil {
		return nil, err
	}
	r := asked.Reboots.Of(a.node.Address)
	switch {
	case r == nil:
		return refuse(http.StatusConflict, "canceled", "%s left the reboot queue", a.node.Name()), nil
	case standing(*r, a) != nil:
		return standing(*r, a), nil
	case id.Freeze.HoldsQueued(*r):
		return refuse(http.StatusConflict, "held", "the request of %s was in the store when that was found to be older than the cluster: an operator has to cancel it", r.Node), nil
	case id.Freeze.Active():
		return refuse(http.StatusConflict, "frozen", "cluster %s is frozen", a.cluster), nil
	case asked.Hibernation != nil:
		return refuse(http.StatusConflict, "hibernated", "cluster %s is hibernated", a.cluster), nil
	case asked.Hold.Active(f.Now()):
		return refuse(http.StatusConflict, "paused", "cluster %s is paused", a.cluster), nil
	case !r.Acting():
		return refuse(http.StatusConflict, "wait", "%s waits in the reboot queue (%s); ckecli reboot-queue list says for what", r.Node, r.State), nil
	case f.late(*r, a), f.leaseOver(asked, id, *r, a):
		return refuse(http.StatusConflict, "late", "the lease of %s is about to end: release it and ask again", r.Node), nil
	}
	return nil, nil
}

// release takes the machine out of the queue, or reports that it is back. One that has nothing to release may do so, too.
func (f FleetLock) release(ctx context.Context, a asker) error {
	return f.edit(ctx, a, func(q cke.Queue) (cke.Queue, error) {
		now := f.Now().UTC()
		r := q.Of(a.node.Address)
		switch {
		case r == nil || r.Agent != a.id || r.State == cke.EntryReturning:
			return q, errAsIs
		case r.State == cke.EntryQueued && r.StartedAt.IsZero():
			return q.Without(r.ID), nil
		case !r.Acting():
			return q.Cancel([]string{r.Address}, now)
		case !r.CommandEndedAt.IsZero():
			return q, errAsIs
		}
		return q.Moved(*r, func(r *cke.Entry) { r.CommandEndedAt = now })
	})
}
