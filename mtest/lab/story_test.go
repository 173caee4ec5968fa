package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// etcdForTests is the version that tests of the lab load.
const etcdForTests = "3.6.16"

// TestLab goes through everything a lab does, in order, on two nodes: each step leaves the nodes as the next wants them.
func TestLab(t *testing.T) {
	l := ForTest(t, 2, WithEtcd(etcdForTests), WithDisk(600<<20))
	n1, n2 := l.Nodes()[0], l.Nodes()[1]

	tell(t, l, "nodes run, are reachable and let both keys in", func(s *story) {
		for _, n := range s.list() {
			if n.State != Running {
				s.Errorf("%s is %s", n.Name, n.State)
			}
			s.wantEngine(n, n.KeyFile)
			s.wantEngine(n, n.RestrictedKeyFile)
		}
		if images := s.exec(n1, "docker", "images", "-q", EtcdRepository); images == "" {
			s.Error("the etcd image is not there")
		}
	})
	tell(t, l, "the restricted key is good for nothing else", func(s *story) { s.wantRestricted(n1) })
	tell(t, l, "up again changes nothing", func(s *story) {
		s.must(l.Up(s.Context(), UpOptions{Nodes: 1}))
		if len(s.list()) != 2 {
			s.Error("the lab has changed")
		}
	})
	tell(t, l, "containers and the disk survive a power cycle", func(s *story) {
		s.exec(n1, "docker", "volume", "create", "kept")
		s.exec(n1, "touch", "/mnt/kept")
		s.must(l.Kill(s.Context(), n1.Name))
		s.must(l.Kill(s.Context(), n1.Name))
		if got := s.list()[0].State; got != Stopped {
			s.Errorf("killed, it is %s", got)
		}
		s.wantSilent(n1)
		s.must(l.Start(s.Context(), n1.Name))
		s.wantEngine(n1, n1.KeyFile) // also checks that the host key is the same
		if got := s.exec(n1, "docker", "volume", "ls", "-q"); got != "kept\n" {
			s.Errorf("volumes: %q", got)
		}
		s.exec(n1, "test", "-e", "/mnt/kept")
	})
	tell(t, l, "a paused node keeps its address and does not answer", func(s *story) {
		s.must(l.Pause(s.Context(), n1.Name))
		s.wantSilent(n1)
		if _, err := l.Exec(s.Context(), n1.Name, "true"); !errors.Is(err, ErrNotRunning) {
			s.Errorf("exec on a paused node: %v", err)
		}
		s.must(l.Cut(s.Context(), n1.Name, Cut{From: FromHost}))
		s.must(l.Unpause(s.Context(), n1.Name))
		s.wantSilent(n1) // what was cut meanwhile is cut
		s.must(l.Heal(s.Context(), n1.Name))
		s.wantEngine(n1, n1.KeyFile)
	})
	tell(t, l, "cables can be cut per peer and one way", func(s *story) {
		s.must(l.Cut(s.Context(), n1.Name, Cut{From: n2.Name}))
		s.wantEngine(n1, n1.KeyFile)
		s.wantPeer(n2, n1, false)
		s.must(l.Heal(s.Context(), n2.Name)) // a heal at either end mends it
		s.wantPeer(n2, n1, true)

		s.must(l.Cut(s.Context(), n1.Name, Cut{Direction: In}))
		s.wantSilent(n1)
		before := s.packets(n2)
		s.exec(n1, "bash", "-c", "exec 3<>/dev/udp/"+n2.Address+"/9 && echo x >&3")
		for deadline := time.Now().Add(5 * time.Second); s.packets(n2) == before; {
			if time.Now().After(deadline) {
				s.Fatal("cut inwards, the node's own packets do not leave it either")
			}
		}
		s.must(l.Kill(s.Context(), n1.Name))
		s.must(l.Start(s.Context(), n1.Name))
		s.wantSilent(n1) // cuts survive a power cycle
		s.must(l.Heal(s.Context(), n1.Name))
		s.wantEngine(n1, n1.KeyFile)

		s.must(l.Cut(s.Context(), n1.Name, Cut{From: FromHost}))
		s.wantSilent(n1)
		s.wantPeer(n2, n1, true)
		s.must(l.Heal(s.Context(), n1.Name))
	})
	tell(t, l, "a full disk refuses writes until it is freed", func(s *story) {
		s.must(l.FillDisk(s.Context(), n1.Name))
		_, err := l.Exec(s.Context(), n1.Name, "sh", "-c", "head -c 16K /dev/zero >/var/lib/docker/x")
		if err == nil || !strings.Contains(err.Error(), "No space left on device") {
			s.Errorf("writing to a full disk: %v", err)
		}
		s.must(l.FreeDisk(s.Context(), n1.Name))
		s.exec(n1, "sh", "-c", "head -c 16K /dev/zero >/var/lib/docker/x")
		s.exec(n1, "rm", "/var/lib/docker/x")
	})
	tell(t, l, "a hung engine accepts connections and does not answer", func(s *story) {
		s.must(l.HangDocker(s.Context(), n1.Name))
		if _, err := s.ping(n1, n1.KeyFile, time.Second); !errors.Is(err, os.ErrDeadlineExceeded) {
			s.Errorf("a hung engine: %v", err)
		}
		s.must(l.ResumeDocker(s.Context(), n1.Name))
		s.wantEngine(n1, n1.KeyFile)
		s.must(l.RestartDocker(s.Context(), n1.Name))
		s.wantEngine(n1, n1.KeyFile)
		s.must(l.CrashDocker(s.Context(), n1.Name))
		s.wantEngine(n1, n1.KeyFile)
	})
	tell(t, l, "an engine shows another clock until it is set right", func(s *story) {
		s.wantClock(n1, 0)
		before, err := s.dial(n1, n1.KeyFile, 10*time.Second)
		s.must(err)
		s.must(l.SetClock(s.Context(), n1.Name, 2*time.Hour))
		if err := before.Wait(); err == nil {
			s.Error("a connection from before ended in good order")
		}
		s.wantClock(n1, 2*time.Hour)
		s.wantClock(n2, 0)
		s.exec(n1, "sh", "-ec", "docker volume create shown >/dev/null; docker volume ls -q | grep -x shown; docker volume rm shown") // through it
		s.must(l.SetClock(s.Context(), n1.Name, -time.Hour))
		s.wantClock(n1, -time.Hour)
		s.must(l.SetClock(s.Context(), n1.Name, 0))
		s.wantClock(n1, 0)
		s.must(l.SetClock(s.Context(), n1.Name, time.Hour))
		s.must(l.RestartDocker(s.Context(), n1.Name)) // it makes its socket anew
		s.wantClock(n1, 0)
		s.must(l.SetClock(s.Context(), n1.Name, 0))
		s.wantClock(n1, 0)
	})
	tell(t, l, "a node gets another address and keeps it", func(s *story) {
		to, err := l.SpareAddress()
		s.must(err)
		s.must(l.Cut(s.Context(), n2.Name, Cut{From: n1.Name}))
		moved, err := l.Readdress(s.Context(), n1.Name, to)
		s.must(err)
		if moved.Address != to || moved.Address == n1.Address || moved.HostKey != n1.HostKey {
			s.Errorf("%+v, before %+v", moved, n1)
		}
		s.wantSilent(n1)
		s.wantEngine(moved, moved.KeyFile)
		s.wantPeer(n2, moved, false) // what was cut between the two is cut
		s.must(l.Heal(s.Context(), n2.Name))
		s.wantPeer(n2, moved, true)
		s.must(l.Kill(s.Context(), n1.Name))
		s.must(l.Start(s.Context(), n1.Name))
		s.wantEngine(moved, moved.KeyFile)
		n1 = moved
	})
	tell(t, l, "reset brings nodes back to how they came up", func(s *story) {
		s.exec(n1, "docker", "create", "--name", "left", "-v", "data:/data", EtcdRepository+":v"+etcdForTests)
		s.must(l.FillDisk(s.Context(), n1.Name))
		s.must(l.HangDocker(s.Context(), n1.Name))
		s.must(l.Pause(s.Context(), n1.Name))
		s.must(l.Cut(s.Context(), n2.Name, Cut{}))
		s.must(l.Kill(s.Context(), n2.Name))
		s.must(l.Reset(s.Context()))
		s.wantEngine(n1, n1.KeyFile)
		s.wantEngine(n2, n2.KeyFile)
		if got := s.exec(n1, "sh", "-c", "docker ps -aq; docker volume ls -q; ls /mnt; ls /disk/ballast 2>/dev/null || :"); got != "" {
			s.Errorf("left over: %q", got)
		}
	})
	tell(t, l, "a wiped node is blank and has a new host key unless it is kept", func(s *story) {
		s.exec(n1, "docker", "volume", "create", "gone")
		s.must(l.Wipe(s.Context(), n1.Name, WipeOptions{KeepHostKey: true}))
		kept, err := l.Node(n1.Name)
		s.must(err)
		if kept.HostKey != n1.HostKey || kept.Address != n1.Address {
			s.Errorf("want the same host key and address: %+v", kept)
		}
		s.wantEngine(kept, kept.KeyFile)
		if got := s.exec(n1, "docker", "volume", "ls", "-q"); got != "" {
			s.Errorf("volumes: %q", got)
		}
		s.must(l.Wipe(s.Context(), n1.Name, WipeOptions{}))
		fresh, err := l.Node(n1.Name)
		s.must(err)
		if fresh.HostKey == n1.HostKey {
			s.Error("the host key is the old one")
		}
		s.wantEngine(fresh, fresh.KeyFile)
	})
	tell(t, l, "an image can be loaded", func(s *story) {
		img, err := EtcdImage(s.Context(), etcdForTests, s.Output())
		s.must(err)
		s.exec(n2, "docker", "rmi", img.Ref)
		s.must(l.LoadImage(s.Context(), img.Archive, "n2"))
		if got := s.exec(n2, "docker", "images", "-q", "--no-trunc", img.Ref); got != img.ID+"\n" {
			s.Errorf("image ID %q, want %q", got, img.ID)
		}
	})
	tell(t, l, "down leaves nothing", func(s *story) {
		s.must(l.Down(s.Context()))
		s.must(l.Down(s.Context()))
		if _, err := l.List(s.Context()); !errors.Is(err, ErrNoLab) {
			s.Errorf("list after down: %v", err)
		}
		labs, err := Labs(s.Context())
		s.must(err)
		for _, other := range labs {
			if other.Dir() == l.Dir() {
				s.Error("something of the lab is left in the engine")
			}
		}
	})
}

func TestLabPool_LendsTheSameNodesAgain(t *testing.T) {
	p := NewPool(WithEtcd(etcdForTests))
	defer p.Close()
	var first Node
	t.Run("first", func(t *testing.T) {
		l := p.Lab(t, 1)
		first = l.Nodes()[0]
		if _, err := l.Exec(t.Context(), first.Name, "docker", "volume", "create", "left"); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("second", func(t *testing.T) {
		l := p.Lab(t, 1)
		if got := l.Nodes()[0].HostKey; got != first.HostKey {
			t.Error("the node is another one")
		}
		if got, err := l.Exec(t.Context(), "n1", "docker", "volume", "ls", "-q"); err != nil || got != "" {
			t.Errorf("volumes: %q, %v", got, err)
		}
	})
}

// tell runs a part of a story; the rest makes no sense once one has failed.
func tell(t *testing.T, l *Lab, name string, f func(*story)) {
	t.Helper()
	if !t.Run(name, func(t *testing.T) { f(&story{T: t, lab: l}) }) {
		t.FailNow()
	}
}

// story is a lab with the questions its test asks.
type story struct {
	*testing.T
	lab *Lab
}

func (s *story) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *story) list() []Node {
	s.Helper()
	nodes, err := s.lab.List(s.Context())
	s.must(err)
	return nodes
}

func (s *story) exec(n Node, command ...string) string {
	s.Helper()
	out, err := s.lab.Exec(s.Context(), n.Name, command...)
	s.must(err)
	return out
}

// dial logs in to a node, within limit, and checks its host key.
func (s *story) dial(n Node, keyFile string, limit time.Duration) (*ssh.Client, error) {
	pem, err := os.ReadFile(keyFile)
	s.must(err)
	key, err := ssh.ParsePrivateKey(pem)
	s.must(err)
	hostKey, _, _, _, err := ssh.ParseAuthorizedKey([]byte(n.HostKey))
	s.must(err)
	address := net.JoinHostPort(n.Address, fmt.Sprint(n.Port))
	conn, err := net.DialTimeout("tcp", address, limit)
	if err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Now().Add(limit))
	c, channels, requests, err := ssh.NewClientConn(conn, address, &ssh.ClientConfig{
		User: n.User, Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, HostKeyCallback: ssh.FixedHostKey(hostKey),
	})
	if err != nil {
		conn.Close()
		return nil, err
	}
	return ssh.NewClient(c, channels, requests), nil
}

// ping asks a node's engine for an answer the way cke does, within limit.
func (s *story) ping(n Node, keyFile string, limit time.Duration) (string, error) {
	client, err := s.dial(n, keyFile, 10*time.Second)
	if err != nil {
		return "", err
	}
	defer client.Close()
	socket, err := client.Dial("unix", "/var/run/docker.sock")
	if err != nil {
		return "", err
	}
	if _, err := io.WriteString(socket, "GET /_ping HTTP/1.0\r\n\r\n"); err != nil {
		return "", err
	}
	type answer struct {
		text []byte
		err  error
	}
	got := make(chan answer, 1)
	go func() {
		text, err := io.ReadAll(socket) // ends with the client at the latest
		got <- answer{text, err}
	}()
	select {
	case a := <-got:
		return string(a.text), a.err
	case <-time.After(limit):
		return "", os.ErrDeadlineExceeded
	}
}

func (s *story) wantEngine(n Node, keyFile string) {
	s.Helper()
	if text, err := s.ping(n, keyFile, 10*time.Second); err != nil || !strings.HasSuffix(text, "OK") {
		s.Errorf("the engine of %s: %q, %v", n.Name, text, err)
	}
}

// wantClock checks by how much the clock that an engine shows is ahead of ours.
func (s *story) wantClock(n Node, ahead time.Duration) {
	s.Helper()
	text, err := s.ping(n, n.KeyFile, 10*time.Second)
	_, date, _ := strings.Cut(text, "\r\nDate: ")
	date, _, _ = strings.Cut(date, "\r\n")
	shown, bad := http.ParseTime(date)
	if off := time.Until(shown) - ahead; err != nil || bad != nil || off.Abs() > time.Minute {
		s.Errorf("the clock of %s is off by %s: %q, %v, %v", n.Name, off, text, err, bad)
	}
}

// wantSilent checks that nobody answers at a node's sshd.
func (s *story) wantSilent(n Node) {
	s.Helper()
	if c, err := s.dial(n, n.KeyFile, time.Second); err == nil {
		c.Close()
		s.Errorf("%s answers", n.Name)
	}
}

// wantPeer checks whether one node reaches another's sshd.
func (s *story) wantPeer(from, to Node, want bool) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 10*time.Second)
	defer cancel()
	limit := "1"
	if want { // a busy machine may take its time
		limit = "8"
	}
	_, err := s.lab.Exec(ctx, from.Name, "timeout", limit, "bash", "-c", fmt.Sprintf("exec 3<>/dev/tcp/%s/%d && head -c 3 <&3", to.Address, to.Port))
	if (err == nil) != want {
		s.Errorf("%s reaches %s: %v, want %v", from.Name, to.Name, err == nil, want)
	}
}

// packets counts the UDP packets that reached a node and found no listener.
func (s *story) packets(n Node) string {
	s.Helper()
	return s.exec(n, "awk", `/^Udp:/ {print $3}`, "/proc/net/snmp")
}

func (s *story) wantRestricted(n Node) {
	s.Helper()
	client, err := s.dial(n, n.RestrictedKeyFile, 10*time.Second)
	s.must(err)
	defer client.Close()
	if session, err := client.NewSession(); err != nil {
		s.Error(err)
	} else {
		var exit *ssh.ExitError
		if out, err := session.Output("id"); !errors.As(err, &exit) || len(out) != 0 {
			s.Errorf("a command ran: %q, %v", out, err)
		}
	}
	if session, err := client.NewSession(); err != nil {
		s.Error(err)
	} else if session.RequestPty("xterm", 24, 80, nil) == nil {
		s.Error("a terminal was given")
	}
	for _, address := range []string{"127.0.0.1:22", "localhost:1"} {
		if conn, err := client.Dial("tcp", address); err == nil {
			conn.Close()
			s.Errorf("TCP to %s was forwarded", address)
		}
	}
	for _, path := range []string{"/run/docker/containerd/containerd.sock", "/var/run/docker/metrics.sock"} {
		if conn, err := client.Dial("unix", path); err == nil {
			conn.Close()
			s.Errorf("%s was forwarded", path)
		}
	}
	if listener, err := client.Listen("tcp", "127.0.0.1:18022"); err == nil {
		listener.Close()
		s.Error("a TCP port was opened on the node")
	}
}
