package cke_test

import (
	"errors"
	"io"
	"testing"

	"cke"
)

// What tells programs which kind of error it is says nothing to people; a cause does.
func TestError_TellsItsCauseAndNoSentinel(t *testing.T) {
	refused := &cke.Error{What: "cp1 cannot be drained", Facts: []string{"cp2 is drained"}, Err: cke.ErrConflict}
	if got := refused.Error(); got != "cp1 cannot be drained; cp2 is drained" || !errors.Is(refused, cke.ErrConflict) {
		t.Errorf("got %q", got)
	}
	if got := (&cke.Error{What: "cannot read it", Err: io.ErrUnexpectedEOF}).Error(); got != "cannot read it: unexpected EOF" {
		t.Errorf("got %q", got)
	}
}
