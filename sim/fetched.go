package sim

import (
	"context"
	"time"

	"cke"
)

// snapshots is the place of a daemon's host for what it fetches: another host does not have it.
type snapshots struct{ d *Daemon }

func (s snapshots) fetched() map[string]fetched {
	all := &s.d.world.fetched[(s.d.number-1)%Hosts]
	if *all == nil {
		*all = map[string]fetched{}
	}
	return *all
}

// fetched is a snapshot, and when the survivor had last been started by then.
type fetched struct {
	values []string
	ran    time.Time
}

var _ cke.Snapshots = snapshots{}

// Snapshots is what the daemon restores from.
func (d *Daemon) Snapshots() cke.Snapshots { return snapshots{d} }

func (s snapshots) call(ctx context.Context, name string, writes bool, do func(w *World) error) error {
	return s.d.call(ctx, Call{Port: "backup", Name: name, Writes: writes}, nil, cke.Node{}, func(bool) error { return do(s.d.world) })
}

// Fetch implements cke.Snapshots.
func (s snapshots) Fetch(ctx context.Context, id string, o cke.RestoreOrder, survivor *cke.Join, _ func(string)) (snapshot cke.Snapshot, err error) {
	err = s.call(ctx, "Fetch", true, func(w *World) error {
		f, there := s.fetched()[id]
		ran, gone, err := w.lastStart(survivor)
		if err != nil {
			return err
		}
		reads := !there || !gone && !f.ran.Equal(ran)
		if o.Survivor == "" && (reads || !s.d.compared[id] && !w.recordsCompared(id)) {
			if err := w.refusedBeside(id, o); err != nil {
				return err
			}
			s.d.compared[id] = true
		}
		if reads {
			if f.values, err = w.source(o, survivor); err != nil {
				return err
			}
			f.ran = ran
			s.fetched()[id] = f
		}
		snapshot = w.snapshotOf(f.values)
		return nil
	})
	return snapshot, err
}

// lastStart is when a survivor was last started. gone: there is none, or its container is gone.
func (w *World) lastStart(survivor *cke.Join) (ran time.Time, gone bool, err error) {
	if survivor == nil {
		return ran, true, nil
	}
	n := w.at(survivor.Node.Address)
	if trouble := n.trouble(survivor.Node); trouble != nil {
		return ran, false, trouble
	}
	c := n.containers[survivor.Volume]
	if c == nil {
		return ran, true, nil
	}
	return c.StartedAt, false, nil
}
