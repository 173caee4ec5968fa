package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
	"time"

	"cke"
	"cke/mtest/rig"
)

// recoveries is how often each kind of member is killed.
const recoveries = 10

// benchRecovery kills a follower's and the leader's container and measures until cke started to start it, and until a
// write through the same member succeeds.
func benchRecovery(ctx context.Context, h *host) ([]figure, error) {
	f, err := h.found(ctx, "recovery")
	if err != nil {
		return nil, err
	}
	defer f.daemon.Kill()
	var noticed, noticedLeader, follower, leader []time.Duration
	for i := range 2 * recoveries {
		role := "follower"
		if i%2 == 1 {
			role = "leader"
		}
		n, s, err := h.killMember(ctx, f.Rig, f.tls, role)
		if err != nil {
			return nil, fmt.Errorf("kill the %s: %w; log: %s", role, err, f.daemon.LogText())
		}
		if role == "leader" {
			noticedLeader, leader = append(noticedLeader, n), append(leader, s)
		} else {
			noticed, follower = append(noticed, n), append(follower, s)
		}
	}
	for _, all := range [][]time.Duration{noticed, noticedLeader, follower, leader} {
		slices.Sort(all)
	}
	return []figure{
		{name: "dead follower noticed, start issued: median", value: median(noticed).Seconds(), unit: "s", target: 0.1},
		{name: "dead leader noticed, start issued: median", value: median(noticedLeader).Seconds(), unit: "s", target: 0.1},
		{name: "killed follower serves again: median", value: median(follower).Seconds(), unit: "s", target: 0.5},
		{name: "killed follower serves again: slowest", value: follower[len(follower)-1].Seconds(), unit: "s", target: 0.5},
		{name: "killed leader serves again: median", value: median(leader).Seconds(), unit: "s", target: 1.5},
		{name: "killed leader serves again: slowest", value: leader[len(leader)-1].Seconds(), unit: "s", target: 1.5},
	}, nil
}

// killMember returns how long after the engine saw the container die cke started to start it, and how long after that
// moment a write through the member succeeded.
func (h *host) killMember(ctx context.Context, r *rig.Rig, tls *tls.Config, role string) (noticed, serves time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	s, err := r.Await(ctx, "a ready cluster", rig.Ready)
	if err != nil {
		return 0, 0, err
	}
	// An operation that has just completed is not started again at once; deaths are farther apart than that.
	if err := pause(ctx, 1200*time.Millisecond); err != nil {
		return 0, 0, err
	}
	i := slices.IndexFunc(s.Members, func(m cke.MemberStatus) bool { return m.Role == role })
	if i < 0 {
		return 0, 0, fmt.Errorf("there is no %s in %+v", role, s.Members)
	}
	victim := s.Members[i]
	before, err := r.Records(ctx, 1)
	if err != nil {
		return 0, 0, err
	}
	c, err := rig.Client("https://"+victim.Address+":2379", tls)
	if err != nil {
		return 0, 0, err
	}
	defer c.Close()
	if err := rig.PutThrough(ctx, c, "bench/before", "1"); err != nil {
		return 0, 0, err
	}
	names, err := h.lab.Exec(ctx, victim.Name, "docker", "ps", "-q", "--filter", "label=cke.cluster")
	if err != nil {
		return 0, 0, err
	}
	// The node and this process share a clock: docker's own time of death is when the container was dead.
	if _, err := h.lab.Exec(ctx, victim.Name, "docker", "kill", strings.TrimSpace(names)); err != nil {
		return 0, 0, err
	}
	if err := rig.PutThrough(ctx, c, "bench/after", "1"); err != nil {
		return 0, 0, err
	}
	served := time.Now()
	dead, err := h.diedAt(ctx, victim.Name)
	if err != nil {
		return 0, 0, err
	}
	if _, err := r.Await(ctx, "a ready cluster", rig.Ready); err != nil {
		return 0, 0, err
	}
	records, err := r.Records(ctx, 5)
	if err != nil {
		return 0, 0, err
	}
	for _, rec := range slices.Backward(records) {
		if rec.ID > before[0].ID {
			return rec.StartedAt.Sub(dead), served.Sub(dead), nil
		}
	}
	return 0, 0, fmt.Errorf("no operation was recorded")
}

// diedAt returns when the engine saw the last container of the node die.
func (h *host) diedAt(ctx context.Context, node string) (time.Time, error) {
	out, err := h.lab.Exec(ctx, node, "sh", "-c", "timeout 0.5 docker events --since 30s --filter event=die --format '{{.TimeNano}}' | tail -1")
	if err != nil {
		return time.Time{}, err
	}
	var nanos int64
	if _, err := fmt.Sscan(strings.TrimSpace(out), &nanos); err != nil {
		return time.Time{}, fmt.Errorf("docker events of %s: %q: %w", node, out, err)
	}
	return time.Unix(0, nanos), nil
}
