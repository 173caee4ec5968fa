package op_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/op"
)

func (w *world) authorities() cke.Authorities { return w.Store().Identity().Authorities }

func (w *world) advance(from cke.AuthorityPhase) error {
	_, err := w.run(op.AdvanceAuthority{Authority: cke.PeerAuthority, From: from, Joins: w.joins()})
	return err
}

// restart restarts members with the authorities that they are to trust.
func (w *world) restart(members ...int) {
	w.t.Helper()
	for _, i := range members {
		w.mustRun(op.RestartMember{Join: w.joins()[i], Etcd: w.joins()[i].Etcd, Bundle: w.authorities().Bundle()})
	}
}

// Each phase ends only once every member has what the next one needs, whatever it was decided from.
func TestAdvanceAuthority_LooksAtEveryMemberItself(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		for range 2 { // what was recorded already is done
			w.mustRun(op.RotateAuthority{Authority: cke.PeerAuthority, Task: "t1", By: "eve@host"})
		}
		if r := w.authorities().Peer; r.Phase != cke.AuthorityIntroduced || r.Next.Generation != 1 || r.Task != "t1" || !w.authorities().Recorded() {
			t.Fatalf("%+v", r)
		}
		if _, err := w.run(op.RotateAuthority{Authority: cke.PeerAuthority, Task: "t2"}); !errors.Is(err, cke.ErrConflict) {
			t.Errorf("a second one: %v", err)
		}
		refuses := func(from cke.AuthorityPhase, what string) {
			t.Helper()
			if err := w.advance(from); err == nil || !strings.Contains(err.Error(), what) || w.authorities().Peer.Phase != from {
				t.Errorf("%s: %v", w.authorities().Peer.Phase, err)
			}
		}
		passes := func(from, to cke.AuthorityPhase) {
			t.Helper()
			for range 2 {
				if err := w.advance(from); err != nil || w.authorities().Peer.Phase != to {
					t.Fatalf("%s: %v", w.authorities().Peer.Phase, err)
				}
			}
		}
		refuses(cke.AuthorityIntroduced, "does not have the authorities that it must trust")
		w.restart(0, 1)
		refuses(cke.AuthorityIntroduced, "n3 does not have the authorities that it must trust")
		w.mustRun(op.RenewCertificates{Join: w.joins()[2]}) // it has the files, and was not started with them
		refuses(cke.AuthorityIntroduced, "n3 was not started with the authorities")
		w.restart(2)
		w.Node("n2").PowerOff()
		refuses(cke.AuthorityIntroduced, "n2")
		w.Node("n2").PowerOn()
		time.Sleep(time.Second)
		passes(cke.AuthorityIntroduced, cke.AuthorityIssues)
		refuses(cke.AuthorityIssues, "has no certificate of the peer authority that now issues them")
		for i := range w.joins() {
			before := w.looked(i).StartedAt
			if _, err := w.renew(i); err != nil {
				t.Fatal(err)
			}
			if c := w.looked(i); !c.StartedAt.Equal(before) || c.Certificates.PeerSigner != w.authorities().Peer.Next.Fingerprint {
				t.Errorf("%+v", c)
			}
		}
		passes(cke.AuthorityIssues, cke.AuthorityWithdrawn)
		refuses(cke.AuthorityWithdrawn, "does not have the authorities")
		w.restart(0, 1, 2)
		old := cke.AuthoritySecret(cke.PeerAuthority, 0)
		if !slices.Contains(w.CAs(), old) {
			t.Error("its key is gone before it is over")
		}
		passes(cke.AuthorityWithdrawn, cke.AuthoritySteady)
		if slices.Contains(w.CAs(), old) || w.authorities().Peer.Current.Generation != 1 {
			t.Errorf("%v %+v", w.CAs(), w.authorities().Peer)
		}
		if v := w.Violations(); v != nil {
			t.Error(v)
		}
	})
}

// A member that was restarted for another phase than that on record is not restarted.
func TestRestartMember_WritesOnlyTheAuthoritiesThatAreWanted(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		w.mustRun(op.RotateAuthority{Authority: cke.ServerAuthority, Task: "t1"})
		before := w.looked(1).StartedAt
		if _, err := w.run(op.RestartMember{Join: w.joins()[1], Etcd: w.joins()[1].Etcd, Bundle: "another"}); !errors.Is(err, cke.ErrConflict) {
			t.Errorf("%v", err)
		}
		w.Node("n2").FillDisk()
		if _, err := w.run(op.RestartMember{Join: w.joins()[1], Etcd: w.joins()[1].Etcd, Bundle: w.authorities().Bundle()}); cke.CodeOf(err) != cke.CodeDiskFull {
			t.Errorf("%v", err)
		}
		if c := w.looked(1); !c.StartedAt.Equal(before) || !c.Running() {
			t.Errorf("it was stopped: %+v", c)
		}
		w.Node("n2").FreeDisk()
		w.restart(1)
		if j := w.joins()[1]; j.Bundle != w.authorities().Bundle() || w.looked(1).Certificates.Bundle() != j.Bundle {
			t.Errorf("%+v", j)
		}
	})
}
