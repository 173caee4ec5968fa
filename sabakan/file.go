package sabakan

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"cke"
)

// maxBetween is the longest time between two reads that counts for how long a host is in its state. What it was in between is
// not known: the daemon may have been stopped, or the file away.
const maxBetween = time.Minute

// File is the inventory in a file, which has no times: how long a host is in its state is counted from read to read.
type File struct {
	// Within is how long one read of a URL may take; DefaultWithin.
	Within time.Duration
	// Roots are the certificates that a URL is trusted by; nil: those of the host.
	Roots *x509.CertPool

	at    string
	url   *url.URL // nil: it is a path
	parse func(file string, data []byte) ([]cke.Host, error)

	mu     sync.Mutex
	before map[string]cke.Host // of the last good read, at readAt; only the states and their times are used
	readAt time.Time
}

var _ cke.Inventory = (*File)(nil)

const wantFile = "want https://HOST/PATH, or a path"

// NewFile returns the inventory in a file at a path or at an https URL. parse reads its text and names its faults with their
// lines.
func NewFile(at string, parse func(file string, data []byte) ([]cke.Host, error)) (*File, error) {
	f := &File{Within: DefaultWithin, at: at, parse: parse}
	if !strings.Contains(at, "://") {
		if at == "" {
			return nil, fmt.Errorf("no path of an inventory file is given")
		}
		return f, nil
	}
	u, err := url.Parse(at)
	switch {
	case err != nil:
		return nil, fmt.Errorf("invalid URL of an inventory file: %w: %s", errors.Unwrap(err), wantFile) // what it wraps has no password
	case u.Scheme != "https" || u.Host == "":
		return nil, fmt.Errorf("invalid URL of an inventory file %q: %s", u.Redacted(), wantFile)
	}
	f.at, f.url = u.Redacted(), u
	return f, nil
}

// String names the file, without a password.
func (f *File) String() string { return "inventory file " + f.at }

// Continue counts from what an earlier reader of the file knew of its hosts when it read it last.
func (f *File) Continue(readAt time.Time, hosts map[string]HostPast) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readAt, f.before = readAt, make(map[string]cke.Host, len(hosts))
	for id, h := range hosts {
		f.before[id] = cke.Host{State: h.State, For: time.Duration(h.Watched)}
	}
}

// Registered reads the file: it is all that the inventory has.
func (f *File) Registered(ctx context.Context, id string) (bool, error) {
	hosts, err := f.hosts(ctx)
	return slices.ContainsFunc(hosts, func(h cke.Host) bool { return h.ID == id }), err
}

// Hosts reads the file.
func (f *File) Hosts(ctx context.Context) (cke.HostList, error) {
	hosts, err := f.hosts(ctx)
	if err != nil {
		return cke.HostList{}, err
	}
	at := time.Now()
	f.count(hosts, at)
	return cke.HostList{Hosts: hosts, ReadAt: at}, nil
}

func (f *File) hosts(ctx context.Context) ([]cke.Host, error) {
	data, err := f.read(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f, err)
	}
	hosts, err := f.parse(f.at, data)
	if err != nil {
		return nil, err
	}
	if hosts, err = listed(hosts); err != nil {
		return nil, fmt.Errorf("%s: %w", f, err)
	}
	return hosts, nil
}

func (f *File) read(ctx context.Context) ([]byte, error) {
	if f.url == nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		file, err := os.Open(f.at)
		if err != nil {
			return nil, errors.Unwrap(err) // the path is known
		}
		defer file.Close()
		return readAll(file)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, f.Within, fmt.Errorf("no whole answer within %s: %w", f.Within, context.DeadlineExceeded))
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url.String(), nil)
	if err != nil {
		return nil, err
	}
	data, status, err := fetch(newHTTP(f.Roots), r)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err == nil && status != http.StatusOK:
		return nil, fmt.Errorf("it answers %d %s", status, http.StatusText(status))
	}
	return data, err
}

// count fills in how long each host is in its state.
func (f *File) count(hosts []cke.Host, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	since, before := min(max(at.Sub(f.readAt), 0), maxBetween), f.before
	f.readAt, f.before = at, map[string]cke.Host{}
	for i := range hosts {
		h := &hosts[i]
		if was, ok := before[h.ID]; ok && was.State == h.State {
			h.For = was.For + since
		}
		f.before[h.ID] = *h
	}
}
