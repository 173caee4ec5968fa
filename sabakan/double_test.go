package sabakan_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/sabakan"
)

// Two machines, as sabakan answers.
const (
	machineA = `{"spec":{"serial":"a","labels":null,"rack":1,"role":"cs","ipv4":["10.69.0.68"],"registerDate":"2026-01-01T00:00:00.1Z","retireDate":"2026-01-01T00:00:00.1Z","bmc":{"bmcType":"IPMI-2.0"}},"status":{"state":"HEALTHY","duration":90.5}}`
	machineB = `{"spec":{"serial":"b","labels":[{"name":"x","value":"y"}],"rack":2,"role":"cs","ipv4":["10.69.0.132"],"registerDate":"2026-01-01T00:00:00Z","retireDate":"2031-01-01T00:00:00Z","bmc":{"bmcType":"IPMI-2.0"}},"status":{"state":"UPDATING","duration":5}}`
	both     = `{"data":{"searchMachines":[` + machineA + `,` + machineB + `]}}`
)

// double answers as no sabakan does. The first POST is checked against what sabakan takes.
func double(t *testing.T, answer http.HandlerFunc) *sabakan.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ask, _ := io.ReadAll(r.Body)
		if r.Method != http.MethodPost || r.URL.Path != "/graphql" || r.Header.Get("Content-Type") != "application/json" || !bytes.Contains(ask, []byte(`{ searchMachines {`)) {
			t.Errorf("%s %s: %s", r.Method, r.URL, ask)
		}
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	source, err := sabakan.NewServer(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return source
}

func answers(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// with is the answer of both machines with a part of it replaced.
func with(old, new string) http.HandlerFunc {
	if !strings.Contains(both, old) {
		panic(old)
	}
	return answers(http.StatusOK, strings.Replace(both, old, new, 1))
}

func TestServer_OnlyAWholeAndSoundAnswerIsOne(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		says   string
	}{
		{"errors beside data", answers(200, strings.Replace(both, "{", `{"errors":[{"message":"etcdserver: request timed out"}],`, 1)), `with the error "etcdserver: request timed out"`},
		{"a wrong query", answers(422, `{"errors":[{"message":"Cannot query field \"rank\""}],"data":null}`), `it answers 422 with the error "Cannot query field`},
		{"an error without a body", answers(500, ""), "it answers 500 Internal Server Error"},
		{"an error with data", answers(503, both), "it answers 503"},
		{"another good status", answers(206, both), "it answers 206"},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/login", http.StatusFound) }, `it redirects to "/login"`},
		{"no body", answers(200, ""), "not whole JSON"},
		{"garbage", answers(200, "<html>welcome</html>"), "not whole JSON"},
		{"cut JSON", answers(200, both[:len(both)-10]), "not whole JSON"},
		{"more behind the JSON", answers(200, both+both), "not whole JSON"},
		{"an answer of another kind", answers(200, `{"status":"ok"}`), "no searchMachines"},
		{"no list", answers(200, `{"data":{"searchMachines":null}}`), "no searchMachines"},
		{"less than announced", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(both)+1))
			io.WriteString(w, both)
		}, "unexpected EOF"},
		{"an empty machine", with(machineB, "null"), "machine 2 of 2 in its answer: it has no serial"},
		{"no serial", with(`"serial":"b",`, ""), "machine 2 of 2 in its answer: it has no serial"},
		{"no addresses", with(`"ipv4":["10.69.0.132"],`, ""), "b has no ipv4"},
		{"no rack", with(`"rack":2,`, ""), "b has no rack"},
		{"no state", with(`"state":"UPDATING",`, ""), "b has no state"},
		{"no duration", with(`,"duration":5`, ""), "b has no duration"},
		{"no status", with(`,"status":{"state":"UPDATING","duration":5}`, ""), "b has no status"},
		{"no retire date", with(`"retireDate":"2031-01-01T00:00:00Z",`, ""), "b has no retireDate"},
		{"an address that is none", with("10.69.0.132", "10.69.0.300"), `b has the address "10.69.0.300"`},
		{"a serial that drives a terminal", with(`"serial":"b"`, `"serial":"b\u001b[2J"`), `the serial "b\x1b[2J"`},
		{"two machines with one serial", with(`"serial":"b"`, `"serial":"a"`), "two machines have the serial a; their addresses: 10.69.0.68, and 10.69.0.132"},
		{"two machines with one address", with("10.69.0.132", "10.69.0.68"), "two machines have the address 10.69.0.68: a and b"},
		{"one address written in two ways", with("10.69.0.132", "::ffff:10.69.0.68"), "two machines have the address 10.69.0.68: a and b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			source := double(t, c.answer)
			list, err := source.Hosts(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), "sabakan at http://127.0.0.1:") {
				t.Errorf("got %v, want %q", err, c.says)
			}
			if len(list.Hosts) > 0 {
				t.Errorf("got %+v", list)
			}
		})
	}
}

// What sabakan means otherwise than it says.
func TestServer_ReadsWhatSabakanMeans(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		right  func(a, b cke.Host) bool
	}{
		{"as it is", answers(200, both), func(a, b cke.Host) bool {
			return a.State == cke.HostHealthy && a.For == 90*time.Second+500*time.Millisecond && a.Labels == nil && b.State == cke.HostMaintenance && b.Labels["x"] == "y"
		}},
		{"a retire date that is the registration's was never set", answers(200, both), func(a, b cke.Host) bool {
			return a.RetireDate.IsZero() && b.RetireDate.Year() == 2031
		}},
		{"another clock is a little ahead", with(`"duration":90.5`, `"duration":-0.25`), func(a, _ cke.Host) bool { return a.For == 0 }},
		{"longer than can be counted", with(`"duration":90.5`, `"duration":1e300`), func(a, _ cke.Host) bool { return a.For > 100*365*24*time.Hour }},
		{"no address", with(`"10.69.0.68"`, ""), func(a, _ cke.Host) bool { return len(a.Addresses) == 0 }},
		{"an address that sabakan cannot read", with(`10.69.0.68"`, `<nil>","10.69.0.70"`), func(a, _ cke.Host) bool {
			return len(a.Addresses) == 1 && a.Addresses[0] == "10.69.0.70"
		}},
		{"two machines without an address", answers(200, strings.NewReplacer("10.69.0.68", "<nil>", "10.69.0.132", "<nil>").Replace(both)), func(a, b cke.Host) bool {
			return len(a.Addresses)+len(b.Addresses) == 0
		}},
		{"a state of a later sabakan", with("HEALTHY", "SLEEPING"), func(a, _ cke.Host) bool { return a.State == cke.HostUnknown }},
		{"a list of no errors", answers(200, strings.Replace(both, "{", `{"errors":[],`, 1)), func(a, _ cke.Host) bool { return a.ID == "a" }},
		{"another order", answers(200, `{"data":{"searchMachines":[`+machineB+`,`+machineA+`]}}`), func(a, b cke.Host) bool { return a.ID == "a" && b.ID == "b" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			list, err := double(t, c.answer).Hosts(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if len(list.Hosts) != 2 || !c.right(list.Hosts[0], list.Hosts[1]) {
				t.Errorf("got %+v", list.Hosts)
			}
		})
	}
}

// drip writes the same bytes until the client is gone.
func drip(some string, every time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for tick := time.NewTicker(max(every, 1)); r.Context().Err() == nil; {
			if _, err := io.WriteString(w, some); err != nil {
				return
			}
			if every > 0 {
				w.(http.Flusher).Flush()
				<-tick.C
			}
		}
	}
}

func TestServer_AnAnswerHasABoundAndADeadline(t *testing.T) {
	endless := double(t, drip(strings.Repeat(" ", 1<<16), 0))
	endless.Within = time.Minute
	if _, err := endless.Hosts(t.Context()); err == nil || !strings.Contains(err.Error(), "longer than 32 MiB") {
		t.Errorf("endless: %v", err)
	}
	slow := double(t, drip(" ", 10*time.Millisecond))
	slow.Within = 100 * time.Millisecond
	if _, err := slow.Hosts(t.Context()); err == nil || !strings.Contains(err.Error(), "no whole answer within 100ms") {
		t.Errorf("slow: %v", err)
	}
}

func TestNewServer_TakesTheURLOfAServer(t *testing.T) {
	for _, base := range []string{"", "10.0.0.1:10080", "ftp://10.0.0.1", "http://", "http://10.0.0.1?x=y", "http://10.0.0.1#x", "http://10.0.0.1:x"} {
		if _, err := sabakan.NewServer(base); err == nil || !strings.Contains(err.Error(), "URL of sabakan") {
			t.Errorf("%q: %v", base, err)
		}
	}
	asked := make(chan string, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { asked <- r.URL.Path; io.WriteString(w, both) }))
	defer s.Close()
	for path, want := range map[string]string{"": "/graphql", "/": "/graphql", "/graphql": "/graphql", "/graphql/": "/graphql", "/sabakan/": "/sabakan/graphql"} {
		source, err := sabakan.NewServer(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := source.Hosts(t.Context()); err != nil {
			t.Error(err)
		}
		if got := <-asked; got != want {
			t.Errorf("%q: asked %s, want %s", path, got, want)
		}
	}
}

func TestServer_AMessageHasNoPassword(t *testing.T) {
	for _, base := range []string{"http://ops:secret@10.0.0.1:x", "ftp://ops:secret@10.0.0.1", "http://ops:secret@10.0.0.1?x"} {
		if _, err := sabakan.NewServer(base); err == nil || strings.Contains(err.Error(), "secret") {
			t.Error(err)
		}
	}
	source, err := sabakan.NewServer("http://ops:secret@127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err = source.Hosts(t.Context()); err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Error(err)
	}
}
