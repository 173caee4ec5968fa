package damage

import (
	"errors"
	"fmt"
	"io"
	"testing"
)

func TestDamage_IsKeptThroughWrapping(t *testing.T) {
	err := Errorf("page %d: %w", 7, io.EOF)
	if wrapped := fmt.Errorf("read x: %w", err); !Is(wrapped) || !errors.Is(wrapped, io.EOF) {
		t.Errorf("%v", wrapped)
	}
	if err.Error() != "damaged: page 7: EOF" || Why(err) != "page 7: EOF" {
		t.Errorf("%q, why %q", err, Why(err))
	}
	if Is(io.EOF) || Is(nil) || Why(io.EOF) != "EOF" {
		t.Error("an error without the mark is taken for damage")
	}
}
