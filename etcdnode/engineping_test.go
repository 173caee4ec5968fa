package etcdnode

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"cke"
)

// A ping waits behind what an engine is sent: while it takes a long request it does not hang. What is only on its way to an engine
// that takes nothing proves nothing.
func TestHangs_NotWhileTheEngineTakesWhatItIsSent(t *testing.T) {
	for name, tt := range map[string]struct {
		size  int
		hangs bool
	}{
		"a long request":  {2 * inTransit, false},
		"a short request": {1 << 10, true},
	} {
		ours, theirs := net.Pipe()
		d, err := newDocker(func(context.Context) (net.Conn, error) { return ours, nil }, func() error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.Copy(io.Discard, theirs) }() // it takes all, and answers nothing
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://engine/", bytes.NewReader(make([]byte, tt.size)))
		if err != nil {
			t.Fatal(err)
		}
		s := &session{node: cke.Node{Hostname: "n1"}, engine: d, pinged: time.Now().Add(-2 * allowed(hangAfter))}
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			if resp, err := d.transport.RoundTrip(withConn(r, func(*fencedConn) {})); err == nil {
				resp.Body.Close()
			}
		}()
		time.AfterFunc(time.Second, func() { theirs.Close() })
		<-sent
		if _, hangs := s.hangs(); hangs != tt.hangs {
			t.Errorf("%s: hangs %v", name, hangs)
		}
		d.heardAt.Store(time.Now().Add(-2 * allowed(hangAfter)).UnixNano())
		if _, hangs := s.hangs(); !hangs {
			t.Errorf("%s: it took the last part long ago, and does not hang", name)
		}
	}
}
