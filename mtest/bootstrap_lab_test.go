package mtest_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"cke"
	"cke/mtest/lab"
	"cke/mtest/rig"
)

// obstacle is something that keeps a cluster from being founded.
type obstacle struct {
	name string
	put  func(*story)
	take func(*story)
	// want are the problems that the status must name, and with which way out.
	want []blocker
	// silent are the nodes that cannot be asked while the obstacle is there.
	silent []int
	noKey  bool // put sets the SSH key, or none
	rare   bool // one of those in the way together, or much like another one
}

// blocker is a problem of a node, by index, and words of its remedy.
type blocker struct {
	node   int
	code   cke.Code
	remedy string
}

const someImage = lab.EtcdRepository + ":v" + rig.EtcdVersion

var obstacles = []obstacle{
	{
		name:   "a node is switched off",
		put:    func(s *story) { s.must(s.Lab.Kill(s.ctx, s.nodes[1].Name)) },
		take:   func(s *story) { s.must(s.Lab.Start(s.ctx, s.nodes[1].Name)) },
		want:   []blocker{{1, cke.CodeUnreachable, "check power, network and sshd"}},
		silent: []int{1},
	}, {
		name:   "a node is frozen",
		rare:   true,
		put:    func(s *story) { s.must(s.Lab.Pause(s.ctx, s.nodes[2].Name)) },
		take:   func(s *story) { s.must(s.Lab.Unpause(s.ctx, s.nodes[2].Name)) },
		want:   []blocker{{2, cke.CodeUnreachable, "check power, network and sshd"}},
		silent: []int{2},
	}, {
		name: "a node's cable is cut",
		rare: true,
		put:  func(s *story) { s.must(s.Lab.Cut(s.ctx, s.nodes[0].Name, lab.Cut{})) },
		take: func(s *story) { s.must(s.Lab.Heal(s.ctx, s.nodes[0].Name)) },
		want: []blocker{{0, cke.CodeUnreachable, "check power, network and sshd"}},
	}, {
		name:   "a Docker engine hangs",
		put:    func(s *story) { s.must(s.Lab.HangDocker(s.ctx, s.nodes[1].Name)) },
		take:   func(s *story) { s.must(s.Lab.ResumeDocker(s.ctx, s.nodes[1].Name)) },
		want:   []blocker{{1, cke.CodeEngine, "systemctl status docker"}},
		silent: []int{1},
	}, {
		name: "etcd's ports are taken",
		rare: true,
		put: func(s *story) {
			s.listen(s.nodes[0], cke.DefaultClientPort)
			s.listen(s.nodes[2], cke.DefaultPeerPort)
		},
		take: func(s *story) {
			s.hangUp(s.nodes[0], cke.DefaultClientPort)
			s.hangUp(s.nodes[2], cke.DefaultPeerPort)
		},
		want: []blocker{{0, cke.CodePortTaken, "ss -ltnp sport = :2379"}, {2, cke.CodePortTaken, "ss -ltnp sport = :2380"}},
	}, {
		name: "somebody's etcd runs on a node",
		put:  func(s *story) { s.on(s.nodes[1], "docker run -d --name theirs "+someImage+" etcd") },
		take: func(s *story) { s.on(s.nodes[1], "docker rm -f theirs") },
		want: []blocker{{1, cke.CodeForeignEtcd, "docker rm theirs"}},
	}, {
		name: "volumes of this cluster are left over",
		rare: true,
		put: func(s *story) {
			s.on(s.nodes[0], "docker volume create etcd-cke")
			s.on(s.nodes[2], "docker volume create --label cke.cluster=prod --label cke.incarnation=0 --label cke.join=000000000000 etcd-cke.000000000000")
		},
		take: func(s *story) {
			s.on(s.nodes[0], "docker volume rm etcd-cke")
			s.on(s.nodes[2], "docker volume rm etcd-cke.000000000000")
		},
		want: []blocker{{0, cke.CodeLeftover, "docker volume rm etcd-cke,"}, {2, cke.CodeLeftover, "docker volume rm etcd-cke.000000000000,"}},
	}, {
		name:  "no SSH key is set",
		put:   func(s *story) {},
		take:  func(s *story) { s.setKey() },
		want:  []blocker{{0, cke.CodeNoSSHKey, "ckecli ssh-key set FILE"}, {1, cke.CodeNoSSHKey, "ckecli ssh-key set FILE"}, {2, cke.CodeNoSSHKey, "ckecli ssh-key set FILE"}},
		noKey: true,
	}, {
		name:  "the SSH key is a wrong one",
		rare:  true,
		put:   func(s *story) { s.do("ssh-key", "set", s.file("wrong", newSSHKey(s, ""))) },
		take:  func(s *story) { s.setKey() },
		want:  []blocker{{0, cke.CodeSSHAuth, "ckecli ssh-key set"}, {1, cke.CodeSSHAuth, "authorized_keys of cke"}, {2, cke.CodeSSHAuth, "ckecli ssh-key set"}},
		noKey: true,
	}, {
		name: "a passphrase protects the SSH key",
		rare: true,
		put: func(s *story) {
			locked := s.file("locked", newSSHKey(s, "open sesame"))
			s.refused(6, []string{"CKE206", "passphrase"}, "ssh-key", "set", locked)
		},
		take:  func(s *story) { s.setKey() },
		want:  []blocker{{0, cke.CodeNoSSHKey, "ckecli ssh-key set FILE"}},
		noKey: true,
	},
}

func TestLabBootstrap_WaitsAndChangesNothingWhile(t *testing.T) {
	for _, o := range obstacles {
		t.Run(o.name, func(t *testing.T) {
			if o.rare {
				rare(t)
			}
			s := newStory(t, 3)
			s.daemon("cke1")
			if !o.noKey {
				s.setKey()
			}
			o.put(s)
			before := s.carriedBy(s.askable(o.silent))
			s.set(s.spec())
			for _, w := range o.want {
				s.wantBlocked(w)
			}
			s.wantUntouched(before)

			began := time.Now()
			o.take(s)
			s.ready()
			s.oneCluster()
			t.Logf("one cluster %s after the cause was gone", since(began))
		})
	}
}

// askable are the nodes whose engine answers.
func (s *story) askable(silent []int) []lab.Node {
	var nodes []lab.Node
	for i, n := range s.nodes {
		if !slices.Contains(silent, i) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// wantBlocked waits until the status names the problem, and checks that it tells the way out and what the cluster waits for.
func (s *story) wantBlocked(w blocker) {
	s.Helper()
	name := s.nodes[w.node].Name
	p := s.awaitProblem(name, w.code)
	if !strings.Contains(p.Remedy, w.remedy) || p.Message == "" {
		s.Errorf("problem %+v, want the remedy %q", p, w.remedy)
	}
	s.await("the status to say that it waits for "+name, seenLimit, func(st cke.Status) bool {
		c, _ := st.Condition(cke.CondReady)
		return st.Health == cke.HealthForming && c.Status == cke.False && strings.Contains(st.Reason, name) && strings.Contains(st.Summary, name)
	})
	if text := s.do("status"); !strings.Contains(text, name) || !strings.Contains(text, string(w.code)) {
		s.Errorf("ckecli status does not name %s and %s:\n%s", name, w.code, text)
	}
}

// wantUntouched checks that no operation has begun and that the nodes carry what they carried before.
func (s *story) wantUntouched(before map[string]string) {
	s.Helper()
	if all := s.records(); len(all) > 0 {
		s.Errorf("an operation has begun: %+v", all)
	}
	st := s.now()
	if st.Incarnation != "" {
		s.Errorf("there is an incarnation: %s", st.Incarnation)
	}
	for name, had := range before {
		n, err := s.Lab.Node(name)
		s.must(err)
		if has := s.carried(n); has != had {
			s.Errorf("%s was changed: it carried\n%s\nand carries\n%s", name, had, has)
		}
	}
}

func TestLabBootstrap_NamesEveryObstacleAtOnce(t *testing.T) {
	s := newStory(t, 3)
	s.daemon("cke1")
	s.setKey()
	taken, theirs, frozen := s.nodes[0], s.nodes[1], s.nodes[2]
	s.listen(taken, cke.DefaultClientPort)
	s.on(theirs, "docker create --name theirs "+someImage)
	s.must(s.Lab.Pause(s.ctx, frozen.Name))
	before := s.carriedBy([]lab.Node{taken, theirs})
	s.set(s.spec())

	waits := map[string]cke.Code{taken.Name: cke.CodePortTaken, theirs.Name: cke.CodeForeignEtcd, frozen.Name: cke.CodeUnreachable}
	s.awaitWaits(waits)
	s.wantUntouched(before)

	s.must(s.Lab.Unpause(s.ctx, frozen.Name))
	delete(waits, frozen.Name)
	s.awaitWaits(waits)
	s.hangUp(taken, cke.DefaultClientPort)
	delete(waits, taken.Name)
	s.awaitWaits(waits)
	s.on(theirs, "docker rm theirs")
	s.ready()
	s.oneCluster()
}

// awaitWaits waits until the status names exactly these problems.
func (s *story) awaitWaits(want map[string]cke.Code) {
	s.Helper()
	s.await(fmt.Sprintf("exactly %v to be told", want), seenLimit, func(st cke.Status) bool {
		got := map[string]cke.Code{}
		for _, p := range st.Problems {
			got[p.Node] = p.Code
		}
		return maps.Equal(got, want) && len(st.Problems) == len(want)
	})
}

// listen makes something else than etcd listen on a port of a node: a second sshd.
func (s *story) listen(n lab.Node, port int) {
	s.Helper()
	s.on(n, fmt.Sprintf("/usr/sbin/sshd -p %d -o PidFile=/run/taken-%d.pid", port, port))
	s.cleanly(func(ctx context.Context) error {
		_, err := s.Lab.Exec(ctx, n.Name, "sh", "-c", fmt.Sprintf("kill $(cat /run/taken-%d.pid) 2>/dev/null || :", port))
		return err
	})
}

func (s *story) hangUp(n lab.Node, port int) {
	s.Helper()
	s.on(n, fmt.Sprintf("kill $(cat /run/taken-%d.pid)", port))
}

// newSSHKey returns a private key that no node knows, with or without a passphrase.
func newSSHKey(s *story, passphrase string) string {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	s.must(err)
	var block *pem.Block
	if passphrase == "" {
		block, err = ssh.MarshalPrivateKey(key, "")
	} else {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(key, "", []byte(passphrase))
	}
	s.must(err)
	return string(pem.EncodeToMemory(block))
}

func TestLabBootstrap_LeavesNothingBehindWhereADiskIsFull(t *testing.T) {
	extra(t)
	s := newStory(t, 3)
	s.daemon("cke1")
	s.setKey()
	full := s.nodes[1]
	before := s.carriedBy(s.nodes)
	s.must(s.Lab.FillDisk(s.ctx, full.Name))
	s.set(s.spec())
	p := s.awaitProblem(full.Name, cke.CodeDiskFull)
	if !strings.Contains(p.Remedy, "Free space") {
		t.Errorf("problem %+v", p)
	}
	// It is tried again from time to time; between two tries nothing is left.
	s.eventually("nothing to be left on any node", func() bool { return maps.Equal(s.carriedBy(s.nodes), before) })
	st := s.now()
	if c, _ := st.Condition(cke.CondReady); st.Health != cke.HealthForming || c.Status != cke.False {
		t.Errorf("%s, %+v", st.Health, c)
	}
	s.must(s.Lab.FreeDisk(s.ctx, full.Name))
	s.ready()
	s.oneCluster()
}

// eventually asks until something is so.
func (s *story) eventually(what string, ok func() bool) {
	s.Helper()
	ctx := s.within(seenLimit)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			s.Fatalf("waited in vain for %s", what)
		case <-tick.C:
		}
	}
}
