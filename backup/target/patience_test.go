package target

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A server that takes requests and stays silent, at once or in the middle of a body, is given up, and is no damage.
func TestBucket_GivesUpASilentServer(t *testing.T) {
	defer func(was time.Duration) { patience = was }(patience)
	patience = 100 * time.Millisecond
	gone := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/half") {
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write(make([]byte, 500))
			w.(http.Flusher).Flush()
		}
		select {
		case <-gone:
		case <-r.Context().Done():
		}
	}))
	defer srv.Close()
	defer close(gone)
	t.Setenv("AWS_ACCESS_KEY_ID", "k")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "s")
	t.Setenv("AWS_REGION", "us-east-1")
	tgt, err := Open(t.Context(), "s3://b/p?endpoint="+srv.URL+"&path_style=true", Credentials{})
	if err != nil {
		t.Fatal(err)
	}
	defer tgt.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for name, do := range map[string]func() error{
		"list":   func() error { _, err := tgt.List(ctx, ""); return err },
		"delete": func() error { return tgt.Delete(ctx, "x") },
		"open":   func() error { _, err := tgt.Open(ctx, "x", 0, -1); return err },
		"read": func() error {
			r, err := tgt.Open(ctx, "half", 0, -1)
			if err != nil {
				return err
			}
			defer r.Close()
			_, err = io.Copy(io.Discard, r)
			return err
		},
	} {
		if err := do(); err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "has not answered for 100ms") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
