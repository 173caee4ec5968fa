package etcdnode_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/etcdnode"
	"cke/mtest/lab"
)

func problem(o cke.Observation, i int) cke.Code {
	if p := o.Nodes[i].Problem; p != nil {
		return p.Code
	}
	return ""
}

func TestObserver_TellsTroubleOfOneNodeAndIsHeldUpByNone(t *testing.T) {
	r := newRig(t, 3, nil)
	inc := r.bootstrap(t)
	names := []string{r.cluster.Nodes[0].Hostname, r.cluster.Nodes[1].Hostname, r.cluster.Nodes[2].Hostname}
	well := func(o cke.Observation) bool {
		return problem(o, 0) == "" && problem(o, 1) == "" && problem(o, 2) == "" && o.Etcd.Quorate &&
			len(o.Etcd.Members) == 3 && !strings.Contains(o.Etcd.Endpoints[2].Problem, " ")
	}
	r.awaitObserved(t, 10*time.Second, "all is well", well)

	trouble := func(what string, code cke.Code, begin, end func(context.Context, string) error, etcdAnswers bool) {
		t.Run(what, func(t *testing.T) {
			began := time.Now()
			must(t, begin(t.Context(), names[2]))
			o := r.awaitObserved(t, 10*time.Second, "the trouble is seen", func(o cke.Observation) bool { return problem(o, 2) == code })
			t.Logf("%s noticed after %s: %s", what, time.Since(began).Round(time.Millisecond), o.Nodes[2].Problem.Message)
			if problem(o, 0) != "" || problem(o, 1) != "" || !o.Etcd.Quorate {
				t.Errorf("the others: %+v", o)
			}
			if len(o.Nodes[2].Containers) != 1 || o.Nodes[2].SeenAt.IsZero() || o.Nodes[2].Problem.Remedy == "" {
				t.Errorf("what was last seen is not kept: %+v", o.Nodes[2])
			}
			since := o.Nodes[2].Problem.Since
			// Once it is known, it costs nothing.
			r.await(t, 5*time.Second, "observations are quick", func() (bool, any) {
				began := time.Now()
				o = r.Observe(t.Context())
				return time.Since(began) < 200*time.Millisecond, time.Since(began)
			})
			if problem(o, 2) != code || !o.Nodes[2].Problem.Since.Equal(since) {
				t.Errorf("problem is not stable: %+v", o.Nodes[2].Problem)
			}
			if e := o.Etcd.Endpoints[2]; (e.Problem == "") != etcdAnswers {
				t.Errorf("endpoint of the troubled node: %+v", e)
			}
			if _, err := r.Machine(inc.Founders[2].Node).Container(t.Context(), inc.Founders[2]); cke.CodeOf(err) != code {
				t.Errorf("a call on it: %v", err)
			}
			began = time.Now()
			must(t, end(t.Context(), names[2]))
			r.awaitObserved(t, 20*time.Second, "all is well again", well)
			t.Logf("%s: well again after %s", what, time.Since(began).Round(time.Millisecond))
		})
	}
	trouble("hung engine", cke.CodeEngine, r.lab.HangDocker, r.lab.ResumeDocker, true)
	trouble("frozen node", cke.CodeUnreachable, r.lab.Pause, r.lab.Unpause, false)
	trouble("cut cable", cke.CodeUnreachable, func(ctx context.Context, n string) error { return r.lab.Cut(ctx, n, lab.Cut{}) }, r.lab.Heal, false)
	trouble("power off", cke.CodeUnreachable, r.lab.Kill, func(ctx context.Context, n string) error {
		if err := r.lab.Start(ctx, n); err != nil {
			return err
		}
		return r.Machine(inc.Founders[2].Node).StartContainer(ctx, inc.Founders[2])
	}, false)

	t.Run("killed process", func(t *testing.T) {
		j := inc.Founders[1]
		r.Observe(t.Context())
		began := time.Now()
		if _, err := r.lab.Exec(t.Context(), names[1], "pkill", "-KILL", "-x", "etcd"); err != nil {
			t.Fatal(err)
		}
		o := r.awaitObserved(t, 5*time.Second, "the container is seen to have ended", func(o cke.Observation) bool {
			c, _ := o.Nodes[1].Of(j.ID)
			return c.State == cke.ContainerExited
		})
		c, _ := o.Nodes[1].Of(j.ID)
		t.Logf("noticed after %s: %+v", time.Since(began).Round(time.Millisecond), c)
		if c.ExitCode != 137 || c.Data != cke.DataPresent || c.LastWords == "" {
			t.Errorf("container: %+v", c)
		}
		began = time.Now()
		if state, err := r.Machine(j.Node).Data(t.Context(), j); err != nil || state != cke.DataPresent {
			t.Errorf("data: %q, %v", state, err)
		}
		t.Logf("Data took %s", time.Since(began).Round(time.Millisecond))
	})

	t.Run("wiped node", func(t *testing.T) {
		must(t, r.lab.Wipe(t.Context(), names[2], lab.WipeOptions{}))
		o := r.awaitObserved(t, 20*time.Second, "the new host key is seen", func(o cke.Observation) bool { return problem(o, 2) == cke.CodeHostKey })
		t.Log(o.Nodes[2].Problem.Message)
		address := r.cluster.Nodes[2].Address
		offered := r.keys.offer(address)
		if offered == "" || strings.Count(o.Nodes[2].Problem.Message, "SHA256:") != 2 {
			t.Fatalf("offered %q, problem %+v", offered, o.Nodes[2].Problem)
		}
		must(t, r.keys.Pin(t.Context(), address, offered)) // a person accepts it
		o = r.awaitObserved(t, 10*time.Second, "the node answers", func(o cke.Observation) bool { return problem(o, 2) == "" })
		if len(o.Nodes[2].Containers) != 0 || len(o.Nodes[2].Volumes) != 0 {
			t.Errorf("the blank node: %+v", o.Nodes[2])
		}
	})
}

func TestMachine_RestrictedKeyIsEnough(t *testing.T) {
	var l *lab.Lab
	r := newRig(t, 1, func(c *etcdnode.Config) {
		c.Keys = func(context.Context, cke.Node) ([]byte, error) { return os.ReadFile(l.Nodes()[0].RestrictedKeyFile) }
	})
	l = r.lab
	inc := r.bootstrap(t)
	must(t, r.Machine(inc.Founders[0].Node).StopContainer(t.Context(), inc.Founders[0], 10*time.Second))
}

func TestMachine_VolumeInADirectory(t *testing.T) {
	r := newRig(t, 1, nil)
	r.cluster.Options.Etcd.VolumeRoot = "/disk/etcd-volumes"
	inc := r.bootstrap(t)
	j, ctx := inc.Founders[0], t.Context()
	m, node := r.Machine(j.Node), r.cluster.Nodes[0].Hostname
	dir := "/disk/etcd-volumes/" + j.Volume
	if _, err := r.lab.Exec(ctx, node, "test", "-d", dir+"/data/member/wal"); err != nil {
		t.Fatalf("the data is not in %s: %v", dir, err)
	}
	must(t, m.EnsureVolume(ctx, r.spec(inc, j, cke.StartPrepared)))
	must(t, m.StopContainer(ctx, j, 10*time.Second))
	if state, err := m.Data(ctx, j); state != cke.DataPresent || err != nil {
		t.Errorf("data: %q, %v", state, err)
	}
	must(t, m.RemoveContainer(ctx, j))
	for what, mount := range map[string]string{"the volume": j.Volume, "the directory": dir} { // by a person who rescues what is in it
		if out, err := r.lab.Exec(ctx, node, "docker", "create", "--name", "rescue", "-v", mount+":/rescue", testImage); err != nil {
			t.Fatal(out, err)
		}
		if err := m.RemoveVolume(ctx, j); !errors.Is(err, cke.ErrConflict) {
			t.Errorf("a container mounts %s: %v", what, err)
		}
		if _, err := r.lab.Exec(ctx, node, "test", "-d", dir+"/data/member/wal"); err != nil {
			t.Fatalf("a container mounts %s, and the data is gone: %v", what, err)
		}
		if out, err := r.lab.Exec(ctx, node, "docker", "rm", "rescue"); err != nil {
			t.Fatal(out, err)
		}
	}
	must(t, m.RemoveVolume(ctx, j))
	left, err := r.lab.Exec(ctx, node, "find", dir)
	if err != nil || strings.Contains(left, "wal") || strings.Contains(left, ".key") {
		t.Errorf("left in %s: %q, %v", dir, left, err)
	}
	if o := r.Observe(ctx); len(o.Nodes[0].Containers)+len(o.Nodes[0].Volumes) != 0 {
		t.Errorf("left on the node: %+v", o.Nodes[0])
	}
}

func TestMachine_FullDiskIsTold(t *testing.T) {
	r := newRig(t, 1, nil)
	j := r.found().Founders[0]
	node := r.cluster.Nodes[0].Hostname
	must(t, r.lab.FillDisk(t.Context(), node))
	err := r.Machine(j.Node).EnsureImage(t.Context(), testImage, nil)
	if err == nil {
		err = r.Machine(j.Node).EnsureVolume(t.Context(), r.spec(*r.ident.Incarnation, j, cke.StartPrepared))
	}
	if cke.CodeOf(err) != cke.CodeDiskFull {
		t.Errorf("on a full disk: %v", err)
	}
	must(t, r.lab.FreeDisk(t.Context(), node))
}

func TestObserver_TellsAnEngineThatIsOutOfReach(t *testing.T) {
	r := newRig(t, 1, nil)
	node := r.cluster.Nodes[0].Hostname
	for name, do := range map[string][2]string{
		"missing socket":        {"mv /run/docker.sock /run/docker.away", "mv /run/docker.away /run/docker.sock"},
		"forbidden for the key": {"sed -i s/,port-forwarding/,no-port-forwarding/ /home/cke/.ssh/authorized_keys", "sed -i s/,no-port-forwarding/,port-forwarding/ /home/cke/.ssh/authorized_keys"},
		"unreadable socket":     {"chmod 0600 /run/docker.sock", "chmod 0660 /run/docker.sock"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := r.lab.Exec(t.Context(), node, "sh", "-c", do[0]); err != nil {
				t.Fatal(err)
			}
			fleet := etcdnode.New(etcdnode.Config{HostKeys: r.keys, Keys: func(context.Context, cke.Node) ([]byte, error) {
				return os.ReadFile(r.lab.Nodes()[0].RestrictedKeyFile)
			}})
			defer fleet.Close()
			fleet.Update(r.cluster, cke.Identity{})
			o := fleet.Observe(t.Context())
			t.Logf("%+v", o.Nodes[0].Problem)
			if problem(o, 0) != cke.CodeForward {
				t.Errorf("problem: %+v", o.Nodes[0].Problem)
			}
			if _, err := r.lab.Exec(t.Context(), node, "sh", "-c", do[1]); err != nil {
				t.Fatal(err)
			}
		})
	}
}
