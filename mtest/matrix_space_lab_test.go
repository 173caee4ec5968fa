package mtest_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
	"cke/mtest/rig"
)

// Sizes of a database that is soon full, in bytes.
const (
	smallQuota = 16 << 20
	largeQuota = 256 << 20
	filling    = 256 << 10 // one value
)

// spaceLimit bounds the wait for room that no member reports: a member is defragmented for a trial every ten minutes.
const spaceLimit = 15 * time.Minute

// writeLimit bounds one request, which is made again.
const writeLimit = 20 * time.Second

// spaces are about databases that reach their quota.
var spaces = []chapter{
	{name: "the database is full", nodes: 3, members: 3, tell: func(m *loaded) {
		m.archive(nextVersion)
		m.measured("a small quota", func() {
			m.argument(fmt.Sprint(smallQuota))
			m.apply()
		})
		c, err := rig.Client(rig.URL(m.nodes[0]), m.clientTLS())
		m.must(err)
		defer c.Close()

		newest, carried := m.newest(), m.carriedBy(m.nodes)
		st := m.fillUp(c)
		newest = m.tried(newest)
		m.refusesVersions()
		m.didNothing(newest)
		if now := m.carriedBy(m.nodes); !maps.Equal(now, carried) {
			m.Errorf("while the database is full nodes carry %v, before %v", now, carried)
		}
		m.measured("keys are deleted, and history compacted", func() {
			m.makeRoom(c)
			m.settled()
		})
		did := m.did(newest)
		m.disarmed(did)
		m.inTurn(did[:len(did)-1], "defragment", names(st), leadOf(st))

		newest = m.newest()
		st = m.fillUp(c)
		newest = m.tried(newest)
		m.measured("a larger quota", func() {
			m.argument(fmt.Sprint(largeQuota))
			m.apply()
		})
		did = m.did(newest)
		m.disarmed(did)
		m.inTurn(did[:len(did)-1], "restart-member", names(st), leadOf(st))
		for _, n := range m.nodes {
			if s := m.inspect(n); !slices.Contains(s.Config.Cmd, "--quota-backend-bytes="+fmt.Sprint(largeQuota)) {
				m.Errorf("%s runs with %q", n.Name, s.Config.Cmd)
			}
		}
	}},
	{name: "the database is full again and again", nodes: 3, members: 3, limit: 40 * time.Minute, tell: func(m *loaded) {
		m.argument(fmt.Sprint(smallQuota))
		m.apply()
		c, err := rig.Client(rig.URL(m.nodes[0]), m.clientTLS())
		m.must(err)
		defer c.Close()
		for i, advised := range []string{"wait", "ckecli etcd defrag", "wait"} {
			newest := m.newest()
			m.fillUp(c)
			m.measured(fmt.Sprintf("%d: keys are deleted, history is compacted, then: %s", i+1, advised), func() {
				m.makeRoom(c)
				if advised != "wait" {
					m.do("etcd", "defrag")
				}
				m.await("etcd to take writes again", spaceLimit, func(st cke.Status) bool {
					_, full := problemOf(st, "", cke.CodeNoSpace)
					return !full && rig.Ready(st) && st.Ready == m.declared() && len(st.Etcd.Alarms) == 0
				})
			})
			m.disarmed(m.did(newest))
			for _, e := range m.fresh().Etcd.Endpoints {
				if e.DBSize > smallQuota/2 {
					m.Errorf("the database of %s has %d bytes", e.URL, e.DBSize)
				}
			}
		}
	}},
}

// tried returns the latest record, and fails unless all that was done after a record is one defragmentation of one member, for a
// trial: nothing else shows what is free inside a full database.
func (m *loaded) tried(after int64) int64 {
	m.Helper()
	did := slices.DeleteFunc(m.did(after), forNow)
	if len(did) != 1 || did[0].Operation != "defragment" || did[0].State != cke.RecordCompleted || len(did[0].Targets) != 1 {
		m.Errorf("to find room was done: %+v", did)
	}
	return m.newest()
}

// makeRoom does what the remedy of a full database advises.
func (m *loaded) makeRoom(c *clientv3.Client) {
	m.Helper()
	var gone *clientv3.DeleteResponse
	m.insist(m.within(seenLimit), func() (err error) {
		gone, err = c.Delete(m.within(writeLimit), "fill/", clientv3.WithPrefix())
		return err
	})
	m.insist(m.within(seenLimit), func() error {
		_, err := c.Compact(m.within(writeLimit), gone.Header.Revision, clientv3.WithCompactPhysical())
		if errors.Is(err, rpctypes.ErrCompacted) { // the answer to an earlier try was lost
			return nil
		}
		return err
	})
}

// fits writes a value, and reports whether etcd has room for it. An etcd that does not answer for a moment is asked again.
func (m *loaded) fits(c *clientv3.Client, key, value string) bool {
	m.Helper()
	full := false
	m.insist(m.within(seenLimit), func() error {
		_, err := c.Put(m.within(writeLimit), key, value)
		if full = errors.Is(err, rpctypes.ErrNoSpace); full {
			return nil
		}
		return err
	})
	return !full
}

// fillUp writes until etcd takes no more, and returns the status that tells of it: all serve, and clients can read.
func (m *loaded) fillUp(c *clientv3.Client) cke.Status {
	m.Helper()
	value := strings.Repeat("x", filling)
	wrote := 0
	for wrote < 2*smallQuota/filling && m.fits(c, fmt.Sprintf("fill/%d", wrote), value) {
		wrote++
	}
	st := m.await("the full database to be told", seenLimit, func(st cke.Status) bool {
		_, told := problemOf(st, "", cke.CodeNoSpace)
		quorate, _ := st.Condition(cke.CondQuorate)
		return told && st.Operation == nil && st.Ready == m.declared() && quorate.Status == cke.True && len(st.Etcd.Alarms) > 0 && strings.HasSuffix(st.Reason, "what is in use does not fit into the quota")
	})
	m.tells(st, map[cke.ConditionType]string{cke.CondReady: "False Degraded", cke.CondAllMembersReady: "True AllServing",
		cke.CondQuorate: "True LinearizableRead", cke.CondProgressing: "False Waiting", cke.CondClusterIDMismatch: "False SameID"})
	if st.Health != cke.HealthDegraded || st.Tolerance != 1 {
		m.Errorf("status %s, tolerance %d, alarms %+v: %s", st.Health, st.Tolerance, st.Etcd.Alarms, st.Reason)
	}
	p, _ := problemOf(st, "", cke.CodeNoSpace)
	for text, word := range map[string]string{p.Message: "the quota is 16 MiB", p.Remedy: "compact", p.Remedy + " ": "raise --quota-backend-bytes"} {
		if !strings.Contains(text, word) {
			m.Errorf("problem %+v does not say %q", p, word)
		}
	}
	m.refused(3, nil, "status", "--check")
	if alarms := m.do("etcd", "alarm", "list"); !strings.Contains(alarms, "NOSPACE") {
		m.Errorf("alarms: %s", alarms)
	}
	var got *clientv3.GetResponse
	m.insist(m.within(seenLimit), func() (err error) {
		got, err = c.Get(m.within(writeLimit), "fill/0")
		return err
	})
	if len(got.Kvs) != 1 || len(got.Kvs[0].Value) != filling {
		m.Errorf("reads: %d keys", len(got.Kvs))
	}
	if m.fits(c, "fill/more", value) {
		m.Error("a write fitted")
	}
	m.Logf("full after %d values of %d KiB", wrote, filling>>10)
	return st
}

// refusesVersions asks for another version, which is not applied, and takes that back.
func (m *loaded) refusesVersions() {
	m.Helper()
	sound := m.file
	m.file.Options.Etcd.Version = nextVersion
	revision := m.set(m.file)
	st := m.await("the version to be refused", seenLimit, func(st cke.Status) bool {
		return st.Generation == revision && strings.Contains(st.Reason, "not applied: version, image: etcd is out of space")
	})
	if st.ObservedGeneration >= revision {
		m.Errorf("revision %d counts as done: %+v", revision, st)
	}
	m.file = sound
	revision = m.set(m.file)
	m.await("it to be taken back", seenLimit, func(st cke.Status) bool { return st.Generation == revision })
}

// disarmed fails unless the last thing done was to take the alarms back, and etcd has none.
func (m *loaded) disarmed(did []cke.Record) {
	m.Helper()
	if len(did) == 0 {
		m.Fatal("nothing was done")
	}
	if last := did[len(did)-1]; last.Operation != "disarm" || last.State != cke.RecordCompleted {
		m.Errorf("last was #%d %s %s: %s", last.ID, last.Operation, last.State, last.Error)
	}
	st := m.fresh()
	if _, told := problemOf(st, "", cke.CodeNoSpace); told || len(st.Etcd.Alarms) != 0 {
		m.Errorf("alarms %+v, problems %+v", st.Etcd.Alarms, st.Problems)
	}
}
