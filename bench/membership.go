package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"time"

	"cke"
	"cke/mtest/rig"
)

// plannedChanges is how often each planned change is made.
const plannedChanges = 5

// founded is a cluster of three that cke runs.
type founded struct {
	*rig.Rig
	daemon *rig.Daemon
	tls    *tls.Config
	file   cke.Cluster
}

func (h *host) found(ctx context.Context, name string) (founded, error) {
	r, d, err := h.start(ctx, name)
	if err != nil {
		return founded{}, err
	}
	f := founded{Rig: r, daemon: d, file: r.Spec(3)}
	f.file.Options.Etcd.ExtraArgs = []string{"--quota-backend-bytes=4294967296"}
	if err = f.apply(ctx); err == nil {
		f.tls, err = r.ClientTLS(ctx)
	}
	if err != nil {
		d.Kill()
	}
	return f, err
}

// apply stores the file and waits until the cluster is as it says.
func (f founded) apply(ctx context.Context) error {
	path, err := f.WriteSpec(f.file)
	if err != nil {
		return err
	}
	if _, err := f.Do(ctx, "cluster", "set", "--yes", path); err != nil {
		return fmt.Errorf("%w; log: %s", err, f.daemon.LogText())
	}
	return nil
}

func (f founded) urls() []string {
	var all []string
	for _, n := range f.Lab.Nodes()[:3] {
		all = append(all, rig.URL(n))
	}
	return all
}

// leader returns the name of the node whose member leads.
func (f founded) leader(ctx context.Context) (string, error) {
	s, err := f.Await(ctx, "a leader", func(s cke.Status) bool {
		return rig.Ready(s) && slices.ContainsFunc(s.Members, isLeader)
	})
	if err != nil {
		return "", err
	}
	return s.Members[slices.IndexFunc(s.Members, isLeader)].Name, nil
}

func isLeader(m cke.MemberStatus) bool { return m.Role == "leader" }

// benchPlanned measures how long clients cannot write while members are restarted and replaced, with leadership moved by
// cke, and when a leader ends without that.
func benchPlanned(ctx context.Context, h *host) ([]figure, error) {
	f, err := h.found(ctx, "planned")
	if err != nil {
		return nil, err
	}
	defer f.daemon.Kill()
	w, err := rig.StartWriter(f.urls(), f.tls, "gap/")
	if err != nil {
		return nil, err
	}
	defer w.Stop()
	gaps := func(change func(i int) error) ([]time.Duration, error) {
		var all []time.Duration
		for i := range plannedChanges {
			if err := w.Await(ctx, 200); err != nil {
				return nil, err
			}
			w.TakeGap()
			if err := change(i); err != nil {
				return nil, err
			}
			if err := w.Await(ctx, 200); err != nil {
				return nil, err
			}
			all = append(all, w.TakeGap())
		}
		slices.Sort(all)
		return all, nil
	}
	rolling, err := gaps(func(i int) error {
		f.file.Options.Etcd.ExtraArgs = []string{fmt.Sprintf("--quota-backend-bytes=%d", 5<<30+i)}
		return f.apply(ctx)
	})
	if err != nil {
		return nil, err
	}
	replace, err := gaps(func(int) error {
		leader, err := f.leader(ctx)
		if err != nil {
			return err
		}
		_, err = f.Do(ctx, "replace", leader, "--yes")
		return err
	})
	if err != nil {
		return nil, err
	}
	byHand := func(command string) ([]time.Duration, error) {
		return gaps(func(int) error {
			leader, err := f.leader(ctx)
			if err != nil {
				return err
			}
			_, err = h.lab.Exec(ctx, leader, "sh", "-c", command)
			return err
		})
	}
	asked, err := byHand("docker restart $(docker ps -q)")
	if err != nil {
		return nil, err
	}
	unmoved, err := byHand("docker kill $(docker ps -q)") // cke starts it again
	if err != nil {
		return nil, err
	}
	seconds := func(d []time.Duration, at int) float64 { return d[at].Seconds() }
	const middle, last = plannedChanges / 2, plannedChanges - 1
	return []figure{
		{name: "rolling restart, gap in writes: median", value: seconds(rolling, middle), unit: "s", target: 0.3},
		{name: "rolling restart, gap in writes: longest", value: seconds(rolling, last), unit: "s", target: 0.3},
		{name: "replace healthy leader, gap in writes: median", value: seconds(replace, middle), unit: "s", target: 0.3},
		{name: "replace healthy leader, gap in writes: longest", value: seconds(replace, last), unit: "s", target: 0.3},
		{name: "leader restarted manually, etcd moves it: median", value: seconds(asked, middle), unit: "s"},
		{name: "leader killed, leadership not moved: gap: median", value: seconds(unmoved, middle), unit: "s"},
		{name: "gap in writes, cke / leadership not moved", value: seconds(rolling, middle) / seconds(unmoved, middle), unit: "ratio", target: 0.3},
	}, nil
}
