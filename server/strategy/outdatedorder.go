package strategy

import (
	"fmt"
	"strings"
	"time"

	"cke"
)

// orderLasts is how long an order to restore may wait, as for the end of a pause, or for a daemon: its plan was confirmed
// for the cluster as it was then.
const orderLasts = time.Hour

// outdatedOrder is why an order to restore is no longer what was confirmed; nil: it is.
func outdatedOrder(in *Input, t cke.Task) *cke.Error {
	o, what, command := *t.Restore, "restore", "ckecli restore --plan"
	if o.Survivor != "" {
		what, command = "recovery", "ckecli recover --plan"
	}
	e := &cke.Error{Code: cke.CodeCannot, What: "the " + what + " is no longer what was confirmed, and is not carried out", Unchanged: true, Try: command}
	if waited := in.untilNow().Sub(t.At); waited > orderLasts && !t.At.IsZero() {
		e.Facts = append(e.Facts, fmt.Sprintf("it was requested at %s, %s ago, and waited since: the cluster may have changed", t.At.UTC().Format(time.RFC3339), strings.TrimSuffix(waited.Round(time.Minute).String(), "0s")))
	}
	if o.ShownIncarnation != "" && !in.Identity.Incarnation.Life(o.ShownIncarnation) {
		e.Facts = append(e.Facts, fmt.Sprintf("it was to replace incarnation %s, and the cluster has another one now", o.ShownIncarnation))
	}
	if o.ShownGeneration != 0 && o.ShownGeneration != in.Generation {
		e.Facts = append(e.Facts, fmt.Sprintf("the plan was made for revision %d of the cluster file, and it has revision %d now", o.ShownGeneration, in.Generation))
	}
	if e.Facts == nil {
		return nil
	}
	return e
}
