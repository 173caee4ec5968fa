package sabakan

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"time"

	"cke"
)

// answer is what GraphQL returns. What the schema never leaves out is a pointer here: nil is half an answer.
type answer struct {
	Errors []struct {
		Message string `json:"message"`
	} `json:"errors"`
	Data *struct {
		Machines *[]*machine `json:"searchMachines"`
	} `json:"data"`
}

type machine struct {
	Spec *struct {
		Serial string `json:"serial"`
		Labels []struct {
			Name  string `json:"name"`
			Value string `json:"value"`
		} `json:"labels"` // null: there are none
		Rack         *int       `json:"rack"`
		Role         *string    `json:"role"`
		IPv4         *[]string  `json:"ipv4"`
		RegisterDate *time.Time `json:"registerDate"`
		RetireDate   *time.Time `json:"retireDate"`
		BMC          *struct {
			Type string `json:"bmcType"`
		} `json:"bmc"`
	} `json:"spec"`
	Status *struct {
		State *string `json:"state"`
		// Duration is in seconds. It is a little below zero if another server has changed the state by its own clock.
		Duration *float64 `json:"duration"`
	} `json:"status"`
}

// parseAnswer returns all hosts of an answer, or why it is not a whole and sound one.
func parseAnswer(body []byte, status int) ([]cke.Host, error) {
	var a answer
	malformed := json.Unmarshal(body, &a)
	switch {
	case malformed == nil && len(a.Errors) > 0:
		return nil, fmt.Errorf("it answers %d with the error %q", status, bounded(a.Errors[0].Message))
	case status != http.StatusOK:
		return nil, fmt.Errorf("it answers %d %s", status, http.StatusText(status))
	case malformed != nil:
		return nil, fmt.Errorf("its answer of %d bytes is not whole JSON of machines: %w", len(body), malformed)
	case a.Data == nil || a.Data.Machines == nil:
		return nil, errors.New("its answer has no searchMachines: is it a sabakan?")
	}
	hosts := make([]cke.Host, 0, len(*a.Data.Machines))
	for i, m := range *a.Data.Machines {
		h, err := m.host()
		if err != nil {
			return nil, fmt.Errorf("machine %d of %d in its answer: %w", i+1, len(*a.Data.Machines), err)
		}
		hosts = append(hosts, h)
	}
	return listed(hosts)
}

// notFound is what sabakan says of a machine that is not registered.
const notFound = "not found"

// parseOne reports whether an answer is about the machine that was asked for, or says that there is none.
func parseOne(body []byte, status int, serial string) (bool, error) {
	var a struct {
		answer
		Data *struct {
			Machine *machine `json:"machine"`
		} `json:"data"`
	}
	malformed := json.Unmarshal(body, &a)
	switch {
	case status != http.StatusOK:
		return false, fmt.Errorf("it answers %d %s", status, http.StatusText(status))
	case malformed != nil:
		return false, fmt.Errorf("its answer of %d bytes is not whole JSON of a machine: %w", len(body), malformed)
	case len(a.Errors) == 1 && a.Errors[0].Message == notFound && (a.Data == nil || a.Data.Machine == nil):
		return false, nil
	case len(a.Errors) > 0:
		return false, fmt.Errorf("it answers with the error %q", bounded(a.Errors[0].Message))
	case a.Data == nil || a.Data.Machine == nil || a.Data.Machine.Spec == nil || a.Data.Machine.Spec.Serial != serial:
		return false, fmt.Errorf("its answer is not about machine %s", bounded(serial))
	}
	return true, nil
}

// host returns the machine as a host.
func (m *machine) host() (cke.Host, error) {
	if m == nil || m.Spec == nil || m.Spec.Serial == "" {
		return cke.Host{}, errors.New("it has no serial")
	}
	s := m.Spec
	for _, part := range []struct {
		name    string
		missing bool
	}{
		{"rack", s.Rack == nil}, {"role", s.Role == nil}, {"ipv4", s.IPv4 == nil}, {"registerDate", s.RegisterDate == nil}, {"retireDate", s.RetireDate == nil}, {"bmc", s.BMC == nil},
		{"status", m.Status == nil}, {"state", m.Status != nil && m.Status.State == nil}, {"duration", m.Status != nil && m.Status.Duration == nil},
	} {
		if part.missing {
			return cke.Host{}, fmt.Errorf("%s has no %s", s.Serial, part.name)
		}
	}
	h := cke.Host{ID: s.Serial, Role: *s.Role, Rack: *s.Rack, State: cke.HostStateOf(*m.Status.State), For: seconds(*m.Status.Duration), BMC: s.BMC.Type}
	if !s.RetireDate.Equal(*s.RegisterDate) { // else it was never set
		h.RetireDate = *s.RetireDate
	}
	for _, l := range s.Labels {
		if h.Labels == nil {
			h.Labels = map[string]string{}
		}
		h.Labels[l.Name] = l.Value
	}
	for _, text := range *s.IPv4 {
		if text == "<nil>" { // sabakan has no address, or one that it cannot read
			continue
		}
		a, err := netip.ParseAddr(text)
		if err != nil {
			return cke.Host{}, fmt.Errorf("%s has the address %q: want an IP address", s.Serial, bounded(text))
		}
		h.Addresses = append(h.Addresses, a.Unmap().String())
	}
	return h, nil
}

// seconds returns a duration that is neither negative nor overflows.
func seconds(s float64) time.Duration {
	const most = math.MaxInt64 / int64(time.Second)
	return time.Duration(min(max(s, 0), float64(most)) * float64(time.Second))
}
