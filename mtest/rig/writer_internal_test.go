package rig

import (
	"fmt"
	"strings"
	"testing"
)

func TestLostError_ShowsTenAndCountsTheOthers(t *testing.T) {
	e := &LostError{Through: "https://n1"}
	for i := range 12 {
		e.Lost = append(e.Lost, fmt.Sprintf("key%d", i))
	}
	said := e.Error()
	if !strings.HasPrefix(said, "read back through https://n1: key0\n") || !strings.HasSuffix(said, "key9\nand 2 more") || len(e.Lost) != 12 {
		t.Errorf("%q", said)
	}
}
