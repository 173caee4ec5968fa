package sabakan

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"cke"
)

// Server is the inventory of a sabakan server.
type Server struct {
	// Within is how long one read may take; DefaultWithin. The server hangs while its own etcd does not answer.
	Within time.Duration
	url    *url.URL // of GraphQL
	http   *http.Client
}

var _ cke.Inventory = (*Server)(nil)

const wantURL = "want http://HOST:PORT or https://HOST:PORT"

// NewServer returns the inventory of the sabakan at a URL, such as http://10.0.0.1:10080.
func NewServer(base string) (*Server, error) {
	u, err := url.Parse(base)
	switch {
	case err != nil:
		return nil, fmt.Errorf("invalid URL of sabakan: %w: %s", errors.Unwrap(err), wantURL) // what it wraps has no password
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, fmt.Errorf("invalid URL of sabakan %q: %s", u.Redacted(), wantURL)
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("invalid URL of sabakan %q has ? or #: %s", u.Redacted(), wantURL)
	}
	u.Path = strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/graphql") + "/graphql"
	return &Server{Within: DefaultWithin, url: u, http: newHTTP(nil)}, nil
}

// query asks for all machines: one that a filter of the server leaves out could not be told from one that is not registered.
const query = `{ searchMachines { spec { serial labels { name value } rack role ipv4 registerDate retireDate bmc { bmcType } } status { state duration } } }`

// Hosts asks the server. Only status 200 with whole JSON, all that was asked for and no errors is an answer.
func (s *Server) Hosts(ctx context.Context) (cke.HostList, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.Within, fmt.Errorf("no whole answer within %s: %w", s.Within, context.DeadlineExceeded))
	defer cancel()
	list, err := s.hosts(ctx)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return cke.HostList{}, fmt.Errorf("sabakan at %s: %w", s.url.Redacted(), err)
	}
	return list, nil
}

func (s *Server) hosts(ctx context.Context) (cke.HostList, error) {
	ask, err := json.Marshal(map[string]string{"query": query})
	if err != nil {
		return cke.HostList{}, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url.String(), bytes.NewReader(ask))
	if err != nil {
		return cke.HostList{}, err
	}
	r.Header.Set("Content-Type", "application/json")
	body, status, err := fetch(s.http, r)
	if err != nil {
		return cke.HostList{}, err
	}
	hosts, err := parseAnswer(body, status)
	return cke.HostList{Hosts: hosts, ReadAt: time.Now()}, err
}
