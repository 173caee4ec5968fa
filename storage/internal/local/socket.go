// Package local is what the embedded store and its clients on the same host share: the socket, and how etcd logs.
package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// SocketName is the store's socket in the data directory. The directory's mode keeps others out.
const SocketName = "store.sock"

// maxSocketPath is what fits into sockaddr_un with its closing zero. Source: unix(7).
const maxSocketPath = 107

// Listen listens in dir, in place of whatever a former process left there. The caller holds dir's lock.
func Listen(dir string) (net.Listener, error) {
	path := filepath.Join(dir, SocketName)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("replace the socket of a former process: %w", err)
	}
	var l *net.UnixListener
	err := withShortPath(dir, func(short string) (err error) {
		l, err = net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false) // by then the short path may name another directory
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// Dial connects to the socket in dir.
func Dial(ctx context.Context, dir string) (net.Conn, error) {
	var c net.Conn
	err := withShortPath(dir, func(short string) (err error) {
		c, err = new(net.Dialer).DialContext(ctx, "unix", short)
		return err
	})
	return c, err
}

// withShortPath calls f with a path of dir's socket that fits into a socket address: its own if that is short
// enough, else one through the open directory. The path is good during the call only.
func withShortPath(dir string, f func(path string) error) error {
	path := filepath.Join(dir, SocketName)
	if len(path) <= maxSocketPath {
		return f(path)
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return f(fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), SocketName))
}
