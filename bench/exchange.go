package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"cke"
	"cke/mtest/lab"
	"cke/mtest/rig"
)

// exchanged is how often a retired machine is exchanged: as often as an inventory may move members in a day.
const exchanged = 2

// registry is a double of sabakan with the machines of a lab, all of which have been in their state for an hour.
type registry struct {
	nodes []lab.Node
	mu    sync.Mutex
	// retired is the machine that is; empty: none is.
	retired string
}

func (r *registry) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	type fields = map[string]any
	var machines []fields
	for _, n := range r.nodes {
		state, since := "HEALTHY", time.Unix(0, 0).UTC()
		if n.Name == r.retired {
			state = "RETIRED"
		}
		machines = append(machines, fields{"status": fields{"state": state, "duration": 3600}, "spec": fields{"serial": n.Name, "labels": nil, "rack": 0, "role": "cs",
			"ipv4": []string{n.Address}, "registerDate": since, "retireDate": since, "bmc": fields{"bmcType": "none"}}})
	}
	_ = json.NewEncoder(w).Encode(fields{"data": fields{"searchMachines": machines}})
}

// retire retires a machine, and no other one.
func (r *registry) retire(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.retired = name
}

// exchanging is the template of the clusters that are measured: the pauses between exchanges are as short as they may be.
const exchanging = `name: exchange
nodes:
  - {control_plane: true, user: %s, ssh: {port: %d}}
options: {etcd: {version: %s}}
inventory: {source: sabakan, mode: auto, interval: 5s, spares: 1, limits: {settle: 1m, changes_per_day: %d}}
`

// benchExchange measures how long clients cannot write while the leader daemon exchanges a retired machine for the spare. They write through
// the members that stay.
func benchExchange(ctx context.Context, h *host) ([]figure, error) {
	if err := h.lab.Up(ctx, lab.UpOptions{Nodes: 4, Etcd: []string{rig.EtcdVersion}}); err != nil {
		return nil, err
	}
	machines := &registry{nodes: h.lab.Nodes()[:4]}
	server := httptest.NewServer(machines)
	defer server.Close()
	r, d, err := h.start(ctx, "exchange")
	if err != nil {
		return nil, err
	}
	defer d.Kill()
	n, template := machines.nodes[0], filepath.Join(r.Dir, "template.yml")
	if err := os.WriteFile(template, fmt.Appendf(nil, exchanging, n.User, n.Port, rig.EtcdVersion, exchanged), 0o600); err != nil {
		return nil, err
	}
	for _, args := range [][]string{{"set-template", template}, {"set-url", server.URL}, {"enable"}, {"apply", "--yes"}} {
		if _, err := r.Do(ctx, append([]string{"sabakan"}, args...)...); err != nil {
			return nil, fmt.Errorf("%w; log: %s", err, d.LogText())
		}
	}
	var gaps []time.Duration
	for range exchanged {
		gap, err := exchangeOne(ctx, r, machines)
		if err != nil {
			return nil, fmt.Errorf("%w; log: %s", err, d.LogText())
		}
		gaps = append(gaps, gap)
	}
	return []figure{{name: "exchange a retired machine, gap in writes: longest", value: slices.Max(gaps).Seconds(), unit: "s", target: 0.3}}, nil
}

// exchangeOne retires the machine of a member, and returns the longest time without an acknowledged write until the spare has taken its place.
func exchangeOne(ctx context.Context, r *rig.Rig, machines *registry) (time.Duration, error) {
	names := func(s cke.Status) (all []string) {
		for _, m := range s.Members {
			all = append(all, m.Name)
		}
		return all
	}
	before, err := r.Await(ctx, "a spare", func(s cke.Status) bool {
		return rig.Ready(s) && len(s.Members) == 3 && slices.ContainsFunc(s.Nodes, func(n cke.NodeStatus) bool { return !n.Node.ControlPlane && n.Answered() })
	})
	if err != nil {
		return 0, err
	}
	tls, err := r.ClientTLS(ctx)
	if err != nil {
		return 0, err
	}
	leader := before.Members[slices.IndexFunc(before.Members, isLeader)].Name
	var stay []string
	for _, n := range machines.nodes {
		if n.Name != leader && slices.Contains(names(before), n.Name) {
			stay = append(stay, rig.URL(n))
		}
	}
	w, err := rig.StartWriter(stay, tls, fmt.Sprintf("exchange/%d/", time.Now().UnixNano()))
	if err != nil {
		return 0, err
	}
	defer w.Stop()
	if err := w.Await(ctx, 200); err != nil {
		return 0, err
	}
	w.TakeGap()
	machines.retire(leader)
	defer machines.retire("")
	if _, err := r.Await(ctx, "the exchange of "+leader, func(s cke.Status) bool {
		return rig.Ready(s) && len(s.Members) == 3 && !slices.Contains(names(s), leader)
	}); err != nil {
		return 0, err
	}
	if err := w.Await(ctx, 200); err != nil {
		return 0, err
	}
	return w.TakeGap(), nil
}
