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
	ctx, cancel := s.bound(ctx)
	defer cancel()
	list, err := s.hosts(ctx)
	if err != nil {
		return cke.HostList{}, s.failed(ctx, err)
	}
	return list, nil
}

// String names the server, without a password.
func (s *Server) String() string { return "sabakan at " + s.url.Redacted() }

func (s *Server) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, s.Within, fmt.Errorf("no whole answer within %s: %w", s.Within, context.DeadlineExceeded))
}

// failed says why a question got no answer.
func (s *Server) failed(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	return fmt.Errorf("%s: %w", s, err)
}

func (s *Server) hosts(ctx context.Context) (cke.HostList, error) {
	body, status, err := s.ask(ctx, map[string]any{"query": query})
	if err != nil {
		return cke.HostList{}, err
	}
	hosts, err := parseAnswer(body, status)
	return cke.HostList{Hosts: hosts, ReadAt: time.Now()}, err
}

// ask sends one question to GraphQL.
func (s *Server) ask(ctx context.Context, question map[string]any) (body []byte, status int, err error) {
	text, err := json.Marshal(question)
	if err != nil {
		return nil, 0, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url.String(), bytes.NewReader(text))
	if err != nil {
		return nil, 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	return fetch(s.http, r)
}

// queryOne asks for one machine.
const queryOne = `query one($serial: ID!) { machine(serial: $serial) { spec { serial } } }`

// Registered asks the server for one machine. Of one that it does not know it says only that it was not found.
func (s *Server) Registered(ctx context.Context, id string) (bool, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	body, status, err := s.ask(ctx, map[string]any{"query": queryOne, "variables": map[string]string{"serial": id}})
	is := false
	if err == nil {
		is, err = parseOne(body, status, id)
	}
	return is, s.failed(ctx, err)
}
