package ui_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

// BenchmarkPage renders pages; what it costs to keep one open is that once in ten seconds.
func BenchmarkPage(b *testing.B) {
	w := everything()
	for i := range 100 {
		name := fmt.Sprintf("cluster-%03d", i)
		w.clusters[name] = scene(name, 3, nil)
	}
	h := page(b, w).Handler()
	for _, path := range []string{"/", "/clusters/healthy", "/clusters/updating", "/clusters/healthy/revisions"} {
		b.Run(path, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRecorder()
				h.ServeHTTP(r, httptest.NewRequest(http.MethodGet, path, nil))
				b.ReportMetric(float64(r.Body.Len()), "bytes")
			}
		})
	}
}
