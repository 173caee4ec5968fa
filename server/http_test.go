package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cke"
	"cke/server"
	"cke/server/strategy"
)

// ask sends one request to the API and returns code and body.
func ask(a server.API, method, path string) (int, string) {
	w := httptest.NewRecorder()
	a.Handler().ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w.Code, w.Body.String()
}

func TestAPI_AnswersWhatIsAskedAndNothingElse(t *testing.T) {
	told := []cke.Status{strategy.Report(formed(3).Input, strategy.Decide(formed(3).Input), cke.Status{})}
	a := server.API{
		Version: "1.2.3", Metrics: server.NewMetrics("1.2.3"),
		Health:   func(context.Context) server.Health { return server.Health{Status: "ok"} },
		Statuses: func(context.Context) ([]cke.Status, error) { return told, nil },
	}
	for _, tt := range []struct {
		method, path string
		code         int
		body         string
	}{
		{"GET", "/health", 200, `"status": "ok"`},
		{"GET", "/version", 200, `"version": "1.2.3"`},
		{"GET", "/status", 200, `"health": "READY"`},
		{"GET", "/metrics", 200, ""},
		{"POST", "/status", 405, ""},
		{"DELETE", "/health", 405, ""},
		{"GET", "/", 404, ""},
		{"GET", "/debug/pprof/", 404, ""},
	} {
		code, body := ask(a, tt.method, tt.path)
		if code != tt.code || !strings.Contains(body, tt.body) {
			t.Errorf("%s %s: %d\n%s", tt.method, tt.path, code, body)
		}
	}
	_, body := ask(a, "GET", "/status")
	var got struct{ Clusters []cke.Status }
	if err := json.Unmarshal([]byte(body), &got); err != nil || !cmp.Equal(got.Clusters, told) {
		t.Errorf("%v\n%s", err, cmp.Diff(told, got.Clusters))
	}
	told = []cke.Status{}
	if _, body := ask(a, "GET", "/status"); !strings.Contains(body, `"clusters": []`) {
		t.Errorf("without a cluster: %s", body)
	}
}

func TestAPI_SaysWhatItWaitsFor(t *testing.T) {
	a := server.API{
		Health: func(context.Context) server.Health {
			return server.Health{Status: "waiting", Waiting: "a key", Code: cke.CodeSecret}
		},
		Statuses: func(context.Context) ([]cke.Status, error) { return nil, errors.New("the store is not open") },
	}
	code, body := ask(a, "GET", "/health")
	var h server.Health
	if err := json.Unmarshal([]byte(body), &h); code != http.StatusServiceUnavailable || err != nil || h != a.Health(t.Context()) {
		t.Errorf("%d %s, %v", code, body, err)
	}
	if code, body := ask(a, "GET", "/status"); code != http.StatusServiceUnavailable || !strings.Contains(body, "the store is not open") {
		t.Errorf("%d %s", code, body)
	}
}

func TestAPI_BoundsWhatItAsksOfTheStore(t *testing.T) {
	a := server.API{
		Health: func(ctx context.Context) server.Health {
			_, bounded := ctx.Deadline()
			return server.Health{Status: map[bool]string{true: "ok", false: "waiting"}[bounded]}
		},
		Statuses: func(ctx context.Context) ([]cke.Status, error) {
			if end, bounded := ctx.Deadline(); !bounded || time.Until(end) > 5*time.Second {
				return nil, errors.New("unbounded")
			}
			return nil, nil
		},
	}
	for _, path := range []string{"/health", "/status"} {
		if code, body := ask(a, "GET", path); code != 200 {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}
