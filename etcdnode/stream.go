package etcdnode

import (
	"errors"
	"net"
	"time"

	"golang.org/x/crypto/ssh"
)

// stream is a channel of an SSH connection as net/http wants it. Deadlines are those of requests: a request that is
// given up closes its stream.
type stream struct {
	ssh.Channel
	requests <-chan *ssh.Request // sshd makes none; whatever comes is refused along the way
}

// Read implements net.Conn.
func (s *stream) Read(p []byte) (int, error) {
	for len(s.requests) > 0 {
		if r := <-s.requests; r != nil && r.WantReply {
			r.Reply(false, nil)
		}
	}
	return s.Channel.Read(p)
}

var errNoDeadline = errors.New("a stream over SSH has no deadlines")

// LocalAddr implements net.Conn.
func (*stream) LocalAddr() net.Addr { return &net.UnixAddr{Name: "@", Net: "unix"} }

// RemoteAddr implements net.Conn.
func (*stream) RemoteAddr() net.Addr { return &net.UnixAddr{Name: engineSocket, Net: "unix"} }

// SetDeadline implements net.Conn.
func (*stream) SetDeadline(time.Time) error { return errNoDeadline }

// SetReadDeadline implements net.Conn.
func (*stream) SetReadDeadline(time.Time) error { return errNoDeadline }

// SetWriteDeadline implements net.Conn.
func (*stream) SetWriteDeadline(time.Time) error { return errNoDeadline }
