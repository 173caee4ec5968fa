package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"cke"
	"cke/sabakan"
)

// benchChoose measures what follows from an inventory of many machines: nothing with all of them healthy, and an exchange.
func benchChoose(_ context.Context, _ *host) ([]figure, error) {
	const machines, times = 5000, 51
	var figures []figure
	for _, c := range []struct {
		name  string
		state cke.HostState
	}{{"all are healthy", cke.HostHealthy}, {"one is exchanged", cke.HostRetired}} {
		in := largeInventory(machines, c.state)
		if got := sabakan.Choose(in); (got.Change != nil) != (c.state == cke.HostRetired) || got.Stop != "" {
			return nil, fmt.Errorf("%s: %s", c.name, got.Reason)
		}
		var took []time.Duration
		for range times {
			start := time.Now()
			sabakan.Choose(in)
			took = append(took, time.Since(start))
		}
		slices.Sort(took)
		figures = append(figures, figure{fmt.Sprintf("choose among %d machines, %s", machines, c.name), took[times/2].Seconds() * 1000, "ms", 5, false})
	}
	return figures, nil
}

// largeInventory is a cluster of five members, the second on a machine in this state, and an inventory of so many machines.
func largeInventory(machines int, second cke.HostState) sabakan.Input {
	now := time.Now()
	in := sabakan.Input{
		Template: cke.Template{Name: "prod", Nodes: []cke.Node{{ControlPlane: true}}, Inventory: cke.InventoryOptions{ControlPlane: 5, Roles: []string{"cs"}}}.Filled(),
		Spec:     cke.Spec{Cluster: cke.Cluster{Name: "prod"}, Generation: 1},
		Status:   cke.Status{Generation: 1, ObservedGeneration: 1, ObservedAt: now, Tolerance: 2, Etcd: cke.EtcdStatus{Quorate: true}},
		Read:     cke.HostList{ReadAt: now}, Now: now,
		Simulate: func(cke.Cluster) (sabakan.Simulated, error) { return sabakan.Simulated{Least: 2, Tolerance: 2}, nil },
	}
	for i := range machines {
		h := cke.Host{ID: fmt.Sprintf("machine-%04d", i), Addresses: []string{fmt.Sprintf("10.%d.%d.1", i/250, i%250)}, Role: "cs", Rack: i % 100,
			State: cke.HostHealthy, For: time.Duration(i+24) * time.Hour, Labels: map[string]string{"machine-type": "big"}}
		if i == 1 {
			h.State = second
		}
		in.Read.Hosts = append(in.Read.Hosts, h)
		if i < 5 {
			n := cke.Node{Address: h.Addresses[0], Hostname: h.ID, ControlPlane: true, Zone: fmt.Sprintf("rack%d", h.Rack),
				Labels: map[string]string{cke.LabelRole: "cs", "machine-type": "big"}, Annotations: map[string]string{cke.AnnotationSerial: h.ID}}
			in.Spec.Cluster.Nodes = append(in.Spec.Cluster.Nodes, n)
			in.Status.Members = append(in.Status.Members, cke.MemberStatus{Name: h.ID, Address: n.Address, Join: cke.JoinID(h.ID), Ready: true})
		}
	}
	in.Unchecked()
	earlier := in.Read
	earlier.ReadAt = now.Add(-30 * time.Second)
	in.Past = in.Past.Next(earlier, in.Spec, in.Status, 30*time.Second, sabakan.Overridden)
	return in
}
