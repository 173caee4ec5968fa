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
	"slices"
	"strings"
	"time"

	"cke"
)

// The only machine in a rack has 4 as the last byte of its address, plus 64 for each rack: one address for each machine, in
// ranges of 2^6 addresses, the first of them behind three and that of the boot server.
const addressPlan = `{"max-nodes-in-rack": 28, "node-ipv4-pool": "10.69.0.0/16", "node-ipv4-range-size": 6, "node-ipv4-range-mask": 26,
	"node-ip-per-node": 1, "node-index-offset": 3, "node-gateway-offset": 1,
	"bmc-ipv4-pool": "10.72.16.0/20", "bmc-ipv4-offset": "0.0.1.0", "bmc-ipv4-range-size": 5, "bmc-ipv4-range-mask": 20, "bmc-ipv4-gateway-offset": 1}`

// setUp waits until the server is ready and gives it the plan of its addresses.
func (s *Server) setUp(ctx context.Context) error {
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
	return s.do(ctx, http.MethodPut, "/api/v1/config/ipam", addressPlan)
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
