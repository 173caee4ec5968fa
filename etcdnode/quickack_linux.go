package etcdnode

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// ackAtOnce acknowledges what was received without the kernel's delay. sshd's answers come in small pieces, each
// waiting for the acknowledgement of the last: without this a first request stalls for 40 ms. The kernel falls back by
// itself, so it is called after each read. Source: tcp(7), TCP_QUICKACK.
func ackAtOnce(raw syscall.RawConn) {
	raw.Control(func(fd uintptr) {
		unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1)
	})
}
