package sabakantest

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// network is a network of its own, with nothing but its loopback. What one thread does happens in it, and the programs that
// this thread starts.
type network struct {
	do    chan func()
	ended chan struct{}
}

// newNetwork makes a network, which takes the rights of root.
func newNetwork() (*network, error) {
	n, made := &network{make(chan func()), make(chan struct{})}, make(chan error)
	go func() {
		runtime.LockOSThread() // it is never unlocked: the thread ends with the network
		err := os.NewSyscallError("unshare", unix.Unshare(unix.CLONE_NEWNET))
		if err == nil {
			err = loopbackUp()
		}
		if made <- err; err != nil {
			return
		}
		for {
			select {
			case f := <-n.do:
				f()
			case <-n.ended:
				return
			}
		}
	}()
	if err := <-made; err != nil {
		return nil, fmt.Errorf("a network of its own: %w", err)
	}
	return n, nil
}

// in runs f in the network.
func (n *network) in(f func() error) error {
	done := make(chan error, 1)
	select {
	case n.do <- func() { done <- f() }:
		return <-done
	case <-n.ended:
		return net.ErrClosed
	}
}

// close ends the network once no program runs in it.
func (n *network) close() { close(n.ended) }

func loopbackUp() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(s)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	return os.NewSyscallError("ioctl SIOCSIFFLAGS", unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, lo))
}

// relay passes connections to a listener outside on to an address in the network, until the listener is closed.
func (n *network) relay(l net.Listener, address string) {
	for {
		from, err := l.Accept()
		if err != nil {
			return
		}
		var to net.Conn
		if err := n.in(func() (err error) {
			to, err = (&net.Dialer{}).DialContext(context.Background(), "tcp", address)
			return err
		}); err != nil {
			from.Close()
			continue
		}
		pass := func(to, from net.Conn) {
			io.Copy(to, from) // whichever side ends, both do
			to.Close()
			from.Close()
		}
		go pass(to, from)
		go pass(from, to)
	}
}
