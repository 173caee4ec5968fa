package cketest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"cke"
)

// Machines is an inventory without machines, and how the one who keeps it changes it.
type Machines struct {
	cke.Inventory
	// Add registers healthy machines. One that is alone in its rack has the address that alone returns.
	Add func(...cke.Host)
	// SetState changes the state of a machine.
	SetState func(id string, s cke.HostState)
	// Remove removes a machine, whatever its state.
	Remove func(id string)
	// Fail lets every read fail, or never end, until restore is called.
	Fail func() (restore func())
}

// Inventory runs every case with an inventory of its own, or with one that has no machines left of earlier cases.
func Inventory(t *testing.T, play func(t *testing.T, scene func(*testing.T, Machines))) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, Machines)
	}{
		{"an inventory without machines is a good answer", noMachines},
		{"a machine is described as it is registered", machineIsDescribed},
		{"machines are in the order of their ids", machinesAreSorted},
		{"each state has its word", statesAreNamed},
		{"the time in a state starts with it and grows", timeInStateGrows},
		{"a machine that is removed is missing, and no other", removedIsMissing},
		{"a machine that is asked for alone is registered or not", askedForAlone},
		{"a successor at the same address is another machine", successorIsAnother},
		{"a read that fails is an error, and the next one is whole", failedReadIsAnError},
		{"a read ends with its context", readEndsWithContext},
		{"reads at the same time do not disturb each other", readsAtOnce},
	} {
		t.Run(c.name, func(t *testing.T) { play(t, c.run) })
	}
}

// alone is the address of the only machine in a rack.
func alone(rack int) string { return fmt.Sprintf("10.69.%d.%d", rack/4, rack%4*64+4) }

func host(id string, rack int) cke.Host {
	return cke.Host{ID: id, Addresses: []string{alone(rack)}, Role: "cs", Rack: rack, BMC: "IPMI-2.0", State: cke.HostHealthy}
}

// hosts reads an inventory and returns its hosts and their ids.
func hosts(t *testing.T, m Machines) (all []cke.Host, ids []string) {
	t.Helper()
	list, err := m.Hosts(bounded(t))
	must(t, "Hosts", err)
	for _, h := range list.Hosts {
		ids = append(ids, h.ID)
	}
	return list.Hosts, ids
}

func noMachines(t *testing.T, m Machines) {
	before := time.Now()
	list, err := m.Hosts(bounded(t))
	must(t, "Hosts", err)
	if len(list.Hosts) > 0 || list.ReadAt.Before(before) || list.ReadAt.After(time.Now()) {
		t.Errorf("got %+v", list)
	}
}

func machineIsDescribed(t *testing.T, m Machines) {
	plain, full := host("a", 1), host("b", 6)
	full.Role, full.BMC, full.RetireDate = "ss", "iDRAC-9", time.Date(2031, 5, 17, 0, 0, 0, 0, time.UTC)
	full.Labels = map[string]string{"machine-type": "big", "product": "R640"}
	m.Add(plain, full)
	all, _ := hosts(t, m)
	if len(all) != 2 {
		t.Fatalf("got %+v", all)
	}
	for i, want := range []cke.Host{plain, full} {
		got := all[i]
		if got.ID != want.ID || !slices.Equal(got.Addresses, want.Addresses) || got.Role != want.Role || got.Rack != want.Rack || got.State != want.State ||
			!maps.Equal(got.Labels, want.Labels) || !got.RetireDate.Equal(want.RetireDate) || got.BMC != want.BMC || got.For < 0 {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

func machinesAreSorted(t *testing.T, m Machines) {
	m.Add(host("c", 1), host("a", 3))
	m.Add(host("B", 2), host("10", 4), host("9", 5))
	if _, ids := hosts(t, m); !slices.Equal(ids, []string{"10", "9", "B", "a", "c"}) {
		t.Errorf("got %v", ids)
	}
}

func statesAreNamed(t *testing.T, m Machines) {
	states := []cke.HostState{cke.HostHealthy, cke.HostUnhealthy, cke.HostUnreachable, cke.HostMaintenance, cke.HostRetiring, cke.HostRetired}
	for i, s := range states {
		m.Add(host(string(s), i))
		if s != cke.HostHealthy {
			m.SetState(string(s), s)
		}
	}
	all, _ := hosts(t, m)
	if len(all) != len(states) {
		t.Fatalf("got %+v", all)
	}
	for _, h := range all {
		if h.ID != string(h.State) {
			t.Errorf("%s is %s", h.ID, h.State)
		}
	}
}

func timeInStateGrows(t *testing.T, m Machines) {
	m.Add(host("a", 1), host("b", 2))
	in := func(i int) time.Duration { all, _ := hosts(t, m); return all[i].For }
	first := in(0)
	const grown = 100 * time.Millisecond
	await(t, "the time in the state grows", func() bool { return in(0) > first+grown })
	long := in(1)
	m.SetState("a", cke.HostUnhealthy)
	all, _ := hosts(t, m)
	if all[0].For >= long || all[0].For < 0 || all[1].For < long {
		t.Errorf("after %s one was changed: it is unhealthy for %s, the other healthy for %s", long, all[0].For, all[1].For)
	}
}

func removedIsMissing(t *testing.T, m Machines) {
	m.Add(host("a", 1), host("b", 2), host("c", 3))
	m.Remove("b")
	if _, ids := hosts(t, m); !slices.Equal(ids, []string{"a", "c"}) {
		t.Errorf("got %v", ids)
	}
}

func askedForAlone(t *testing.T, m Machines) {
	m.Add(host("a", 1), host("b", 2))
	m.Remove("b")
	for id, want := range map[string]bool{"a": true, "b": false, `"x`: false} {
		got, err := m.Registered(bounded(t), id)
		must(t, "Registered", err)
		if got != want {
			t.Errorf("%s: %v, want %v", id, got, want)
		}
	}
	restore := m.Fail()
	ctx, cancel := context.WithTimeout(bounded(t), time.Second)
	defer cancel()
	if got, err := m.Registered(ctx, "b"); err == nil || got {
		t.Errorf("got %v, %v", got, err)
	}
	restore()
}

func successorIsAnother(t *testing.T, m Machines) {
	m.Add(host("old", 1))
	m.SetState("old", cke.HostRetiring)
	before, _ := hosts(t, m)
	m.Remove("old")
	m.Add(host("new", 1))
	after, _ := hosts(t, m)
	if len(before) != 1 || len(after) != 1 || after[0].ID != "new" || !slices.Equal(before[0].Addresses, after[0].Addresses) || after[0].State != cke.HostHealthy {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

func failedReadIsAnError(t *testing.T, m Machines) {
	m.Add(host("a", 1), host("b", 2))
	restore := m.Fail()
	ctx, cancel := context.WithTimeout(bounded(t), time.Second)
	defer cancel()
	if list, err := m.Hosts(ctx); err == nil || len(list.Hosts) > 0 {
		t.Errorf("got %+v, %v", list, err)
	}
	restore()
	if _, ids := hosts(t, m); !slices.Equal(ids, []string{"a", "b"}) {
		t.Errorf("got %v", ids)
	}
}

func readEndsWithContext(t *testing.T, m Machines) {
	m.Add(host("a", 1))
	ctx, cancel := context.WithCancel(bounded(t))
	cancel()
	_, err := m.Hosts(ctx)
	is(t, "Hosts", err, context.Canceled)
}

func readsAtOnce(t *testing.T, m Machines) {
	m.Add(host("a", 1), host("b", 2), host("c", 3))
	ctx, read := bounded(t), make(chan error)
	for range 8 {
		go func() {
			list, err := m.Hosts(ctx)
			if err == nil && len(list.Hosts) != 3 {
				err = fmt.Errorf("%d hosts", len(list.Hosts))
			}
			for i := range list.Hosts { // it is the caller's
				list.Hosts[i] = cke.Host{}
			}
			read <- err
		}()
	}
	for range 8 {
		is(t, "Hosts", <-read, nil)
	}
}
