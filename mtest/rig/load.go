package rig

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Load is what clients do to a cluster while something happens to it: a Writer, whose acknowledged writes must all be
// there in the end, and clients that read, write and swap a handful of registers, whose history must be linearizable.
type Load struct {
	*Writer
	prefix  string // of all keys
	history *History
	tls     *tls.Config
	stop    context.CancelFunc
	wg      sync.WaitGroup
}

const (
	// loadKeys is how many registers there are: few, so that clients meet.
	loadKeys = 5
	// loadEvery is the pause of a client between two calls.
	loadEvery = 40 * time.Millisecond
	// historyLimit bounds the search for an order of all calls.
	historyLimit = time.Minute
)

// StartLoad starts with two clients through each URL, of which some may not serve yet. Its keys have a prefix that no
// other load has. End it with Finish or Stop.
func StartLoad(urls []string, tls *tls.Config) (*Load, error) {
	prefix := fmt.Sprintf("load/%08x/", rand.Uint32())
	w, err := StartWriter(urls, tls, prefix+"w/")
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	l := &Load{Writer: w, prefix: prefix, history: NewHistory(), tls: tls, stop: stop}
	for i, url := range urls {
		c, err := Client(url, tls)
		if err != nil {
			l.Stop()
			return nil, err
		}
		l.wg.Go(func() {
			defer c.Close()
			l.exercise(ctx, i, c)
		})
	}
	return l, nil
}

// Stop ends all clients.
func (l *Load) Stop() {
	l.stop()
	l.wg.Wait()
	l.Writer.Stop()
}

// Clear removes all keys of a load that has ended.
func (l *Load) Clear(ctx context.Context, url string) error {
	c, err := Client(url, l.tls)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Delete(ctx, l.prefix, clientv3.WithPrefix())
	return err
}

// exercise makes one call after the other until ctx ends.
func (l *Load) exercise(ctx context.Context, client int, c *clientv3.Client) {
	tick := time.NewTicker(loadEvery)
	defer tick.Stop()
	last := map[string]string{} // what this client saw last in each register
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		ask := call{Key: fmt.Sprint(l.prefix, "r/", rand.N(loadKeys)), Action: action(rand.N(3)), Value: fmt.Sprintf("%d.%d", client, n)}
		switch ask.Action {
		case read:
			ask.Value = ""
		case swap:
			ask.Expected = last[ask.Key]
		}
		called := l.history.now()
		got := carryOut(ctx, c, ask)
		l.history.add(client, ask, called, got, l.history.now())
		switch value, told := saw(ask, got); {
		case got.Unknown:
		case ask.Action == write || got.Swapped:
			last[ask.Key] = ask.Value
		case told:
			last[ask.Key] = value
		}
	}
}

// carryOut makes one call; the client never repeats one that may have taken effect.
func carryOut(ctx context.Context, c *clientv3.Client, ask call) answer {
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	switch ask.Action {
	case write:
		_, err := c.Put(ctx, ask.Key, ask.Value)
		return answer{Unknown: err != nil}
	case swap:
		holds := clientv3.Compare(clientv3.Value(ask.Key), "=", ask.Expected)
		if ask.Expected == "" {
			holds = clientv3.Compare(clientv3.CreateRevision(ask.Key), "=", 0)
		}
		resp, err := c.Txn(ctx).If(holds).Then(clientv3.OpPut(ask.Key, ask.Value)).Else(clientv3.OpGet(ask.Key)).Commit()
		if err != nil {
			return answer{Unknown: true}
		}
		if resp.Succeeded {
			return answer{Swapped: true}
		}
		return answer{Value: only((*clientv3.GetResponse)(resp.Responses[0].GetResponseRange()))}
	}
	resp, err := c.Get(ctx, ask.Key)
	if err != nil {
		return answer{Unknown: true}
	}
	return answer{Value: only(resp)}
}

// only is the value of the one key in an answer; "" if it is not there.
func only(resp *clientv3.GetResponse) string {
	if len(resp.Kvs) == 0 {
		return ""
	}
	return string(resp.Kvs[0].Value)
}

// Verdict is what a load found out.
type Verdict struct {
	// Acked is how many writes of the Writer were acknowledged, Calls how many were made to registers, Unknown how
	// many of those got no answer.
	Acked, Calls, Unknown int
	// Hash is that of every member's data at Revision.
	Hash     uint32
	Revision int64
	// Checked is how long the check of the history took.
	Checked time.Duration
}

func (v Verdict) String() string {
	return fmt.Sprintf("%d acknowledged writes read back through every member, %d calls linearizable (%d without an answer, checked in %s), HashKV %d at revision %d",
		v.Acked, v.Calls, v.Unknown, v.Checked.Round(time.Millisecond), v.Hash, v.Revision)
}

// Finish ends the load and fails unless the history is linearizable, and each of the members is in the cluster of this
// id, has every acknowledged write, and has the same hash at one revision.
func (l *Load) Finish(ctx context.Context, members []string, clusterID string) (Verdict, error) {
	l.Stop()
	v := Verdict{Acked: l.Acked()}
	v.Calls, v.Unknown = l.history.Len()
	began := time.Now()
	err := l.history.Check(historyLimit)
	v.Checked = time.Since(began)
	err = errors.Join(err, l.Check(ctx, members, l.tls))
	if err == nil {
		v.Revision, v.Hash, err = sameData(ctx, members, l.tls, clusterID)
	}
	return v, err
}

// sameData compares the members' hashes at a revision that all of them have, while nobody writes.
func sameData(ctx context.Context, members []string, tls *tls.Config, clusterID string) (revision int64, hash uint32, err error) {
	var errs []error
	for i, url := range members {
		c, err := Client(url, tls)
		if err != nil {
			return 0, 0, err
		}
		defer c.Close()
		at, err := c.Get(ctx, "load/") // linearizable: the member has applied all that was acknowledged
		if err != nil {
			return 0, 0, fmt.Errorf("read through %s: %w", url, err)
		}
		if id := strconv.FormatUint(at.Header.ClusterId, 16); id != clusterID {
			errs = append(errs, fmt.Errorf("%s is in cluster %s, not %s", url, id, clusterID))
		}
		if i == 0 {
			revision = at.Header.Revision
		}
		got, err := c.HashKV(ctx, url, revision)
		if err != nil {
			return 0, 0, fmt.Errorf("hash of %s: %w", url, err)
		}
		if i == 0 {
			hash = got.Hash
		}
		if got.Hash != hash {
			errs = append(errs, fmt.Errorf("%s has hash %d at revision %d (compacted at %d), %s has %d", url, got.Hash, revision, got.CompactRevision, members[0], hash))
		}
	}
	return revision, hash, errors.Join(errs...)
}
