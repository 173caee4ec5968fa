package sabakan_test

import (
	"crypto/x509"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"cke"
	"cke/cketest"
	"cke/clusterfile"
	"cke/sabakan"
	"cke/sabakan/sabakantest"
)

// Both sources pass the same cases.
func TestInventory_SabakanDoesWhatThePortSays(t *testing.T) {
	k := newKeeper(t)
	cketest.Inventory(t, func(t *testing.T, scene func(*testing.T, cketest.Machines)) {
		k := keeper{t, k.server, k.source}
		defer k.clear()
		scene(t, cketest.Machines{Inventory: k.source, Add: k.add, SetState: k.setState, Remove: k.remove, Fail: k.suspend})
	})
}

// keeper changes machines in a real sabakan.
type keeper struct {
	t      *testing.T
	server *sabakantest.Server
	source *sabakan.Server
}

func newKeeper(t *testing.T) keeper {
	t.Helper()
	server := sabakantest.Run(t, sabakantest.Wide)
	source, err := sabakan.NewServer(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	source.Within = time.Minute // the machine may be busy
	return keeper{t, server, source}
}

func (k keeper) must(err error) {
	k.t.Helper()
	if err != nil {
		k.t.Fatal(err)
	}
}

func (k keeper) add(hosts ...cke.Host) {
	k.t.Helper()
	k.must(k.server.Register(k.t.Context(), hosts...))
	for _, h := range hosts {
		k.set(h.ID, "healthy")
	}
}

// set takes sabakan's words.
func (k keeper) set(id string, states ...string) {
	k.t.Helper()
	for _, s := range states {
		k.must(k.server.SetState(k.t.Context(), id, s))
	}
}

func (k keeper) setState(id string, s cke.HostState) {
	k.t.Helper()
	switch s {
	case cke.HostMaintenance:
		k.set(id, "updating")
	case cke.HostRetired:
		k.set(id, "retiring", "retired")
	default:
		k.set(id, string(s))
	}
}

func (k keeper) hosts() []cke.Host {
	k.t.Helper()
	list, err := k.source.Hosts(k.t.Context())
	k.must(err)
	return list.Hosts
}

// remove retires a machine, as sabakan wants it, and deletes it.
func (k keeper) remove(id string) {
	k.t.Helper()
	all := k.hosts()
	i := slices.IndexFunc(all, func(h cke.Host) bool { return h.ID == id })
	switch all[i].State {
	case cke.HostMaintenance:
		k.set(id, "uninitialized", "retiring", "retired")
	case cke.HostRetiring:
		k.set(id, "retired")
	case cke.HostRetired:
	default:
		k.set(id, "retiring", "retired")
	}
	k.must(k.server.Delete(k.t.Context(), id))
}

func (k keeper) clear() {
	for _, h := range k.hosts() {
		k.remove(h.ID)
	}
}

func (k keeper) suspend() (resume func()) {
	k.t.Helper()
	resume, err := k.server.Suspend()
	k.must(err)
	return resume
}

func TestInventory_FilesDoWhatThePortSays(t *testing.T) {
	for name, marshal := range map[string]func(any) ([]byte, error){"YAML": yaml.Marshal, "JSON": json.Marshal} {
		t.Run(name, func(t *testing.T) {
			cketest.Inventory(t, func(t *testing.T, scene func(*testing.T, cketest.Machines)) {
				playFile(t, scene, marshal, func(path string) (string, *x509.CertPool) { return path, nil })
			})
		})
	}
	t.Run("URL", func(t *testing.T) {
		cketest.Inventory(t, func(t *testing.T, scene func(*testing.T, cketest.Machines)) {
			playFile(t, scene, yaml.Marshal, func(path string) (string, *x509.CertPool) {
				s := httptest.NewTLSServer(http.FileServer(http.Dir(filepath.Dir(path))))
				t.Cleanup(s.Close)
				return s.URL + "/" + filepath.Base(path), s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
			})
		})
	})
}

// playFile plays a case with a file that is served at a place.
func playFile(t *testing.T, scene func(*testing.T, cketest.Machines), marshal func(any) ([]byte, error), serve func(path string) (string, *x509.CertPool)) {
	path := filepath.Join(t.TempDir(), "hosts")
	hosts := []map[string]any{}
	write := func() {
		data, err := marshal(map[string]any{"hosts": hosts})
		if err == nil {
			err = os.WriteFile(path+".new", data, 0o600)
		}
		if err == nil {
			err = os.Rename(path+".new", path)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write()
	at := func(id string) int {
		return slices.IndexFunc(hosts, func(h map[string]any) bool { return h["id"] == id })
	}
	place, roots := serve(path)
	source, err := sabakan.NewFile(place, clusterfile.ParseHosts)
	if err != nil {
		t.Fatal(err)
	}
	source.Roots = roots
	scene(t, cketest.Machines{
		Inventory: source,
		Add: func(added ...cke.Host) {
			for _, h := range added {
				entry := map[string]any{"id": h.ID, "address": h.Addresses[0], "role": h.Role, "rack": h.Rack, "labels": h.Labels, "bmc": h.BMC}
				if !h.RetireDate.IsZero() {
					entry["retire_date"] = h.RetireDate.Format(time.DateOnly)
				}
				hosts = append(hosts, entry)
			}
			write()
		},
		SetState: func(id string, s cke.HostState) { hosts[at(id)]["state"] = s; write() },
		Remove:   func(id string) { i := at(id); hosts = slices.Delete(hosts, i, i+1); write() },
		Fail: func() func() {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			return write
		},
	})
}
