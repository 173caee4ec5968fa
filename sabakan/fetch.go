package sabakan

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	// DefaultWithin is how long one read of an inventory may take.
	DefaultWithin = 5 * time.Second
	// maxAnswer bounds what is read of an inventory, in bytes: 1,000 machines of sabakan have 150 kB.
	maxAnswer = 32 << 20
)

// newHTTP returns a client that follows no redirect, and opens a connection for each request: a read that fails because the
// last connection is stale would be no news about the inventory. roots are trusted certificates; nil: those of the host.
func newHTTP(roots *x509.CertPool) *http.Client {
	return &http.Client{
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// fetch returns the body of a whole answer with its status.
func fetch(c *http.Client, r *http.Request) (body []byte, status int, err error) {
	answer, err := c.Do(r)
	if err != nil {
		return nil, 0, errors.Unwrap(err) // the URL is known
	}
	defer answer.Body.Close()
	if to := answer.Header.Get("Location"); answer.StatusCode/100 == 3 && to != "" {
		return nil, 0, fmt.Errorf("it redirects to %q, which is not followed: give the URL that answers", bounded(to))
	}
	body, err = readAll(answer.Body)
	return body, answer.StatusCode, err
}

// readAll reads up to maxAnswer.
func readAll(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %d bytes: %w", len(data), err)
	case len(data) > maxAnswer:
		return nil, fmt.Errorf("it is longer than %d MiB", maxAnswer>>20)
	}
	return data, nil
}

// bounded shortens text from elsewhere to what fits in a message.
func bounded(s string) string {
	const most = 200
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
