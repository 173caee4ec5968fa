package fleet

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/encoding/protowire"
)

// Where an etcd of cke has its data, below its volume.
const (
	walDir       = "data/member/wal"
	databaseFile = "data/member/snap/db"
	// databaseSize is that of a fresh database.
	databaseSize = 20 << 10
)

// visitTime is how long the probe runs.
const visitTime = 100 * time.Millisecond

// flags that etcd is started with here; it refuses others.
var flags = []string{"name", "data-dir", "listen-client-urls", "advertise-client-urls", "listen-peer-urls", "initial-advertise-peer-urls", "client-cert-auth", "trusted-ca-file",
	"cert-file", "key-file", "peer-client-cert-auth", "peer-trusted-ca-file", "peer-cert-file", "peer-key-file", "pre-vote", "logger", "log-level", "feature-gates",
	"experimental-initial-corrupt-check", "experimental-compact-hash-check-enabled", "initial-cluster", "initial-cluster-token", "initial-cluster-state",
	"heartbeat-interval", "election-timeout", "quota-backend-bytes", "snapshot-count", "max-request-bytes"}

// run runs what the container is for: etcd, or the probe that reports the boot. The engine's mu is held.
func (b *box) run() {
	words := b.words()
	switch {
	case len(words) > 1 && words[1] == "boot":
		out, _ := json.Marshal(map[string]string{"kernel": b.engine.node.Name + "-boot", "init": "1"}) // strings only
		b.say(1, string(out))
		time.AfterFunc(visitTime, func() { // its output is asked for meanwhile
			b.engine.mu.Lock()
			defer b.engine.mu.Unlock()
			b.end(0, "")
		})
		return
	case words[0] != "etcd":
		b.end(0, "")
		return
	}
	set := map[string]string{}
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
		if !slices.Contains(flags, name) {
			b.end(2, "flag provided but not defined: -"+name)
			return
		}
		set[name] = value
	}
	m, err := b.launch(set)
	if err != nil {
		line, _ := json.Marshal(map[string]string{"level": "fatal", "ts": time.Now().UTC().Format("2006-01-02T15:04:05.000000Z0700"), "msg": "discovery failed", "error": err.Error()})
		b.end(1, string(line))
		return
	}
	b.member = m
}

// member is an etcd that runs. What cke asks of none here is not implemented.
type member struct {
	pb.UnimplementedMaintenanceServer
	pb.UnimplementedKVServer
	pb.UnimplementedClusterServer
	pb.UnimplementedAuthServer

	group   *group
	id      uint64
	name    string
	version string
	server  *grpc.Server

	mu    sync.Mutex
	conns map[net.Conn]bool
	asked time.Time // for its status, last
	wg    sync.WaitGroup
}

// launch starts a member on the data in its volume.
func (b *box) launch(set map[string]string) (*member, error) {
	read := func(name string) ([]byte, error) {
		t, at := b.place(name)
		if f := t.files[at]; f != nil && !f.dir {
			return f.data, nil
		}
		return nil, fmt.Errorf("open %s: no such file or directory", name)
	}
	conf, err := serverTLS(set, read)
	if err != nil {
		return nil, err
	}
	t, at := b.place(set["data-dir"] + "/member/wal")
	id, cluster, members, err := founders(t, at)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(set["advertise-client-urls"])
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", u.Host)
	if err != nil {
		return nil, err
	}
	_, version, _ := strings.Cut(path.Base(b.config.Image), ":v")
	m := &member{group: b.engine.node.fleet.group(cluster, members), id: id, name: set["name"], version: version, conns: map[net.Conn]bool{}}
	if f := t.files[databaseFile]; f == nil {
		t.put(databaseFile, &file{mode: 0o600, data: make([]byte, databaseSize), changed: time.Now()})
	}
	m.server = grpc.NewServer(grpc.Creds(credentials.NewTLS(conf)))
	pb.RegisterMaintenanceServer(m.server, m)
	pb.RegisterKVServer(m.server, m)
	pb.RegisterClusterServer(m.server, m)
	pb.RegisterAuthServer(m.server, m)
	m.group.up(id, set["name"], set["advertise-client-urls"], true)
	m.wg.Go(func() { _ = m.server.Serve(counted{l, m}) }) // ends with stop
	return m, nil
}

// stop ends a member, as a signal does.
func (m *member) stop() {
	m.group.up(m.id, m.name, "", false)
	m.server.Stop()
	m.wg.Wait()
}

// cut breaks its connections.
func (m *member) cut() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for c := range m.conns {
		c.Close()
	}
}

func (m *member) askedSince(t time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked.After(t)
}

// counted knows the connections of a member.
type counted struct {
	net.Listener
	member *member
}

type countedConn struct {
	net.Conn
	member *member
}

// Accept implements net.Listener.
func (c counted) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	known := countedConn{conn, c.member}
	c.member.mu.Lock()
	defer c.member.mu.Unlock()
	c.member.conns[known] = true
	return known, nil
}

// Close implements net.Conn.
func (c countedConn) Close() error {
	go func() { // cut holds mu
		c.member.mu.Lock()
		defer c.member.mu.Unlock()
		delete(c.member.conns, c)
	}()
	return c.Conn.Close()
}

// serverTLS is what etcd makes of its flags: the files are read at each handshake.
func serverTLS(set map[string]string, read func(string) ([]byte, error)) (*tls.Config, error) {
	cert, err1 := read(set["cert-file"])
	key, err2 := read(set["key-file"])
	ca, err3 := read(set["trusted-ca-file"])
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}}, nil
}

// founder is a first member, as the log has it.
type founder struct {
	ID       uint64   `json:"id"`
	PeerURLs []string `json:"peerURLs"`
	Name     string   `json:"name"`
}

// founders reads the log that a first member is started on. Source: etcd, storage/wal: a length, whose highest byte has the padding, and a
// record of protocol buffers.
func founders(t *tree, dir string) (own, cluster uint64, members []founder, err error) {
	var log []byte
	for _, p := range t.below(dir) {
		if strings.HasSuffix(p, ".wal") {
			log = append(log, t.files[p].data...)
		}
	}
	for len(log) >= 8 {
		length := binary.LittleEndian.Uint64(log)
		padding := 0
		if length>>63 == 1 {
			padding = int(length >> 56 & 7)
		}
		length &= 1<<56 - 1
		if uint64(len(log)-8) < length+uint64(padding) {
			break
		}
		record := fields(log[8 : 8+length])
		log = log[8+int(length)+padding:]
		switch record.number(1) {
		case 1: // metadata
			own, cluster = fields(record.bytes(3)).number(1), fields(record.bytes(3)).number(2)
		case 2: // an entry: it adds a member
			var f founder
			change := fields(fields(record.bytes(3)).bytes(4))
			if err := json.Unmarshal(change.bytes(4), &f); err != nil {
				return 0, 0, nil, fmt.Errorf("read the log: %w", err)
			}
			members = append(members, f)
		}
	}
	if own == 0 {
		return 0, 0, nil, errors.New("member has no log, and no member of the cluster to join is known")
	}
	return own, cluster, members, nil
}

// message is a message of protocol buffers by field.
type message map[protowire.Number]any

func fields(b []byte) message {
	m := message{}
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return m
		}
		b = b[n:]
		switch kind {
		case protowire.VarintType:
			v, n := protowire.ConsumeVarint(b)
			m[number], b = v, b[max(n, 0):]
		case protowire.BytesType:
			v, n := protowire.ConsumeBytes(b)
			m[number], b = v, b[max(n, 0):]
		default:
			return m
		}
	}
	return m
}

func (m message) number(n protowire.Number) uint64 { v, _ := m[n].(uint64); return v }
func (m message) bytes(n protowire.Number) []byte  { v, _ := m[n].([]byte); return v }

// Kill ends the member of a cluster on a node with SIGKILL, as an operator does: its engine does not start it again. It returns false if
// none runs.
func (n *Node) Kill(cluster string) bool {
	n.engine.mu.Lock()
	defer n.engine.mu.Unlock()
	for _, b := range n.engine.containers {
		if b.state == container.StateRunning && b.config.Labels["cke.cluster"] == cluster {
			b.end(137, "")
			return true
		}
	}
	return false
}

// StartedAt is when the container of a cluster on the node was started last.
func (n *Node) StartedAt(cluster string) (at time.Time) {
	n.engine.mu.Lock()
	defer n.engine.mu.Unlock()
	for _, b := range n.engine.containers {
		if b.config.Labels["cke.cluster"] == cluster && b.started.After(at) {
			at = b.started
		}
	}
	return at
}
