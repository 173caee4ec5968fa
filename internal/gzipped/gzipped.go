// Package gzipped compresses what is served over HTTP.
package gzipped

import (
	"bytes"
	"compress/gzip"
	"io"
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

// Bytes compresses a text.
func Bytes(text []byte) []byte {
	var b bytes.Buffer
	_ = to(&b, func(w io.Writer) error { // a buffer takes everything
		_, err := w.Write(text)
		return err
	})
	return b.Bytes()
}

// to compresses what write writes.
func to(w io.Writer, write func(io.Writer) error) error {
	z := packers.Get().(*gzip.Writer)
	defer packers.Put(z)
	z.Reset(w)
	if err := write(z); err != nil {
		return err
	}
	return z.Close()
}

// Send answers with what pack returns to a client that reads gzip, and to others with text. status 0: 200.
func Send(w http.ResponseWriter, r *http.Request, status int, kind string, text []byte, pack func([]byte) []byte) {
	if headers(w, r, kind) {
		text = pack(text)
	}
	if status != 0 {
		w.WriteHeader(status)
	}
	_, _ = w.Write(text) // the reader may be gone
}

// Stream answers with what write writes, compressed for a client that reads gzip.
func Stream(w http.ResponseWriter, r *http.Request, kind string, write func(io.Writer) error) {
	if headers(w, r, kind) {
		_ = to(w, write) // the reader may be gone
	} else {
		_ = write(w)
	}
}

// headers sets the headers of an answer, and reports whether it is compressed.
func headers(w http.ResponseWriter, r *http.Request, kind string) bool {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Vary", "Accept-Encoding")
	packed := readsGzip(r)
	if packed {
		h.Set("Content-Encoding", "gzip")
	}
	return packed
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
