package main

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/ssh"
)

// door is an sshd with a home and a Docker engine behind it. It runs commands of the operator in a real shell, and gives a key of
// authorized_keys the way to the engine's socket alone.
type door struct {
	t        *testing.T
	home     string
	address  string // host:port
	hostKey  ssh.PublicKey
	operator ssh.PublicKey // nil: no key
	password string        // empty: none
	greeting string        // what a login script writes to stdout
	// locked: sshd opens no socket.
	locked bool
	logins atomic.Int32 // that were tried
	config *ssh.ServerConfig
	engine string
	wg     sync.WaitGroup
}

// newDoor starts an sshd on an address of the loopback network.
func newDoor(t *testing.T, host string, operator ssh.PublicKey) *door {
	t.Helper()
	d := &door{t: t, home: t.TempDir(), operator: operator, engine: filepath.Join(t.TempDir(), "docker.sock")}
	pem, public := sshKey(t, "")
	signer, err := ssh.ParsePrivateKey([]byte(pem))
	if err != nil {
		t.Fatal(err)
	}
	d.hostKey = public
	d.config = &ssh.ServerConfig{PublicKeyCallback: d.publicKey, PasswordCallback: func(_ ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
		if d.logins.Add(1); d.password == "" || string(password) != d.password {
			return nil, errors.New("wrong password")
		}
		return &ssh.Permissions{Extensions: map[string]string{"shell": ""}}, nil
	}}
	d.config.AddHostKey(signer)
	engine, err := net.Listen("unix", d.engine)
	if err != nil {
		t.Fatal(err)
	}
	docker := &http.Server{Handler: http.HandlerFunc(answerAsEngine)}
	d.wg.Go(func() { docker.Serve(engine) })
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	d.address = l.Addr().String()
	d.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			d.wg.Go(func() { d.serve(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		docker.Close()
		d.wg.Wait()
	})
	return d
}

// answerAsEngine answers what an observation asks.
func answerAsEngine(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Server", "Docker/20.10.24 (linux)")
	w.Header().Set("Api-Version", "1.41")
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/_ping":
	case "/v1.41/events":
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case "/v1.41/containers/json":
		io.WriteString(w, "[]")
	case "/v1.41/volumes":
		io.WriteString(w, `{"Volumes":[]}`)
	default:
		http.Error(w, `{"message":"no such thing"}`, http.StatusNotFound)
	}
}

// publicKey admits the operator, and the keys of authorized_keys with the options that they have there.
func (d *door) publicKey(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
	d.logins.Add(1)
	if d.operator != nil && bytes.Equal(key.Marshal(), d.operator.Marshal()) {
		return &ssh.Permissions{Extensions: map[string]string{"shell": ""}}, nil
	}
	for line := range bytes.Lines([]byte(d.keys())) {
		allowed, _, options, _, err := ssh.ParseAuthorizedKey(line)
		if err == nil && bytes.Equal(allowed.Marshal(), key.Marshal()) && len(options) > 0 && options[0] == "restrict" {
			return &ssh.Permissions{}, nil
		}
	}
	return nil, errors.New("unknown key")
}

// keys is the text of authorized_keys.
func (d *door) keys() string {
	b, err := os.ReadFile(filepath.Join(d.home, ".ssh/authorized_keys"))
	if err != nil && !errors.Is(err, os.ErrNotExist) && d.home != readOnly {
		d.t.Error(err)
	}
	return string(b)
}

func (d *door) serve(conn net.Conn) {
	defer conn.Close()
	c, channels, requests, err := ssh.NewServerConn(conn, d.config)
	if err != nil {
		return
	}
	d.wg.Go(func() {
		for r := range requests {
			if r.WantReply {
				r.Reply(false, nil) // as OpenSSH answers a keep-alive
			}
		}
	})
	_, shell := c.Permissions.Extensions["shell"]
	for ch := range channels {
		switch {
		case ch.ChannelType() == "session" && shell:
			d.wg.Go(func() { d.session(ch) })
		case ch.ChannelType() == "direct-streamlocal@openssh.com" && !shell && !d.locked && bytes.Contains(ch.ExtraData(), []byte("/var/run/docker.sock")):
			d.wg.Go(func() { d.forward(ch) })
		default:
			ch.Reject(ssh.ConnectionFailed, "open failed")
		}
	}
}

// session runs one command.
func (d *door) session(ch ssh.NewChannel) {
	stream, requests, err := ch.Accept()
	if err != nil {
		return
	}
	defer stream.Close()
	for r := range requests {
		var ask struct{ Command string }
		if r.Type != "exec" || ssh.Unmarshal(r.Payload, &ask) != nil {
			r.Reply(false, nil)
			continue
		}
		r.Reply(true, nil)
		io.WriteString(stream, d.greeting)
		cmd := exec.Command("/bin/sh", "-c", ask.Command)
		cmd.Env = []string{"HOME=" + d.home, "PATH=" + os.Getenv("PATH")}
		cmd.Stdin, cmd.Stdout, cmd.Stderr = stream, stream, stream.Stderr()
		var status struct{ Code uint32 }
		if err := cmd.Run(); err != nil {
			status.Code = 1
		}
		stream.SendRequest("exit-status", false, ssh.Marshal(status))
		return
	}
}

func (d *door) forward(ch ssh.NewChannel) {
	to, err := net.Dial("unix", d.engine)
	if err != nil {
		ch.Reject(ssh.ConnectionFailed, "open failed")
		return
	}
	defer to.Close()
	from, requests, err := ch.Accept()
	if err != nil {
		return
	}
	defer from.Close()
	go ssh.DiscardRequests(requests)
	d.wg.Go(func() {
		io.Copy(to, from)
		to.(*net.UnixConn).CloseWrite()
	})
	io.Copy(from, to)
}
