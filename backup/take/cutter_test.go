package take_test

import (
	"io"
	"net"
	"sync"
	"testing"
)

// cutter is a TCP proxy that can be cut.
type cutter struct {
	mu    sync.Mutex
	off   bool
	to    string
	conns []net.Conn
}

func (c *cutter) start(t *testing.T, to string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	c.to = to
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			c.mu.Lock()
			off, to := c.off, c.to
			c.conns = append(c.conns, in)
			c.mu.Unlock()
			if off {
				in.Close()
				continue
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			c.mu.Lock()
			c.conns = append(c.conns, out)
			c.mu.Unlock()
			go func() { io.Copy(out, in); out.Close() }()
			go func() { io.Copy(in, out); in.Close() }()
		}
	}()
	return "http://" + l.Addr().String()
}

func (c *cutter) set(off bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off = off
	if off {
		for _, x := range c.conns {
			x.Close()
		}
		c.conns = nil
	}
}

// move cuts all connections; what connects from now on reaches another address.
func (c *cutter) move(to string) {
	c.set(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off, c.to = false, to
}
