package target

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// answerLimit bounds the wait for an answer after a connection was reset. What arrived before is there at once.
const answerLimit = 5 * time.Second

// readAnswers makes the client read the answer of a server that refuses an upload and closes the connection before it has all of it.
// net/http takes whichever it notices first: the answer, or that the rest cannot be sent.
func readAnswers(o *s3.Options) {
	if c, is := o.HTTPClient.(*awshttp.BuildableClient); is {
		o.HTTPClient = c.WithTransportOptions(func(t *http.Transport) {
			dial := t.DialContext
			t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				c, err := dial(ctx, network, address)
				if err != nil {
					return nil, err
				}
				over := make(chan struct{})
				return &answeredConn{Conn: c, over: over, end: sync.OnceFunc(func() { close(over) })}, nil
			}
		})
	}
}

// answeredConn reports that it was reset to its writer only after its reader has read what came before.
type answeredConn struct {
	net.Conn
	over chan struct{} // closed when nothing more is read
	end  func()
}

// Read implements net.Conn.
func (c *answeredConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		c.end()
	}
	return n, err
}

// Write implements net.Conn.
func (c *answeredConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		limit := time.NewTimer(answerLimit)
		defer limit.Stop()
		select {
		case <-c.over:
		case <-limit.C:
		}
	}
	return n, err
}

// Close implements net.Conn.
func (c *answeredConn) Close() error {
	c.end()
	return c.Conn.Close()
}
