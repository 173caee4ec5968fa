package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"cke/mtest/lab"
	"cke/mtest/rig"
)

// etcdServer is a real etcd process of one member on loopback, over a directory on this machine's disk.
type etcdServer struct {
	bin      string // where etcd, etcdctl and etcdutl are
	endpoint string
	cmd      *exec.Cmd
	client   *clientv3.Client
	fill     *filler
}

// readyWithin is how long etcd may take to answer.
const readyWithin = 30 * time.Second

// startEtcd runs the etcd that clusters run by default. It does not sync, so that loading it does not take long: what is
// measured only reads from it.
func startEtcd(ctx context.Context, dir string) (*etcdServer, error) {
	img, err := lab.EtcdImage(ctx, rig.EtcdVersion, os.Stderr)
	if err != nil {
		return nil, err
	}
	s := &etcdServer{bin: filepath.Join(dir, "bin"), fill: newFiller()}
	if err := img.Binaries(s.bin); err != nil {
		return nil, err
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	peer, err := freeAddress()
	if err != nil {
		return nil, err
	}
	s.endpoint = "http://" + address
	log, err := os.Create(filepath.Join(dir, "etcd.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	s.cmd = exec.CommandContext(ctx, filepath.Join(s.bin, "etcd"), "--name", "bench", "--data-dir", filepath.Join(dir, "data"),
		"--listen-client-urls", s.endpoint, "--advertise-client-urls", s.endpoint,
		"--listen-peer-urls", "http://"+peer, "--initial-advertise-peer-urls", "http://"+peer, "--initial-cluster", "bench=http://"+peer,
		"--max-txn-ops", "2000", "--max-request-bytes", fmt.Sprint(8<<20), "--quota-backend-bytes", fmt.Sprint(8<<30), "--unsafe-no-fsync")
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	if s.client, err = rig.Client(s.endpoint, nil); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	if err := rig.PutThrough(ctx, s.client, "ready", ""); err != nil {
		return nil, errors.Join(fmt.Errorf("etcd does not answer; its log is %s: %w", log.Name(), err), s.Close())
	}
	return s, nil
}

// Close kills the server.
func (s *etcdServer) Close() error {
	var err error
	if s.client != nil {
		err = s.client.Close()
	}
	err = errors.Join(err, s.cmd.Process.Kill())
	_ = s.cmd.Wait() // says that it was killed
	return err
}

// filler makes values of 1 KiB that compress to half: hexadecimal digits. The result is used until the next call.
type filler struct {
	rng    *rand.ChaCha8
	random [512]byte
	text   [1024]byte
}

func newFiller() *filler { return &filler{rng: rand.NewChaCha8([32]byte{1})} }

func (f *filler) next() []byte {
	f.rng.Read(f.random[:])
	hex.Encode(f.text[:], f.random[:])
	return f.text[:]
}

// put writes n keys, or writes them again, each transactions of perTxn; it returns the payload: bytes of keys and values.
func (s *etcdServer) put(ctx context.Context, n, perTxn int) (payload int64, err error) {
	ops := make([]clientv3.Op, 0, perTxn)
	for i := 0; i < n; i += perTxn {
		ops = ops[:0]
		for j := i; j < min(n, i+perTxn); j++ {
			key, value := fmt.Sprintf("key/%08d", j), string(s.fill.next())
			payload += int64(len(key) + len(value))
			ops = append(ops, clientv3.OpPut(key, value))
		}
		if _, err := s.client.Txn(ctx).Then(ops...).Commit(); err != nil {
			return payload, fmt.Errorf("load etcd: %w", err)
		}
	}
	return payload, nil
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
