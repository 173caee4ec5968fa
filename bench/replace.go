package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"cke"
	"cke/mtest/lab"
	"cke/mtest/rig"
)

const (
	// replacements is how often a dead member is replaced.
	replacements = 5
	// bulkKeys of bulkValue bytes are 200 MB, in more entries than a leader keeps for those that come later: a new
	// member is sent a snapshot.
	bulkKeys  = 12_500
	bulkValue = 16 << 10
	// connected is how long members must have seen each other before etcd takes a change of the member list. Those of a
	// cluster that has just had one are given that time.
	connected = 6 * time.Second
)

// benchReplacement measures how long it takes to replace a dead member of a cluster with 200 MB, by cke and manually.
func benchReplacement(ctx context.Context, h *host) ([]figure, error) {
	quorum, serves, sent, err := h.replaceDead(ctx)
	if err != nil {
		return nil, err
	}
	if err := h.lab.Reset(ctx); err != nil {
		return nil, err
	}
	naive, err := h.replaceByHand(ctx)
	if err != nil {
		return nil, fmt.Errorf("manually: %w", err)
	}
	return []figure{
		{name: "replace dead, 200 MB, quorum restored: median", value: median(quorum).Seconds(), unit: "s", target: 1.2},
		{name: "replace dead, 200 MB, quorum restored: slowest", value: quorum[replacements-1].Seconds(), unit: "s", target: 1.2},
		{name: "replace dead, 200 MB, serves: median", value: median(serves).Seconds(), unit: "s", target: 2},
		{name: "replace dead, 200 MB, serves: slowest", value: serves[replacements-1].Seconds(), unit: "s", target: 2},
		{name: "replace dead, 200 MB, etcd sends it: median", value: median(sent).Seconds(), unit: "s"},
		{name: "replace dead, 200 MB, manually: serves: median", value: median(naive).Seconds(), unit: "s"},
		{name: "replace dead, 200 MB, manually: serves: slowest", value: naive[replacements-1].Seconds(), unit: "s"},
		{name: "replace dead, 200 MB, serves: cke / manually", value: median(serves).Seconds() / median(naive).Seconds(), unit: "ratio", target: 0.5},
	}, nil
}

// replaceDead measures from `ckecli replace` of a member whose container and volume are gone, until its node has a voter
// again (quorum can bear a loss again), and until a write through it succeeds. sent is how long etcd's leader took to send the
// database: nobody can be faster.
func (h *host) replaceDead(ctx context.Context) (quorum, serves, sent []time.Duration, err error) {
	f, err := h.found(ctx, "replace")
	if err != nil {
		return nil, nil, nil, err
	}
	defer f.daemon.Kill()
	if err := fillCluster(ctx, f.urls(), f.tls); err != nil {
		return nil, nil, nil, err
	}
	for i := range replacements {
		q, s, err := h.replaceOne(ctx, f, i%3)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("%w; log: %s", err, f.daemon.LogText())
		}
		spent, err := f.spent(ctx, 4)
		if err != nil {
			return nil, nil, nil, err
		}
		took, err := h.sending(ctx, i%3)
		if err != nil {
			return nil, nil, nil, err
		}
		sent = append(sent, took)
		fmt.Fprintf(os.Stderr, "  replaced %d: a voter again after %s, serves after %s: %s\n", i+1, q.Round(time.Millisecond), s.Round(time.Millisecond), spent)
		quorum, serves = append(quorum, q), append(serves, s)
	}
	for _, all := range [][]time.Duration{quorum, serves, sent} {
		slices.Sort(all)
	}
	return quorum, serves, sent, nil
}

// sending reads from the members' logs how long the latest sending of a database took. to is who received it.
func (h *host) sending(ctx context.Context, to int) (time.Duration, error) {
	var began, ended time.Time
	for i, n := range h.lab.Nodes()[:3] {
		if i == to {
			continue
		}
		log, err := h.lab.Exec(ctx, n.Name, "sh", "-c", "docker logs --since 2m $(docker ps -q) 2>&1 | grep 'database snapshot'")
		if _, exited := lab.IsExit(err); err != nil && !exited { // it found none
			return 0, err
		}
		for line := range strings.Lines(log) {
			var e struct {
				Time string `json:"ts"`
				Text string `json:"msg"`
			}
			if json.Unmarshal([]byte(line), &e) != nil {
				continue
			}
			at, err := time.Parse("2006-01-02T15:04:05.999999Z0700", e.Time)
			switch {
			case err != nil:
			case e.Text == "sending database snapshot" && at.After(began):
				began = at
			case e.Text == "sent database snapshot" && at.After(ended):
				ended = at
			}
		}
	}
	if !ended.After(began) || began.IsZero() {
		return 0, errors.New("no member says that it sent its database")
	}
	return ended.Sub(began), nil
}

func (h *host) replaceOne(ctx context.Context, f founded, victim int) (quorum, serves time.Duration, err error) {
	node := h.lab.Nodes()[victim]
	if _, err := f.leader(ctx); err != nil { // all is well
		return 0, 0, err
	}
	if err := f.daemon.Freeze(); err != nil { // else the container is made again before its volume is gone
		return 0, 0, err
	}
	_, err = h.lab.Exec(ctx, node.Name, "sh", "-c", "docker rm -f $(docker ps -aq) && docker volume rm $(docker volume ls -q)")
	if thawed := f.daemon.Thaw(); err != nil || thawed != nil {
		return 0, 0, fmt.Errorf("take the data away: %w, %w", err, thawed)
	}
	s, err := f.Await(ctx, "the loss to be reported", func(s cke.Status) bool {
		return slices.ContainsFunc(s.Problems, func(p cke.Problem) bool { return p.Node == node.Name && p.Code == cke.CodeDataMissing })
	})
	if err != nil {
		return 0, 0, err
	}
	before := map[string]bool{}
	for _, m := range s.Members {
		before[m.ID] = true
	}
	other, err := rig.Client(f.urls()[(victim+1)%3], f.tls)
	if err != nil {
		return 0, 0, err
	}
	defer other.Close()
	fresh, err := rig.Client(rig.URL(node), f.tls)
	if err != nil {
		return 0, 0, err
	}
	defer fresh.Close()

	if err := pause(ctx, connected); err != nil {
		return 0, 0, err
	}
	w, err := rig.StartWriter([]string{f.urls()[(victim+1)%3]}, f.tls, fmt.Sprintf("others/%d/", time.Now().UnixNano())) // the cluster is in use
	if err != nil {
		return 0, 0, err
	}
	defer w.Stop()
	if err := w.Await(ctx, 20); err != nil {
		return 0, 0, err
	}

	began := time.Now()
	var g errgroup.Group
	g.Go(func() error {
		_, err := f.Do(ctx, "replace", node.Name, "--yes")
		return err
	})
	g.Go(func() error {
		err := awaitVoter(ctx, other, before)
		quorum = time.Since(began)
		return err
	})
	g.Go(func() error {
		err := rig.PutThrough(ctx, fresh, "bench/fresh", "1")
		serves = time.Since(began)
		return err
	})
	return quorum, serves, g.Wait()
}

// spent reports how long the steps of the last n operations took, the earliest first.
func (f founded) spent(ctx context.Context, n int) (string, error) {
	records, err := f.Records(ctx, n)
	if err != nil {
		return "", err
	}
	var all []string
	for _, r := range slices.Backward(records) {
		all = append(all, r.Operation+":")
		for _, s := range r.Steps {
			if s.EndedAt.IsZero() {
				continue
			}
			all = append(all, fmt.Sprintf("%s %s", s.Name, s.EndedAt.Sub(s.StartedAt).Round(time.Millisecond)))
		}
	}
	return strings.Join(all, " "), nil
}

// awaitVoter waits until a member that was not there before votes.
func awaitVoter(ctx context.Context, c *clientv3.Client, before map[string]bool) error {
	for {
		list, err := c.MemberList(ctx)
		if err == nil && slices.ContainsFunc(list.Members, func(m *etcdserverpb.Member) bool { return !m.IsLearner && !before[fmt.Sprintf("%x", m.ID)] }) {
			return nil
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}

// fillCluster writes 200 MB through all members.
func fillCluster(ctx context.Context, urls []string, tls *tls.Config) error {
	fmt.Fprintln(os.Stderr, "  write 200 MB")
	value := strings.Repeat(string(newFiller().next()), bulkValue/1024)
	g, ctx := errgroup.WithContext(ctx)
	const lanes = 16
	for lane := range lanes {
		c, err := rig.Client(urls[lane%len(urls)], tls)
		if err != nil {
			return err
		}
		g.Go(func() error {
			defer c.Close()
			for i := lane; i < bulkKeys; i += lanes {
				if _, err := c.Put(ctx, fmt.Sprintf("bulk/%08d", i), value); err != nil {
					return fmt.Errorf("write 200 MB: %w", err)
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// replaceByHand does with etcdctl's calls what operators do: remove the dead member, add a new one as a voter, start it. It
// returns the times from the removal until a write through the new member succeeds.
func (h *host) replaceByHand(ctx context.Context) ([]time.Duration, error) {
	if _, err := h.byHand(ctx); err != nil {
		return nil, err
	}
	var urls []string
	for _, n := range h.lab.Nodes()[:3] {
		urls = append(urls, "http://"+n.Address+":2379")
	}
	if err := fillCluster(ctx, urls, nil); err != nil {
		return nil, err
	}
	var all []time.Duration
	for i := range replacements {
		d, err := h.replaceOneByHand(ctx, urls, i%3)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(os.Stderr, "  manually %d: serves after %s\n", i+1, d.Round(time.Millisecond))
		all = append(all, d)
	}
	slices.Sort(all)
	return all, nil
}

func (h *host) replaceOneByHand(ctx context.Context, urls []string, victim int) (time.Duration, error) {
	node := h.lab.Nodes()[victim]
	if _, err := h.lab.Exec(ctx, node.Name, "sh", "-c", "docker rm -f etcd && docker volume rm etcd"); err != nil {
		return 0, err
	}
	other, err := rig.Client(urls[(victim+1)%3], nil)
	if err != nil {
		return 0, err
	}
	defer other.Close()
	fresh, err := rig.Client(urls[victim], nil)
	if err != nil {
		return 0, err
	}
	defer fresh.Close()
	if err := pause(ctx, connected); err != nil {
		return 0, err
	}
	w, err := rig.StartWriter([]string{urls[(victim+1)%3]}, nil, fmt.Sprintf("others/%d/", time.Now().UnixNano())) // the cluster is in use
	if err != nil {
		return 0, err
	}
	defer w.Stop()
	if err := w.Await(ctx, 20); err != nil {
		return 0, err
	}

	began := time.Now()
	list, err := other.MemberList(ctx)
	if err != nil {
		return 0, err
	}
	for _, m := range list.Members {
		if m.Name == node.Name {
			if _, err := other.MemberRemove(ctx, m.ID); err != nil {
				return 0, err
			}
		}
	}
	if err := whenAccepted(ctx, func() error {
		_, err := other.MemberAdd(ctx, []string{"http://" + node.Address + ":2380"})
		return err
	}); err != nil {
		return 0, err
	}
	if err := h.runByHand(ctx, node, "existing"); err != nil {
		return 0, err
	}
	if err := rig.PutThrough(ctx, fresh, "bench/fresh", "1"); err != nil {
		return 0, err
	}
	return time.Since(began), nil
}

// whenAccepted tries again while etcd refuses: its members must have been connected for five seconds.
func whenAccepted(ctx context.Context, do func() error) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		err := do()
		if err == nil || pause(ctx, 100*time.Millisecond) != nil {
			return err
		}
	}
}
