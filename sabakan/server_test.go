package sabakan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/sabakan"
)

func rackHost(id string, rack int) cke.Host {
	return cke.Host{ID: id, Role: "cs", Rack: rack}
}

// A machine from its registration to its end, in sabakan's own words.
func TestServer_SeesEachStateOfAMachine(t *testing.T) {
	k := newKeeper(t)
	k.must(k.server.Register(t.Context(), rackHost("a", 1)))
	for _, step := range []struct {
		word string // none: it is new
		want cke.HostState
	}{
		{"", cke.HostMaintenance}, {"healthy", cke.HostHealthy}, {"unreachable", cke.HostUnreachable}, {"healthy", cke.HostHealthy},
		{"updating", cke.HostMaintenance}, {"uninitialized", cke.HostMaintenance}, {"healthy", cke.HostHealthy}, {"unhealthy", cke.HostUnhealthy},
		{"retiring", cke.HostRetiring}, {"retired", cke.HostRetired},
	} {
		if step.word != "" {
			k.set("a", step.word)
		}
		h := k.hosts()[0]
		if h.State != step.want || h.For < 0 || h.For > time.Minute {
			t.Errorf("after %q: %s for %s, want %s", step.word, h.State, h.For, step.want)
		}
		if !h.RetireDate.IsZero() {
			t.Errorf("it is due on %s, which was never set", h.RetireDate)
		}
	}
}

// Three machines are in one rack; one goes, and its successor gets the address.
func TestServer_ASuccessorGetsTheAddressAndNotTheIdentity(t *testing.T) {
	k := newKeeper(t)
	k.add(rackHost("a", 1), rackHost("b", 1), rackHost("c", 1))
	before := k.hosts()
	k.remove("b")
	k.add(rackHost("z", 1))
	after := k.hosts()
	if got := []string{after[0].ID, after[1].ID, after[2].ID}; !slices.Equal(got, []string{"a", "c", "z"}) {
		t.Fatalf("got %v", got)
	}
	if !slices.Equal(before[1].Addresses, after[2].Addresses) {
		t.Errorf("b had %v, z has %v", before[1].Addresses, after[2].Addresses)
	}
}

// A server whose etcd does not answer hangs for as long as it is asked.
func TestServer_AServerWithoutItsEtcdIsAFailedRead(t *testing.T) {
	k := newKeeper(t)
	k.add(rackHost("a", 1))
	k.hosts()
	k.server.StopEtcd()
	k.source.Within = time.Second
	start := time.Now()
	list, err := k.source.Hosts(t.Context())
	if err == nil || len(list.Hosts) > 0 {
		t.Fatalf("got %+v, %v", list, err)
	}
	if took := time.Since(start); took > 3*k.source.Within {
		t.Errorf("the read took %s", took)
	}
	if !strings.Contains(err.Error(), "no whole answer within 1s") {
		t.Error(err)
	}
}

func TestServer_ReadsAThousandMachines(t *testing.T) {
	k := newKeeper(t)
	var all []cke.Host
	for i := range 1000 {
		h := rackHost(fmt.Sprintf("m%04d", i), i/25)
		h.Labels = map[string]string{"machine-type": fmt.Sprint(i % 3)}
		all = append(all, h)
	}
	k.must(k.server.Register(t.Context(), all...))
	got, addresses := k.hosts(), map[string]bool{}
	for i, h := range got {
		if h.ID != all[i].ID || h.Rack != all[i].Rack || h.Labels["machine-type"] != fmt.Sprint(i%3) || len(h.Addresses) != 1 {
			t.Fatalf("got %+v, want %+v", h, all[i])
		}
		addresses[h.Addresses[0]] = true
	}
	if len(got) != 1000 || len(addresses) != 1000 {
		t.Errorf("%d machines with %d addresses", len(got), len(addresses))
	}
}

func TestServer_AnotherServerIsNoInventory(t *testing.T) {
	k := newKeeper(t)
	wrong, err := sabakan.NewServer(k.server.URL + "/api/v1")
	k.must(err)
	if _, err := wrong.Hosts(t.Context()); err == nil || !strings.Contains(err.Error(), "it answers 404") {
		t.Errorf("another path: %v", err)
	}
}
