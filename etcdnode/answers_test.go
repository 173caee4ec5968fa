package etcdnode

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"cke"
)

// Bodies that no engine should send.
var strangeBodies = []string{
	"", "null", "[null]", "[]", "{}", `"text"`, "5", "[[]]", `{"Id":5}`, `{"Volumes":[null]}`, `{"Volumes":[{}]}`, `{"Volumes":{"a":1}}`,
	`[{"Id":"x","Names":null,"Labels":null}]`, `[{"Id":null}]`, `{"Id":"c1","State":null,"Config":null,"HostConfig":null}`, `{"Id":"c1","State":{},"Config":{},"HostConfig":{},"Mounts":[null]}`,
	`{"Id":"c1","State":{"Status":5}}`, `{"StatusCode":"zero"}`, `{"Error":{"Message":null}}`, "{", `{"Volumes":[{"Na`, "<html>", "\x01\x00\x00\x00\xff\xff\xff\xffx", "\x07\x00\x00\x00\x00\x00\x00\x01x", strings.Repeat("[", 20000),
}

// Each request that cke makes to an engine is answered with each of them: the node has a problem, or the operation fails, and
// nothing else happens.
func TestAnswers_NoneOfAnEngineEndsMoreThanTheCall(t *testing.T) {
	t.Parallel()
	node := newFakeNode(t, "127.0.31.1", "ed25519", "ed25519")
	fleet := fleetOf(t, newMemoryHostKeys(), nil, node)
	m := fleet.Machine(node.node)
	var asked []string
	for _, a := range engineActs(node.node) {
		right := map[string]string{"GET /containers/json": "[]", "GET /volumes": `{"Volumes":[]}`}
		for i := 0; i < len(a.answers); i += 2 {
			right[a.answers[i]] = a.answers[i+1]
		}
		node.engine.mu.Lock()
		node.engine.answers, node.engine.requests = right, nil
		node.engine.mu.Unlock()
		_ = a.call(t.Context(), fleet, m)
		node.engine.mu.Lock()
		asked = slices.Clone(node.engine.requests)
		node.engine.mu.Unlock()
		slices.Sort(asked)
		for _, request := range slices.Compact(asked) {
			for i, body := range strangeBodies {
				if testing.Short() && (i+len(request))%3 > 0 {
					continue
				}
				wrong := map[string]string{request: body}
				for r, b := range right {
					if r != request {
						wrong[r] = b
					}
				}
				node.engine.mu.Lock()
				node.engine.answers = wrong
				node.engine.mu.Unlock()
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				if err := a.call(ctx, fleet, m); err != nil && ctx.Err() != nil {
					t.Errorf("%s: %s answered with %.40q: %v", a.method, request, body, err)
				}
				cancel()
			}
		}
	}
}

// Lists that are short and become gigabytes.
var (
	manyContainers = "[" + strings.Repeat("{},", engineElementLimit) + "{}]"
	manyVolumes    = `{"Volumes":[` + strings.Repeat("null,", engineElementLimit) + "null]}"
)

// What the list of a node's containers or volumes cannot be read from is a problem of that node; another one is seen.
func TestAnswers_AFaultyListIsAProblemOfThatNodeAlone(t *testing.T) {
	t.Parallel()
	node, other := newFakeNode(t, "127.0.31.2", "ed25519", "ed25519"), newFakeNode(t, "127.0.31.3", "ed25519", "ed25519")
	fleet := fleetOf(t, newMemoryHostKeys(), nil, node, other)
	fleet.Update(clusterOf(node, other), cke.Identity{})
	for _, test := range []struct{ request, body string }{
		{"GET /volumes", `{"Volumes":[null]}`}, {"GET /volumes", `{"Volumes":[{}]}`}, {"GET /volumes", `{"Volumes":5}`}, {"GET /volumes", endless}, {"GET /volumes", manyVolumes},
		{"GET /containers/json", `[null]`}, {"GET /containers/json", `{"a":1}`}, {"GET /containers/json", endless}, {"GET /containers/json", manyContainers},
	} {
		node.engine.answer("GET /volumes", `{"Volumes":[]}`)
		node.engine.answer("GET /containers/json", "[]")
		awaitProblem(t, fleet, "", patience)
		node.engine.answer(test.request, test.body)
		p := awaitProblemBy(t, fleet, cke.CodeAnswer)
		if !strings.Contains(p.Message, node.node.Name()) || test.body == endless && !strings.Contains(p.Message, "larger than 16MiB") || len(test.body) > engineElementLimit && !strings.Contains(p.Message, "more than 100000 elements") {
			t.Errorf("%s %.20q: %.200s", test.request, test.body, p.Message)
		}
		if n := fleet.Observe(t.Context()).Nodes[1]; n.Problem != nil {
			t.Errorf("the other node: %+v", n.Problem)
		}
	}
}

// awaitProblemBy observes until the first node has a problem with this code: a fake engine tells nobody that its answers are others.
func awaitProblemBy(t *testing.T, f *Fleet, code cke.Code) *cke.Problem {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if p := problemNow(t, f); p != nil && p.Code == code {
			return p
		}
	}
	t.Fatalf("no problem %s", code)
	return nil
}

// A fault in cke itself, while it works on one node, is told of that node and logged once.
func TestAnswers_APanicIsAProblemOfOneNodeAndIsLoggedOnce(t *testing.T) {
	t.Parallel()
	node, other := newFakeNode(t, "127.0.31.4", "ed25519", "ed25519"), newFakeNode(t, "127.0.31.5", "ed25519", "ed25519")
	var log bytes.Buffer
	fleet := fleetOf(t, newMemoryHostKeys(), func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) }, node, other)
	m := fleet.Machine(node.node).(machine)
	for range 3 {
		err := m.read(t.Context(), engineLimit, "play", func(context.Context, *session) error {
			var nobody *cke.Volume
			_ = nobody.Name
			return nil
		})
		if cke.CodeOf(err) != cke.CodeAnswer || !strings.Contains(err.Error(), node.node.Name()) {
			t.Errorf("%v", err)
		}
	}
	if n := strings.Count(log.String(), "panic while working on one node"); n != 1 || !strings.Contains(log.String(), "answers_test.go") {
		t.Errorf("logged %d times: %s", n, log.String())
	}
	if err := m.read(t.Context(), engineLimit, "play", func(context.Context, *session) error { return nil }); err != nil {
		t.Error("the node is lost:", err)
	}
	if _, err := fleet.Machine(other.node).Clock(t.Context()); err != nil && !strings.Contains(err.Error(), "time") {
		t.Error(err)
	}
}

func TestAnswers_AreBoundedByWhatTheyAre(t *testing.T) {
	line := strings.Repeat("x", engineLineLimit-1) + "\n"
	many := strings.Repeat("[]{},", engineElementLimit)
	for _, test := range []struct {
		path, body string
		fits       bool
	}{
		{"/v1.41/volumes", strings.Repeat("x", engineAnswerLimit), true},
		{"/v1.41/volumes", strings.Repeat("x", engineAnswerLimit+1), false},
		{"/v1.41/containers/json", manyContainers, false},
		{"/v1.41/containers/json", "[" + strings.Repeat("null,", engineElementLimit-1) + "null]", true},
		{"/v1.41/volumes", manyVolumes, false},
		{"/v1.41/containers/c1/json", `{"Config":{"Env":[],"Labels":{}},"Mounts":[` + strings.Repeat("null,", engineElementLimit) + "null]}", false},
		{"/v1.41/containers/c1/json", `{"Config":{` + strings.Repeat(`"a":"",`, engineFieldLimit+1) + `"a":""}}`, false},
		{"/v1.41/containers/c1/json", `{"a\\\"` + many + `":"` + many + `\\","b":[{}]}`, true},
		{"/v1.41/events", strings.Repeat(line, 20), true},
		{"/v1.41/events", line + strings.Repeat("x", engineLineLimit+1), false},
		{"/v1.41/images/create", strings.Repeat("x", engineLineLimit+1), false},
		{"/v1.41/containers/c1/archive", strings.Repeat("x", engineAnswerLimit+1), true},
		{"/v1.41/containers/c1/logs", strings.Repeat("x", engineAnswerLimit+1), true},
	} {
		r := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: test.path}}
		_, err := io.Copy(io.Discard, bounded(r, io.NopCloser(iotest.HalfReader(strings.NewReader(test.body)))))
		if (err == nil) != test.fits || err != nil && !(unusable(err) && strings.Contains(err.Error(), test.path)) {
			t.Errorf("%s with %d bytes, %.20q: %v", test.path, len(test.body), test.body, err)
		}
	}
}

func TestFrames_AreReadInPartsWhateverTheySay(t *testing.T) {
	frame := func(stream byte, size int, content string) []byte {
		head := [8]byte{stream}
		binary.BigEndian.PutUint32(head[4:], uint32(size))
		return append(head[:], content...)
	}
	for _, test := range []struct {
		log      []byte
		out, err string
		faulty   bool
	}{
		{log: slices.Concat(frame(1, 3, "one"), frame(2, 3, "two"), frame(1, 0, ""), frame(0, 5, "three")), out: "onethree", err: "two"},
		{log: frame(1, 1<<32-1, "cut off"), out: "cut off"},
		{log: append(frame(1, 3, "one"), 1, 0, 0), out: "one"},
		{log: frame(9, 1, "x"), faulty: true},
	} {
		var stdout, stderr bytes.Buffer
		err := frames(&stdout, &stderr, bytes.NewReader(test.log))
		if (err != nil) != test.faulty || stdout.String() != test.out || stderr.String() != test.err {
			t.Errorf("%q: %q, %q, %v", test.log, stdout.String(), stderr.String(), err)
		}
	}
}

// A member's answers are bounded, too.
func TestAnswers_OfAMemberAreBounded(t *testing.T) {
	t.Parallel()
	ca := NewTestCA(t)
	member, f := newFakeEtcd(t, ca.TLS("server", "127.0.0.1")), etcdFleet(t, ca)
	member.set(func() { member.status.Version = strings.Repeat("x", memberAnswerLimit) })
	if s := f.Endpoint(t.Context(), member.url()); !strings.Contains(s.Problem, fmt.Sprint(memberAnswerLimit)) || s.Version != "" {
		t.Errorf("%.200q", s.Problem)
	}
	member.set(func() { member.members = nil; member.status.Version = "3.6.16"; member.status.Header = nil })
	if s := f.Endpoint(t.Context(), member.url()); s.Problem != "" {
		t.Error(s.Problem)
	}
	member.set(func() { member.health = make([]byte, memberAnswerLimit+1) }) // a client's own key of that name
	if s := f.Endpoint(t.Context(), member.url()); s.Problem != "" || !s.Linearizable {
		t.Errorf("with a large key: %+v", s)
	}
	member.set(func() {
		for range 200_000 { // two bytes each
			member.members = append(member.members, &pb.Member{})
		}
	})
	if _, members, err := f.Members(t.Context(), member.url()); err == nil || !strings.Contains(err.Error(), fmt.Sprint(memberAnswerLimit)) {
		t.Errorf("%d members: %v", len(members), err)
	}
	err := f.callWithin(t.Context(), proposalLimit, member.url(), "play", nil)
	if cke.CodeOf(err) != cke.CodeAnswer || errors.Is(err, cke.ErrDeposed) {
		t.Error(err)
	}
}

// What an engine says when it refuses becomes part of records and of the status, of which the store takes 1.5 MiB.
func TestExplain_BoundsWhatAnEngineSays(t *testing.T) {
	t.Parallel()
	node := newFakeNode(t, "127.0.61.7", "ed25519", "ed25519")
	node.engine.answer("GET /containers/json", "500 "+strings.Repeat("no ", 300_000))
	fleet := fleetOf(t, newMemoryHostKeys(), nil, node)
	fleet.Update(clusterOf(node), cke.Identity{})
	if n := len(awaitProblemBy(t, fleet, cke.CodeInternal).Message); n > 2*mostSaid {
		t.Errorf("the problem of a node has %d bytes", n)
	}
}
