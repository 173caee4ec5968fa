package op

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cke"
)

// calledOff notes what a restore does that is called off, since there are no backups.
type calledOff struct {
	cke.Ledger
	inc  cke.Incarnation
	did  []string
	fail error // of stops

	mu     sync.Mutex
	marked map[string][]string
}

func (c *calledOff) Identity(context.Context) (cke.Identity, error) {
	return cke.Identity{Incarnation: &c.inc}, nil
}

func (c *calledOff) CancelRestore(context.Context, cke.Incarnation) error {
	c.did = append(c.did, "cancel")
	if b := c.inc.Restore.Before; b != nil {
		back := *b
		back.Previous = append(slices.Clone(c.inc.Previous), c.inc.ID)
		c.inc = back
	}
	return nil
}

func (c *calledOff) Machine(n cke.Node) cke.Machine { return stopper{by: c, on: n.Name()} }

type stopper struct {
	cke.Machine
	by *calledOff
	on string
}

func (s stopper) MarkOver(_ context.Context, _ string, over []string) error {
	s.by.mu.Lock()
	defer s.by.mu.Unlock()
	if s.by.marked == nil {
		s.by.marked = map[string][]string{}
	}
	s.by.marked[s.on] = over
	if s.on == "n1" {
		return errors.New("no room")
	}
	return nil
}

func (s stopper) StopContainer(_ context.Context, j cke.Join, _ time.Duration) error {
	s.by.did = append(s.by.did, "stop "+string(j.ID))
	return s.by.fail
}

// served is etcd of which every member serves the life before.
type served struct{ cke.Etcd }

func (served) Endpoint(_ context.Context, url string) cke.EndpointStatus {
	return cke.EndpointStatus{URL: url, Serializable: true, Linearizable: true, ClusterID: "c1"}
}

// fullTarget takes nothing.
type fullTarget struct {
	cke.Backups
	by *calledOff
}

func (f fullTarget) Flush(context.Context) (cke.StoredBackup, error) {
	f.by.did = append(f.by.did, "flush")
	return cke.StoredBackup{}, errors.New("the target is full")
}

func (fullTarget) Status() *cke.BackupStatus { return nil }

// A copy of the store from before a restore was called off must not go on with it: what was called off is marked as over on each node that
// the restore uses, and no node keeps the others from that.
func TestRestore_MarksWhatItCallsOff(t *testing.T) {
	on := func(n string) cke.Node { return cke.Node{Hostname: n, Address: n} }
	r := Restore{Incarnation: "next", Fence: []cke.Join{{ID: "serves", Incarnation: "before", Node: on("n1")}, {ID: "too", Incarnation: "before", Node: on("n2")}},
		Founders: []cke.Join{{ID: "new", Node: on("n2")}, {ID: "newer", Node: on("n3")}}}
	c := &calledOff{inc: cke.Incarnation{ID: "next", State: cke.Restoring, Previous: []string{"gone"},
		Restore: &cke.Restoration{Before: &cke.Incarnation{ID: "before", State: cke.Formed, ClusterID: "c1"}, Fence: []cke.JoinID{"serves"}, Order: cke.RestoreOrder{Stored: true}}}}
	err := r.storeLast(t.Context(), Env{Machines: c, Ledger: c, Etcd: served{}, Backups: fullTarget{by: c}, Log: slog.New(slog.DiscardHandler)})
	want := []string{"gone", "next"}
	if cke.CodeOf(err) != cke.CodeNotStored || len(c.marked) != 3 || !slices.Equal(c.marked["n1"], want) || !slices.Equal(c.marked["n2"], want) || !slices.Equal(c.marked["n3"], want) {
		t.Errorf("%v, %v", c.marked, err)
	}
}

// What runs of an abandoned life would serve beside the life that goes on. It is stopped first: once writes are stopped, clients
// would wait for it.
func TestRestore_StopsAbandonedLivesBeforeItStoresTheLast(t *testing.T) {
	r := Restore{Incarnation: "next", Fence: []cke.Join{{ID: "serves", Incarnation: "before"}, {ID: "left", Incarnation: "gone"}}}
	for _, row := range []struct {
		fail error
		want []string
	}{{nil, []string{"stop left", "flush", "cancel"}}, {errors.New("no answer"), []string{"stop left"}}} {
		c := &calledOff{fail: row.fail, inc: cke.Incarnation{ID: "next", State: cke.Restoring, Previous: []string{"gone"},
			Restore: &cke.Restoration{Before: &cke.Incarnation{ID: "before", ClusterID: "c1"}, Fence: []cke.JoinID{"serves"}, Order: cke.RestoreOrder{Stored: true}}}}
		err := r.storeLast(t.Context(), Env{Machines: c, Ledger: c, Etcd: served{}, Backups: fullTarget{by: c}, Log: slog.New(slog.DiscardHandler)})
		if err == nil || !slices.Equal(c.did, row.want) {
			t.Errorf("%v: %v, %v", row.fail, c.did, err)
		}
	}
}

// lives is where members of an abandoned life run.
type lives struct {
	*calledOff
	ended []cke.Join
	runs  map[cke.JoinID]bool
	stays map[cke.JoinID]bool // it does not stop
}

func (l *lives) Identity(ctx context.Context) (cke.Identity, error) {
	id, err := l.calledOff.Identity(ctx)
	id.Ended = l.ended
	return id, err
}

func (l *lives) Machine(cke.Node) cke.Machine { return abode{by: l} }

type abode struct {
	cke.Machine
	by *lives
}

func (a abode) StopContainer(_ context.Context, j cke.Join, _ time.Duration) error {
	if a.by.stays[j.ID] {
		return errors.New("the engine hangs")
	}
	a.by.runs[j.ID] = false
	return nil
}

func (a abode) Container(_ context.Context, j cke.Join) (cke.Container, error) {
	switch runs, answers := a.by.runs[j.ID]; {
	case !answers:
		return cke.Container{}, errors.New("no answer")
	case runs:
		return cke.Container{State: cke.ContainerRunning}, nil
	}
	return cke.Container{State: cke.ContainerExited}, nil
}

// A member of an abandoned life that nobody can stop holds the cancellation up only where it may have a quorum of that life.
func TestCancelRestore_GoesOnWhereNoQuorumOfAnAbandonedLifeRuns(t *testing.T) {
	join := func(id cke.JoinID) cke.Join {
		return cke.Join{ID: id, Incarnation: "gone", Node: cke.Node{Hostname: string(id)}}
	}
	for name, row := range map[string]struct {
		ended     []cke.Join
		runs      map[cke.JoinID]bool
		stays     map[cke.JoinID]bool
		cancelled bool
	}{
		"all stop":                             {[]cke.Join{join("a"), join("b"), join("c")}, map[cke.JoinID]bool{"a": true, "b": true, "c": false}, nil, true},
		"one of three goes on":                 {[]cke.Join{join("a"), join("b"), join("c")}, map[cke.JoinID]bool{"a": true, "b": true, "c": false}, map[cke.JoinID]bool{"a": true}, true},
		"and one does not answer":              {[]cke.Join{join("a"), join("b"), join("c")}, map[cke.JoinID]bool{"a": true, "b": true}, map[cke.JoinID]bool{"a": true}, false},
		"both that were started go on":         {[]cke.Join{join("a"), join("b"), join("c")}, map[cke.JoinID]bool{"a": true, "b": true, "c": false}, map[cke.JoinID]bool{"a": true, "b": true}, false},
		"how many there were is not on record": {nil, map[cke.JoinID]bool{"a": true, "b": true}, map[cke.JoinID]bool{"a": true}, false},
	} {
		l := &lives{&calledOff{inc: cke.Incarnation{ID: "next", State: cke.Restoring, Previous: []string{"gone"}, Restore: &cke.Restoration{}}}, row.ended, row.runs, row.stays}
		e := Env{Machines: l, Ledger: l, Log: slog.New(slog.DiscardHandler), Note: func(string) {}}
		var err error
		for _, stage := range (CancelRestore{Incarnation: "next", Fence: []cke.Join{join("a"), join("b")}}).Stages() {
			if err = stage[0].Run(t.Context(), e); err != nil {
				break
			}
		}
		if cancelled := slices.Contains(l.did, "cancel"); cancelled != row.cancelled || (err == nil) != row.cancelled {
			t.Errorf("%s: %v, %v", name, l.did, err)
		}
	}
}

// The nodes of the restored members are marked, too: on new machines, where nothing is replaced, nothing else shows an older copy of the
// store what came after it.
func TestRestore_MarksTheNodesOfItsMembers(t *testing.T) {
	for _, started := range []bool{false, true} {
		c := &calledOff{inc: cke.Incarnation{ID: "next", State: cke.Restoring, Replaced: []string{"before"}, Restore: &cke.Restoration{}}}
		e := Env{Machines: c, Ledger: c, Log: slog.New(slog.DiscardHandler), Note: func(string) {}}
		r := Restore{Incarnation: "next", Started: started, Founders: []cke.Join{{ID: "a", Node: cke.Node{Hostname: "n2"}}}}
		for _, s := range slices.Concat(r.Stages()...) {
			if s.Name != "mark-over" {
				continue
			}
			if err := s.Run(t.Context(), e); err != nil {
				t.Error(err)
			}
		}
		if !slices.Equal(c.marked["n2"], []string{"before"}) {
			t.Errorf("started %t: %v", started, c.marked)
		}
	}
}

// halted is a cluster of three members of etcd 3.5 whose writes are stopped, and what was done.
type halted struct {
	*lives
	revision int64
	stored   int64 // 0: the target is full
	silent   cke.JoinID
	quorum   bool
}

func (h *halted) UpdateIncarnation(_ context.Context, inc cke.Incarnation) error {
	h.inc = inc
	return nil
}

// haltedEtcd is its etcd; a member is silent by its address.
type haltedEtcd struct {
	cke.Etcd
	by *halted
}

func (e haltedEtcd) Endpoint(_ context.Context, url string) cke.EndpointStatus {
	if strings.Contains(url, string(e.by.silent)) {
		return cke.EndpointStatus{URL: url, Problem: "no answer"}
	}
	return cke.EndpointStatus{URL: url, Serializable: true, Linearizable: e.by.quorum, ClusterID: "c1", Version: "3.5.35", Revision: e.by.revision}
}

func (e haltedEtcd) Arm(context.Context, string, cke.Alarm) error {
	e.by.did = append(e.by.did, "arm")
	return nil
}

type haltedBackups struct {
	cke.Backups
	by *halted
}

func (b haltedBackups) Flush(context.Context) (cke.StoredBackup, error) {
	if b.by.stored == 0 {
		return cke.StoredBackup{}, errors.New("the target is full")
	}
	return cke.StoredBackup{Revision: b.by.stored}, nil
}

func (haltedBackups) Status() *cke.BackupStatus { return &cke.BackupStatus{Connected: true} }

// A restore is continued, of which some members may be stopped already.
func TestRestore_StoresTheLastAgainWhereItIsContinued(t *testing.T) {
	for name, row := range map[string]struct {
		halted
		last      int64 // on record
		runs      map[cke.JoinID]bool
		now       int64
		cancelled bool
	}{
		"it stopped a member":                    {halted{revision: 105, stored: 105, silent: "m3", quorum: true}, 0, map[cke.JoinID]bool{"m3": false}, 105, false},
		"the silent one runs":                    {halted{revision: 105, stored: 105, silent: "m3", quorum: true}, 0, map[cke.JoinID]bool{"m3": true}, 0, true},
		"its node does not answer":               {halted{revision: 105, stored: 105, silent: "m3", quorum: true}, 0, nil, 0, true},
		"all are silent to clients":              {halted{revision: 105, silent: "m3"}, 100, nil, 100, false},
		"nothing was written since":              {halted{revision: 100, silent: "none", quorum: true}, 100, nil, 100, false},
		"something was written since":            {halted{revision: 105, silent: "none", quorum: true}, 100, nil, 100, true},
		"that is stored":                         {halted{revision: 105, stored: 105, silent: "none", quorum: true}, 100, nil, 105, false},
		"something may be written, one runs":     {halted{revision: 100, stored: 100, silent: "m3", quorum: true}, 100, map[cke.JoinID]bool{"m3": true}, 100, true},
		"nothing was written, one is stopped":    {halted{revision: 100, silent: "m3", quorum: true}, 100, map[cke.JoinID]bool{"m3": false}, 100, false},
		"something was written, one was stopped": {halted{revision: 105, silent: "m3", quorum: true}, 100, map[cke.JoinID]bool{"m3": false}, 100, true},
	} {
		h := row.halted
		h.lives = &lives{&calledOff{inc: cke.Incarnation{ID: "next", State: cke.Restoring, Restore: &cke.Restoration{
			Last: row.last, Before: &cke.Incarnation{ID: "before", ClusterID: "c1"}, Order: cke.RestoreOrder{Stored: true},
		}}}, nil, row.runs, nil}
		r := Restore{Incarnation: "next"}
		for _, n := range []string{"m1", "m2", "m3"} {
			j := cke.Join{ID: cke.JoinID(n), Incarnation: "before", Node: cke.Node{Hostname: n, Address: n}, StartedAt: time.Now(), Etcd: cke.EtcdOptions{Image: "etcd:v3.5.35"}}
			r.Fence, h.inc.Restore.Fence = append(r.Fence, j), append(h.inc.Restore.Fence, j.ID)
		}
		err := r.storeLast(t.Context(), Env{Machines: h.lives, Ledger: &h, Etcd: haltedEtcd{by: &h}, Backups: haltedBackups{by: &h}, Log: slog.New(slog.DiscardHandler), Note: func(string) {}})
		if cancelled := slices.Contains(h.did, "cancel"); cancelled != row.cancelled || (err == nil) == row.cancelled || !cancelled && h.inc.Restore.Last != row.now {
			t.Errorf("%s: %v, %+v, %v", name, h.did, h.inc.Restore, err)
		}
	}
}
