package etcdnode

import (
	"context"
	"io"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"cke"
)

// deafConn is an SSH connection that has ended and forgets a channel that is opened in that moment, as x/crypto/ssh does.
type deafConn struct {
	ssh.Conn
	asked, closed chan struct{}
	over          <-chan struct{} // when the test is
}

func (c deafConn) OpenChannel(string, []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	close(c.asked)
	<-c.over
	return nil, nil, io.EOF
}
func (c deafConn) Close() error { close(c.closed); return nil }
func (c deafConn) Wait() error  { <-c.closed; return io.EOF }

// Else the link would wait for it for ever, and the node would never be connected to again.
func TestSession_EndsAlsoWhenAChannelWasOpenedInItsLastMoment(t *testing.T) {
	over := make(chan struct{})
	defer close(over)
	conn := deafConn{asked: make(chan struct{}), closed: make(chan struct{}), over: over}
	s := &session{node: cke.Node{Hostname: "n1"}, ssh: conn}
	s.ctx, s.end = context.WithCancel(t.Context())
	var err error
	if s.engine, err = newDocker(s.dialEngine, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	s.spawn(s.serve)
	opened := make(chan error, 1)
	go func() {
		_, err := s.dialEngine(t.Context())
		opened <- err
	}()
	<-conn.asked
	closed := make(chan struct{})
	go func() {
		s.close()
		close(closed)
	}()
	for what, done := range map[string]func() bool{
		"close":      func() bool { return ended(closed) },
		"dialEngine": func() bool { return failed(opened) },
	} {
		if !done() {
			t.Errorf("%s does not return", what)
		}
	}
}

func ended(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	case <-time.After(patience):
		return false
	}
}

func failed(c <-chan error) bool {
	select {
	case err := <-c:
		return err != nil
	case <-time.After(patience):
		return false
	}
}
