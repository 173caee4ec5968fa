package boot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"cke/backup"
	"cke/internal/contain"
)

// nobody is a URL for an etcd that is alone and is asked by no other process; nothing listens there. Before 3.7 etcd advertises
// no socket.
const nobody = "http://127.0.0.1:1"

// localEtcd runs the programs etcd and etcdutl in PATH. Its etcd is reached by a unix socket only.
type localEtcd struct {
	scratch string

	dir    *backup.Scratch
	talk   *backup.Scratch // a directory of its own for the socket, whose path must be short
	cmd    *exec.Cmd
	log    bytes.Buffer
	ended  chan struct{}
	client *clientv3.Client
}

var _ etcdRunner = (*localEtcd)(nil)

func (l *localEtcd) String() string { return "the programs in PATH" }

func (l *localEtcd) version(ctx context.Context) (string, error) {
	for _, name := range []string{"etcd", "etcdutl"} {
		if _, err := exec.LookPath(name); err != nil {
			return "", errors.New("there is no " + name + " in PATH")
		}
	}
	out, err := exec.CommandContext(ctx, "etcd", "--version").Output()
	if err != nil {
		return "", fmt.Errorf("etcd --version: %w", err)
	}
	return versionIn(string(out))
}

func (l *localEtcd) restore(ctx context.Context, snapshot string) (err error) {
	if l.dir, err = backup.NewScratch(l.scratch, backup.ScratchBoot); err != nil {
		return fmt.Errorf("%w: %w", errNotTried, err)
	}
	if l.talk, err = backup.NewScratch("", backup.ScratchBoot); err != nil {
		return fmt.Errorf("%w: %w", errNotTried, err)
	}
	out, err := exec.CommandContext(ctx, "etcdutl", "snapshot", "restore", snapshot, "--data-dir", filepath.Join(l.dir.Path, "data"), "--name", "drill",
		"--initial-cluster", "drill="+nobody, "--initial-advertise-peer-urls", nobody).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("etcdutl: %w: %s", err, lastLine(string(out)))
	}
	return restored(err, string(out))
}

func (l *localEtcd) socket() string { return "unix://" + filepath.Join(l.talk.Path, "etcd") }

func (l *localEtcd) run(ctx context.Context) error {
	l.cmd = exec.CommandContext(ctx, "etcd", "--data-dir", filepath.Join(l.dir.Path, "data"), "--name", "drill", "--log-level", "warn",
		"--listen-client-urls", l.socket(), "--advertise-client-urls", nobody, "--listen-peer-urls", "http://127.0.0.1:0",
		"--initial-cluster", "drill="+nobody, "--initial-advertise-peer-urls", nobody)
	l.cmd.Dir, l.cmd.Stdout, l.cmd.Stderr = l.dir.Path, &l.log, &l.log
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := l.cmd.Start(); err != nil {
		return err
	}
	l.ended = make(chan struct{})
	go contain.Work(func() {
		defer close(l.ended)
		l.cmd.Wait() // how it ended is in its log
	}, func(error) {})()
	var err error
	l.client, err = clientv3.New(clientv3.Config{Endpoints: []string{l.socket()}, Logger: zap.NewNop()})
	return err
}

func (l *localEtcd) ask(ctx context.Context) (bootAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*bootPause)
	defer cancel()
	select {
	case <-l.ended:
		if s, ok := l.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && s.Signaled() && s.Signal() == syscall.SIGKILL {
			return bootAnswer{}, fmt.Errorf("%w: it was killed, maybe because this host is short of memory", errNotTried)
		}
		return bootAnswer{}, errEnded
	default:
	}
	status, err := l.client.Status(ctx, l.socket())
	if err != nil {
		return bootAnswer{}, err
	}
	hash, err := l.client.HashKV(ctx, l.socket(), 0)
	if err != nil {
		return bootAnswer{}, err
	}
	return bootAnswer{status.Header.Revision, hash.Hash, hash.CompactRevision}, nil
}

func (l *localEtcd) remove() string {
	if l.client != nil {
		l.client.Close()
	}
	if l.ended != nil {
		l.cmd.Process.Kill()
		<-l.ended
	}
	l.dir.Remove()
	l.talk.Remove()
	return lastLine(l.log.String())
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
