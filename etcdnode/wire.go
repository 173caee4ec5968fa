package etcdnode

import (
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// wire is the TCP connection below an SSH connection. It knows when the peer was last heard.
type wire struct {
	net.Conn
	raw   syscall.RawConn // nil: not a socket
	heard atomic.Int64    // Unix nanoseconds of the last byte received
}

func newWire(conn net.Conn) *wire {
	w := &wire{Conn: conn}
	if sc, ok := conn.(syscall.Conn); ok {
		w.raw, _ = sc.SyscallConn()
	}
	w.heard.Store(time.Now().UnixNano())
	return w
}

func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if n > 0 {
		w.heard.Store(time.Now().UnixNano())
		if w.raw != nil {
			ackAtOnce(w.raw)
		}
	}
	return n, err
}

// silentFor is how long ago the peer was last heard.
func (w *wire) silentFor() time.Duration {
	return time.Since(time.Unix(0, w.heard.Load()))
}
