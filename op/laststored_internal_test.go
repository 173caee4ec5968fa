package op

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"cke"
)

// calledOff notes what a restore that calls itself off does.
type calledOff struct {
	cke.Ledger
	did  []string
	fail error // of stops
}

func (c *calledOff) CancelRestore(context.Context, cke.Incarnation) error {
	c.did = append(c.did, "cancel")
	return nil
}

func (c *calledOff) Machine(cke.Node) cke.Machine { return stopper{by: c} }

type stopper struct {
	cke.Machine
	by *calledOff
}

func (s stopper) StopContainer(_ context.Context, j cke.Join, _ time.Duration) error {
	s.by.did = append(s.by.did, "stop "+string(j.ID))
	return s.by.fail
}

func TestRestore_StopsAbandonedLivesBeforeItCallsItselfOff(t *testing.T) {
	full := errors.New("the target is full")
	r := Restore{Fence: []cke.Join{{ID: "serves", Incarnation: "before"}, {ID: "left", Incarnation: "gone"}}}
	inc := cke.Incarnation{ID: "next", State: cke.Restoring, Previous: []string{"gone"}, Restore: &cke.Restoration{}}
	for _, row := range []struct {
		fail error
		want []string
	}{{nil, []string{"stop left", "cancel"}}, {errors.New("no answer"), []string{"stop left"}}} {
		c := &calledOff{fail: row.fail}
		err := r.callOff(t.Context(), Env{Machines: c, Ledger: c}, inc, full)
		if err == nil || !slices.Equal(c.did, row.want) {
			t.Errorf("%v: %v, %v", row.fail, c.did, err)
		}
	}
}
