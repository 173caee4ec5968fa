package target_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"cke/backup"
	"cke/backup/target"
)

// abruptS3 refuses what is uploaded while it is still sent, and resets the connection, as servers do that do not wait for the rest.
func abruptS3(t *testing.T, answer string) (b *target.Target, uploads *atomic.Int32) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	uploads = &atomic.Int32{}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			uploads.Add(1)
			go refuseAbruptly(c, answer)
		}
	}()
	b, err = target.Open(t.Context(), "s3://b/some?endpoint=http://"+l.Addr().String()+"&path_style=true",
		target.Credentials{AccessKey: "a", SecretKey: "b"})
	if err != nil {
		t.Fatal(err)
	}
	return b, uploads
}

func refuseAbruptly(c net.Conn, answer string) {
	defer c.Close() // with unread bytes, this resets the connection
	r, err := http.ReadRequest(bufio.NewReaderSize(c, 4<<10))
	if err != nil {
		return
	}
	io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n")
	io.CopyN(io.Discard, r.Body, 1<<20)
	io.WriteString(c, answer)
}

// The answer of a store counts, and not that it closes the connection in the middle of an upload.
func TestCreate_HearsAStoreThatRefusesInTheMiddleOfAnUpload(t *testing.T) {
	for _, c := range []struct{ status, code string }{
		{"412 Precondition Failed", "PreconditionFailed"}, {"403 Forbidden", "QuotaExceeded"},
	} {
		body := "<Error><Code>" + c.code + "</Code></Error>"
		b, uploads := abruptS3(t, fmt.Sprintf("HTTP/1.1 %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", c.status, len(body), body))
		const times = 10
		for i := range times {
			err := b.Create(t.Context(), fmt.Sprint(i), backup.Content{Head: bytes.Repeat([]byte("x"), 17<<20), Unasked: true, Whole: true})
			switch {
			case c.code == "PreconditionFailed" && !errors.Is(err, backup.ErrExists), err == nil,
				c.code != "PreconditionFailed" && !strings.Contains(err.Error(), c.code):
				t.Errorf("%s: %v", c.status, err)
			}
		}
		if n := uploads.Load(); n != times {
			t.Errorf("%s: %d uploads are sent %d times", c.status, times, n)
		}
	}
}
