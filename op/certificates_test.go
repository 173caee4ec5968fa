package op_test

import (
	"strings"
	"testing"
	"time"

	"cke"
	"cke/op"
)

// looked is what is seen of a join's container.
func (w *world) looked(i int) cke.Container {
	w.t.Helper()
	j := w.joins()[i]
	c, err := w.daemon.Machines().Machine(j.Node).Container(w.daemon.Context(), j)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *world) renew(i int) (cke.Record, error) {
	return w.run(op.RenewCertificates{Join: w.joins()[i]})
}

func TestRenewCertificates_KeepsTheKeysOfAMemberThatRuns(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		j := w.joins()[0]
		m := w.daemon.Machines().Machine(j.Node)
		before, _, _ := m.Certificates(w.daemon.Context(), j)
		started := w.looked(0).StartedAt
		time.Sleep(300 * 24 * time.Hour)
		if _, err := w.renew(0); err != nil {
			t.Fatal(err)
		}
		after, _, _ := m.Certificates(w.daemon.Context(), j)
		for i := range after {
			stays := strings.HasSuffix(after[i].Path, ".key") || strings.HasSuffix(after[i].Path, "ca.crt")
			if same := string(after[i].Data) == string(before[i].Data); same != stays {
				t.Errorf("%s: the same as before: %v", after[i].Path, same)
			}
		}
		if c := w.looked(0); !c.Certificates.Hold(time.Now()) || c.Certificates.EndSoon(time.Now()) || !c.StartedAt.Equal(started) {
			t.Errorf("%+v, started at %s, before %s", c.Certificates, c.StartedAt, started)
		}
	})
}

// A look at a busy node may end before the files are read; a renewal waits for them.
func TestRenewCertificates_ReadsTheFilesItself(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		time.Sleep(400 * 24 * time.Hour)
		w.Nodes()[0].SlowVolumes(true)
		if c := w.looked(0); c.Certificates != nil {
			t.Fatalf("looked at: %+v", c.Certificates)
		}
		if _, err := w.renew(0); err != nil {
			t.Fatal(err)
		}
		w.Nodes()[0].SlowVolumes(false)
		if c := w.looked(0); !c.Certificates.Hold(time.Now()) {
			t.Errorf("afterwards: %+v", c.Certificates)
		}
	})
}

func TestRenewCertificates_BringsMembersBackThatTrustNobody(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		time.Sleep(400 * 24 * time.Hour)
		for i, j := range w.joins() {
			if e := w.daemon.Etcd().Endpoint(w.daemon.Context(), j.ClientURL()); e.Problem == "" {
				t.Errorf("member %d answers with certificates that have ended", i)
			}
			if _, err := w.renew(i); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		for i, j := range w.joins() {
			if e := w.daemon.Etcd().Endpoint(w.daemon.Context(), j.ClientURL()); !e.Linearizable {
				t.Errorf("member %d: %+v", i, e)
			}
		}
	})
}

// Whole pairs of certificate and key never come near a container that could start its member without its data.
func TestRenewCertificates_GivesKeysOnlyToWhatCannotFound(t *testing.T) {
	for _, row := range []struct {
		name  string
		state func(w *world)
		code  cke.Code // "": it is done
	}{
		{"a founder that runs", func(*world) {}, ""},
		{"one that runs on files that were removed", func(w *world) { w.Nodes()[0].Unlink() }, cke.CodeDataMissing},
		{"a founder that its engine starts again and again", func(w *world) { w.Nodes()[0].KillEtcd() }, ""},
		{"a founder that has stopped", func(w *world) { w.Nodes()[0].StopByHand() }, ""},
		{"a member that was started by cke since", func(w *world) {
			w.Nodes()[0].StopByHand()
			w.mustRun(op.StartMembers{Joins: w.joins()[:1], AwaitServing: true})
		}, ""},
		{"one whose volume was emptied", func(w *world) { w.Nodes()[0].EmptyVolumes() }, cke.CodeDataMissing},
	} {
		t.Run(row.name, func(t *testing.T) {
			inWorld(t, 3, func(w *world) {
				w.mustRun(w.bootstrap(false))
				if row.name == "a member that was started by cke since" {
					row.state(w)
				}
				w.Nodes()[0].DamageCertificate(1)
				if row.name != "a member that was started by cke since" {
					row.state(w)
				}
				if c := w.looked(0); c.Certificates.Damage == "" {
					t.Fatalf("not damaged: %+v", c)
				}
				_, err := w.renew(0)
				if got := cke.CodeOf(err); (err == nil) != (row.code == "") || err != nil && got != row.code {
					t.Fatalf("%v, want %q", err, row.code)
				}
				if c := w.looked(0); (c.Certificates.Damage == "") != (err == nil) {
					t.Errorf("afterwards: %+v", c.Certificates)
				}
			})
		})
	}
}
