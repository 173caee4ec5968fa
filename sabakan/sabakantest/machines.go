package sabakantest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"

	"cke"
)

// Plan says which addresses the machines get, in sabakan's own form.
type Plan string

// Wide has room for 28 machines in a rack: the only machine in a rack has 4 as the last byte of its address, plus 64 for each rack. There is
// one address for each machine, in ranges of 2^6 addresses, the first of them behind three and that of the boot server.
const Wide Plan = `{"max-nodes-in-rack": 28, "node-ipv4-pool": "10.69.0.0/16", "node-ipv4-range-size": 6, "node-ipv4-range-mask": 26,
	"node-ip-per-node": 1, "node-index-offset": 3, "node-gateway-offset": 1, ` + controllers

// controllers are the addresses of baseboard controllers, which no test uses.
const controllers = `"bmc-ipv4-pool": "10.72.16.0/20", "bmc-ipv4-offset": "0.0.1.0", "bmc-ipv4-range-size": 5, "bmc-ipv4-range-mask": 20, "bmc-ipv4-gateway-offset": 1}`

// Pairs has two machines in each rack: those of rack 0 have this IPv4 address and the next one, those of rack 1 the two after them.
func Pairs(first netip.Addr) Plan {
	const before = 2 // addresses of a range that machines do not get, of which sabakan wants one
	b := first.As4()
	return Plan(fmt.Sprintf(`{"max-nodes-in-rack": 2, "node-ipv4-pool": "%s", "node-ipv4-offset": "0.0.0.%d", "node-ipv4-range-size": 1, "node-ipv4-range-mask": 24,
	"node-ip-per-node": 1, "node-index-offset": 1, "node-gateway-offset": 1, `, netip.PrefixFrom(netip.AddrFrom4([4]byte{b[0], b[1], b[2], 0}), 24), b[3]-before) + controllers)
}

// setUp waits until the server is ready and gives it the plan of its addresses.
func (s *Server) setUp(ctx context.Context, plan Plan) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	for s.do(ctx, http.MethodGet, "/health", "") != nil {
		select {
		case <-ctx.Done():
			return errors.New("it does not become ready")
		case <-s.exited:
			return errors.New("it has exited")
		case <-time.After(20 * time.Millisecond):
		}
	}
	return s.do(ctx, http.MethodPut, "/api/v1/config/ipam", string(plan))
}

// do makes a request of the REST API.
func (s *Server) do(ctx context.Context, method, path, body string) error {
	r, err := http.NewRequestWithContext(ctx, method, s.URL+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, bytes.TrimSpace(text))
	}
	return err
}

// Register registers machines with their ids, roles, racks, labels, retire dates and types of BMC, which have to be known. They are new: sabakan does
// not take them for healthy yet.
func (s *Server) Register(ctx context.Context, hosts ...cke.Host) error {
	const atOnce = 100 // sabakan writes them in one transaction
	for some := range slices.Chunk(hosts, atOnce) {
		var machines []map[string]any
		for _, h := range some {
			machines = append(machines, map[string]any{"serial": h.ID, "role": h.Role, "rack": h.Rack, "labels": h.Labels, "bmc": map[string]string{"type": cmp.Or(h.BMC, "IPMI-2.0")}})
		}
		body, err := json.Marshal(machines)
		if err != nil {
			return err
		}
		if err := s.do(ctx, http.MethodPost, "/api/v1/machines", string(body)); err != nil {
			return err
		}
	}
	for _, h := range hosts {
		if h.RetireDate.IsZero() {
			continue
		}
		if err := s.do(ctx, http.MethodPut, "/api/v1/retire-date/"+h.ID, h.RetireDate.Format(time.RFC3339)); err != nil {
			return err
		}
	}
	return nil
}

// SetState changes the state of a machine, in sabakan's lower-case words. Sabakan refuses some changes.
func (s *Server) SetState(ctx context.Context, serial, state string) error {
	return s.do(ctx, http.MethodPut, "/api/v1/state/"+serial, state)
}

// Delete deletes a retired machine.
func (s *Server) Delete(ctx context.Context, serial string) error {
	return s.do(ctx, http.MethodDelete, "/api/v1/machines/"+serial, "")
}

// Age lets each machine have been in its state for longer, as if this time had passed.
func (s *Server) Age(ctx context.Context, by time.Duration) error {
	client := v3client.New(s.etcd.Server)
	defer client.Close()
	all, err := client.Get(ctx, machinesKey, clientv3.WithPrefix())
	if err != nil {
		return err
	}
	for _, kv := range all.Kvs {
		machine, status := map[string]json.RawMessage{}, map[string]json.RawMessage{}
		var since time.Time
		err := errors.Join(json.Unmarshal(kv.Value, &machine), json.Unmarshal(machine["status"], &status), json.Unmarshal(status["timestamp"], &since))
		if err != nil {
			return fmt.Errorf("%s: %w", kv.Key, err)
		}
		if status["timestamp"], err = json.Marshal(since.Add(-by)); err != nil {
			return err
		}
		if machine["status"], err = json.Marshal(status); err != nil {
			return err
		}
		text, err := json.Marshal(machine)
		if err != nil {
			return err
		}
		if _, err := client.Put(ctx, string(kv.Key), string(text)); err != nil {
			return err
		}
	}
	return nil
}

// machinesKey is where sabakan has its machines.
const machinesKey = "/sabakan/machines/"
