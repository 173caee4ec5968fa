package backup

import (
	"bytes"
	"testing"

	"filippo.io/age"
)

// sealed is a body that holds some content, and what describes it in a header.
func sealed(t *testing.T, content []byte, to []age.Recipient, beside bool) (*bytes.Buffer, *bodyWriter) {
	t.Helper()
	var body bytes.Buffer
	w, err := newBody(&body, to, beside)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &body, w
}
