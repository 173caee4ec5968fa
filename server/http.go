package server

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"cke"
)

// Health reports whether the daemon can do its work.
type Health struct {
	Status string `json:"status"` // "ok", or "waiting"
	// Waiting names what the daemon waits for when Status is "waiting"; Code is its code, if it has one.
	Waiting string   `json:"waiting,omitempty"`
	Code    cke.Code `json:"code,omitempty"`
}

// API serves /health, /version, /metrics and /status, and the status page everywhere else.
type API struct {
	Version string
	// Metrics answers scrapes; nil: with nothing.
	Metrics *Metrics
	// Health returns the health of the daemon and of the store that it needs.
	Health func(ctx context.Context) Health
	// Statuses returns the stored status of every cluster, whichever daemon leads it.
	Statuses func(ctx context.Context) ([]cke.Status, error)
	// Page serves all other paths; nil: there are none.
	Page http.Handler
}

// answerLimit bounds what one request may ask of the store.
const answerLimit = 2 * time.Second

// Handler returns the API as one handler. It serves only GET.
func (a API) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), answerLimit)
		defer cancel()
		h := a.Health(ctx)
		code := http.StatusOK
		if h.Status != "ok" {
			code = http.StatusServiceUnavailable
		}
		writeJSON(w, code, h)
	})
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"version": a.Version})
	})
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), answerLimit)
		defer cancel()
		all, err := a.Statuses(ctx)
		if err != nil {
			writeJSON(w, http.StatusServiceUnavailable, map[string]string{"error": err.Error()})
			return
		}
		writeJSON(w, http.StatusOK, map[string]any{"clusters": all})
	})
	mux.Handle("GET /metrics", a.Metrics)
	if a.Page != nil {
		mux.Handle("GET /", a.Page)
	}
	return mux
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(v) // the reader has gone: nobody to tell
}
