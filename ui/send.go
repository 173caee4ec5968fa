package ui

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
	"sync"
)

// packers are compressors that rest: a new one takes 0.8 MB.
var packers = sync.Pool{New: func() any {
	w, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		panic(err) // the level is a good one
	}
	return w
}}

// packed compresses a text.
func packed(text []byte) []byte {
	var b bytes.Buffer
	w := packers.Get().(*gzip.Writer)
	defer packers.Put(w)
	w.Reset(&b)
	_, _ = w.Write(text) // a buffer takes everything
	_ = w.Close()
	return b.Bytes()
}

// send answers with what pack returns to a client that reads gzip, and to others with text. status 0: 200.
func send(w http.ResponseWriter, r *http.Request, status int, kind string, text []byte, pack func([]byte) []byte) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Vary", "Accept-Encoding")
	if readsGzip(r) {
		h.Set("Content-Encoding", "gzip")
		text = pack(text)
	}
	if status != 0 {
		w.WriteHeader(status)
	}
	_, _ = w.Write(text) // the reader may be gone
}

// readsGzip reports whether a client named gzip as an encoding, and did not rule it out. Source: RFC 9110, 12.5.3.
func readsGzip(r *http.Request) bool {
	for _, one := range strings.Split(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		name, weight, _ := strings.Cut(one, ";")
		weight = strings.ReplaceAll(weight, " ", "")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			return strings.Trim(strings.TrimPrefix(weight, "q="), "0.") != "" || weight == ""
		}
	}
	return false
}
