package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// lastWords end what a terminal shows.
const lastWords = "\x04end"

// terminal is a pseudo-terminal with a person before it.
type terminal struct {
	*command
	keyboard *os.File
}

// onTerminal runs ckecli on a pseudo-terminal of 100 columns and 30 rows. What it writes, and what the terminal echoes,
// is in stdout.
func (h *house) onTerminal(args ...string) *terminal {
	h.t.Helper()
	master, slave := openPTY(h.t)
	ctx, cancel := context.WithCancel(context.Background())
	c := &command{t: h.t, stdout: newScreenText(), stderr: newScreenText(), cancel: cancel, ended: make(chan struct{})}
	a := newApp(slave, slave, slave, func(name string) string { return h.env[name] }, h.now, openStore)
	read := make(chan struct{})
	go func() {
		defer close(read)
		b := make([]byte, 4096)
		for {
			n, err := master.Read(b)
			text, last := bytes.CutSuffix(b[:n], []byte(lastWords))
			c.stdout.Write(text)
			if last || err != nil {
				return
			}
		}
	}()
	go func() {
		defer close(c.ended)
		c.code = a.run(ctx, append([]string{"--config", h.config}, args...))
		slave.WriteString(lastWords) // a close would wait for a read of the keyboard that is under way
		<-read
	}()
	h.t.Cleanup(func() { cancel(); <-c.ended; master.Close(); slave.Close() })
	return &terminal{c, master}
}

func (t *terminal) types(text string) {
	t.t.Helper()
	if _, err := t.keyboard.WriteString(text); err != nil {
		t.t.Fatal(err)
	}
}

// openPTY opens both ends of a pseudo-terminal. Source: pts(4).
func openPTY(t testing.TB) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo-terminal here:", err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 30, Col: 100}); err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}
