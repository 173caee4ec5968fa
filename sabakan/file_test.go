package sabakan_test

import (
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cke"
	"cke/clusterfile"
	"cke/sabakan"
)

func writeHosts(t *testing.T, path, hosts string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("hosts: ["+hosts+"]"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func newFile(t *testing.T, at string) *sabakan.File {
	t.Helper()
	f, err := sabakan.NewFile(at, clusterfile.ParseHosts)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// A file has no times: they are counted while cke reads it, and start again with each state.
func TestFile_CountsTimeFromReadToRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "hosts.yml")
		f, minute := newFile(t, path), time.Minute
		in := func(state string) time.Duration {
			t.Helper()
			if state != "" {
				writeHosts(t, path, "{id: a, address: 10.0.0.1, state: "+state+"}, {id: b, address: 10.0.0.2}")
			}
			list, err := f.Hosts(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return list.Hosts[0].For
		}
		for _, step := range []struct {
			name  string
			state string // empty: it stays
			after time.Duration
			want  time.Duration
		}{
			{"the first read knows no time before", "unreachable", 0, 0},
			{"the time since the last read counts", "", 30 * time.Second, 30 * time.Second},
			{"and adds up", "", 30 * time.Second, minute},
			{"of a long pause only a minute counts", "", 24 * time.Hour, 2 * minute},
			{"another state starts from the start", "healthy", 30 * time.Second, 0},
			{"and it counts again", "", 30 * time.Second, 30 * time.Second},
			{"back in the former state it starts from the start", "unreachable", 30 * time.Second, 0},
		} {
			time.Sleep(step.after) // of the bubble's clock
			if got := in(step.state); got != step.want {
				t.Errorf("%s: %s, want %s", step.name, got, step.want)
			}
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		if _, err := f.Hosts(t.Context()); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v", err)
		}
		time.Sleep(20 * time.Second)
		if got := in("unreachable"); got != 40*time.Second {
			t.Errorf("after a failed read: %s, want 40s", got)
		}
		writeHosts(t, path, "{id: b, address: 10.0.0.2}")
		if _, err := f.Hosts(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		if got := in("unreachable"); got != 0 {
			t.Errorf("of a machine that was not listed in between: %s, want 0", got)
		}
	})
}

// The file is named once.
func TestFile_AFaultHasItsFileAndLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts.yml")
	if err := os.WriteFile(path, []byte("hosts:\n  - {id: a, address: 10.0.0.1}\n  - {id: b, address: 10.0.0.1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := newFile(t, path).Hosts(t.Context())
	if err == nil || cke.CodeOf(err) != cke.CodeConfig || strings.Count(err.Error(), path) != 1 ||
		!strings.Contains(err.Error(), "line 3: hosts[1].address: address 10.0.0.1 is given twice, first at hosts[0].address in line 2") {
		t.Errorf("got %v", err)
	}
}

func TestFile_OnlyAWholeAnswerOfAURLIsOne(t *testing.T) {
	const good = "hosts: [{id: a, address: 10.0.0.1}]"
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		says   string
	}{
		{"not there", answers(404, good), "it answers 404 Not Found"},
		{"no content", answers(204, ""), "it answers 204 No Content"},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/login", http.StatusFound) }, `it redirects to "/login"`},
		{"a page", answers(200, "<html>welcome</html>"), "want keys and values"},
		{"nothing", answers(200, ""), "is empty"},
		{"cut", answers(200, `{"hosts": [{"id": "a", "address": "10.0.`), "invalid YAML"},
		{"endless", drip(strings.Repeat(" ", 1<<16), 0), "longer than 32 MiB"},
		{"slow", drip(" ", 10*time.Millisecond), "no whole answer within 100ms"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := httptest.NewTLSServer(c.answer)
			defer s.Close()
			f := newFile(t, s.URL+"/hosts.yml")
			f.Roots, f.Within = s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, time.Minute
			if c.name == "slow" {
				f.Within = 100 * time.Millisecond
			}
			if _, err := f.Hosts(t.Context()); err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), s.URL) {
				t.Errorf("got %v, want %q", err, c.says)
			}
		})
	}
	s := httptest.NewTLSServer(answers(200, good))
	defer s.Close()
	if _, err := newFile(t, s.URL).Hosts(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("of a server that is not trusted: %v", err)
	}
}

func TestNewFile_TakesAPathOrAnHTTPSURL(t *testing.T) {
	for at, says := range map[string]string{
		"":                          "no path",
		"http://10.0.0.1/hosts.yml": "want https://HOST/PATH",
		"file:///etc/cke/hosts.yml": "want https://HOST/PATH",
		"https://":                  "want https://HOST/PATH",
		"https://u:secret@h:x/":     "invalid port",
	} {
		if _, err := sabakan.NewFile(at, clusterfile.ParseHosts); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", at, err)
		}
	}
}
