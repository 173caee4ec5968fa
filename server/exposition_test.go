package server

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cke"
)

// A scrape has each metric once, with the series of all clusters in one group, as Prometheus requires.
func TestMetrics_AreWrittenInGroups(t *testing.T) {
	m := NewMetrics("1.2.3")
	start := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, cluster := range []string{"two", "one"} {
		m.leads(cluster, true)
		m.operated(cluster, cke.Record{Operation: "bootstrap", State: cke.RecordCompleted, StartedAt: start, EndedAt: start.Add(150 * time.Millisecond)})
	}
	m.operated("one", cke.Record{Operation: "a \"b\"\n\\\xff", State: cke.RecordFailed, StartedAt: start, EndedAt: start.Add(time.Hour)})
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	plain := w.Body.String()
	_, text, _ := strings.Cut(plain, "# HELP cke_operation_seconds ")
	text, _, _ = strings.Cut(text, "# HELP ")
	want := `Duration of one operation.
# TYPE cke_operation_seconds histogram
`
	for _, s := range []struct{ cluster, operation, low, high, sum string }{{"one", "bootstrap", "0", "1", "0.15"}, {"one", `a \"b\"\n\\\uFFFD`, "0", "0", "3600"}, {"two", "bootstrap", "0", "1", "0.15"}} {
		labels := `cluster="` + s.cluster + `",operation="` + s.operation + `"`
		for i, le := range []string{"0.05", "0.1", "0.2", "0.4", "0.8", "1.6", "3.2", "6.4", "12.8", "25.6", "51.2", "102.4", "204.8", "409.6", "+Inf"} {
			value := s.high
			switch {
			case le == "+Inf":
				value = "1"
			case i < 2:
				value = s.low
			}
			want += `cke_operation_seconds_bucket{` + labels + `,le="` + le + `"} ` + value + "\n"
		}
		want += `cke_operation_seconds_sum{` + labels + `} ` + s.sum + "\ncke_operation_seconds_count{" + labels + "} 1\n"
	}
	want = strings.ReplaceAll(want, `\uFFFD`, "\uFFFD")
	if diff := cmp.Diff(want, text); diff != "" {
		t.Error(diff)
	}
	for line := range strings.Lines(plain) {
		if n := strings.Count(plain, "\n"+line); n > 1 {
			t.Errorf("%d times: %s", n, line)
		}
	}
	r := httptest.NewRequest("GET", "/metrics", nil)
	r.Header.Set("Accept-Encoding", "gzip")
	w = httptest.NewRecorder()
	m.ServeHTTP(w, r)
	z, err := gzip.NewReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(z); err != nil || string(text) != plain || w.Header().Get("Content-Encoding") != "gzip" || w.Header().Get("Content-Type") != textFormat {
		t.Errorf("compressed, with %v: %v\n%s", w.Header(), err, cmp.Diff(plain, string(text)))
	}
}

// What has not changed is not written anew: a scrape of 100 clusters, with 18,000 series, allocates next to nothing.
func TestMetrics_AreWrittenOnce(t *testing.T) {
	m := NewMetrics("1.2.3")
	for i := range 100 {
		m.leads(fmt.Sprint("c", i), true)
	}
	r := httptest.NewRequest("GET", "/metrics", nil)
	if n := testing.AllocsPerRun(3, func() { m.ServeHTTP(httptest.NewRecorder(), r) }); n > 5000 {
		t.Errorf("%.0f allocations", n)
	}
}

// What is read while a daemon works is whole.
func TestMetrics_AreReadWhileTheyChange(t *testing.T) {
	m := NewMetrics("1.2.3")
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 200 {
			m.observed("one", time.Second)
			m.leads("one", false)
		}
	}()
	for range 200 {
		w := httptest.NewRecorder()
		m.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		if text := w.Body.String(); strings.Count(text, "_bucket{cluster=\"one\"")%(len(observationBounds)+1) != 0 || !strings.HasSuffix(text, "\n") {
			t.Fatal(text)
		}
	}
	<-done
}
