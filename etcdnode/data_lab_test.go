package etcdnode_test

import (
	"testing"
	"time"

	"cke"
)

func TestMachine_DataIsFoundAmongWhatACrashLeaves(t *testing.T) {
	r := newRig(t, 1, nil)
	inc := r.bootstrap(t)
	j, ctx := inc.Founders[0], t.Context()
	m, node := r.Machine(j.Node), r.cluster.Nodes[0].Hostname
	must(t, m.StopContainer(ctx, j, 10*time.Second))
	sh := func(script string) {
		t.Helper()
		wal := "cd $(docker volume inspect -f '{{.Mountpoint}}' " + j.Volume + ")/data/member/wal && "
		if _, err := r.lab.Exec(ctx, node, "sh", "-c", wal+script); err != nil {
			t.Fatal(err)
		}
	}
	data := func(what string, want cke.DataState) {
		t.Helper()
		began := time.Now()
		got, err := m.Data(ctx, j)
		t.Logf("%s: %q after %s", what, got, time.Since(began).Round(100*time.Microsecond))
		if got != want || err != nil {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
	first := "0000000000000000-0000000000000000.wal"
	data("stopped", cke.DataPresent)
	// After many writes the first segment is gone; a killed etcd leaves the next one, prepared with 64 MB.
	sh("mv " + first + " 0000000000000009-0000000000123456.wal && fallocate -l 64M 0.tmp")
	data("first segment gone, next prepared", cke.DataPresent)
	data("the same again", cke.DataPresent)
	sh("mv 0000000000000009-0000000000123456.wal /root/kept")
	data("no segment", cke.DataMissing)
	sh("rm 0.tmp")
	data("empty log", cke.DataMissing)
	sh("touch 0000000000000009-0000000000123456.wal")
	data("empty segment", cke.DataMissing)
	sh("mv /root/kept " + first)
	data("back again", cke.DataPresent)
	sh("cd .. && mv wal away")
	data("no directory", cke.DataMissing)
	c, err := m.Container(ctx, j)
	if err != nil || c.Data != cke.DataMissing {
		t.Errorf("%+v, %v", c, err)
	}
	// etcd itself refuses as well, described as one that has its data.
	must(t, m.EnsureContainer(ctx, r.spec(inc, j, cke.StartOwnData)))
	must(t, m.StartContainer(ctx, j))
	r.await(t, 10*time.Second, "etcd gives up", func() (bool, any) {
		c, err = m.Container(ctx, j)
		return err == nil && c.LastWords != "", c
	})
	t.Logf("%s %d: %s", c.State, c.ExitCode, c.LastWords)
	must(t, m.StopContainer(ctx, j, time.Second))
}

func TestObserver_OutlivesARestartOfTheEngine(t *testing.T) {
	r := newRig(t, 1, nil)
	inc := r.bootstrap(t)
	j, node := inc.Founders[0], r.cluster.Nodes[0].Hostname
	must(t, r.Machine(j.Node).KeepRunning(t.Context(), j))
	before, _ := r.Observe(t.Context()).Nodes[0].Of(j.ID)
	for name, restart := range map[string]func() error{
		"in good order": func() error { return r.lab.RestartDocker(t.Context(), node) },
		"by a crash":    func() error { return r.lab.CrashDocker(t.Context(), node) },
	} {
		must(t, restart())
		began := time.Now()
		o := r.awaitObserved(t, 20*time.Second, "the member serves again after a restart of the engine "+name, func(o cke.Observation) bool {
			c, ok := o.Nodes[0].Of(j.ID)
			return problem(o, 0) == "" && ok && c.Running() && c.StartedAt.After(before.StartedAt) && o.Etcd.Quorate
		})
		t.Logf("%s: %s", name, time.Since(began).Round(time.Millisecond))
		before, _ = o.Nodes[0].Of(j.ID)
		// The event stream is there again.
		if _, err := r.lab.Exec(t.Context(), node, "docker", "pause", j.Volume); err != nil {
			t.Fatal(err)
		}
		r.awaitObserved(t, 5*time.Second, "the pause is seen", func(o cke.Observation) bool {
			c, _ := o.Nodes[0].Of(j.ID)
			return c.State == cke.ContainerPaused && o.Etcd.Endpoints[0].Problem == "no answer in 1s"
		})
		if _, err := r.lab.Exec(t.Context(), node, "docker", "unpause", j.Volume); err != nil {
			t.Fatal(err)
		}
		r.awaitObserved(t, 5*time.Second, "it goes on", func(o cke.Observation) bool { return o.Etcd.Quorate })
	}
}

// Etcd says that its member was removed, when that happens and when it is started again.
func TestObserver_RecognizesARemovedMember(t *testing.T) {
	r := newRig(t, 3, nil)
	inc := r.bootstrap(t)
	first, last := inc.Founders[0], inc.Founders[2]
	member := r.Endpoint(t.Context(), last.ClientURL()).MemberID
	r.await(t, 20*time.Second, "etcd removes it, as it does once all have been connected for 5 s", func() (bool, any) {
		err := r.RemoveMember(t.Context(), first.ClientURL(), member)
		return err == nil, err
	})
	for _, when := range []string{"removed", "started again"} {
		r.awaitObserved(t, 20*time.Second, "etcd's words, "+when, func(o cke.Observation) bool {
			for _, n := range o.Nodes {
				if c, there := n.Of(last.ID); there {
					return c.SaysRemoved()
				}
			}
			return false
		})
		must(t, r.Machine(last.Node).StartContainer(t.Context(), last))
	}
}
