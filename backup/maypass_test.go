package backup

import (
	"testing"
	"time"
)

// A full that a wrong clock dated later than it was stored proves nothing about a delta whose end is not known.
func TestMayPass_AFullOfTheFutureProvesNothing(t *testing.T) {
	d := Entry{Place: DeltaPlace("prod", "a1b2", 101, 4, 181), ModTime: when(200)}
	st := Stream{Stream: 101, First: 181, Last: 180, Deltas: []Entry{d}}
	later := when(200).Add(2 * clockLimit)
	for name, row := range map[string]struct {
		dated, stored time.Time
		want          bool
	}{
		"begun later":                 {later, later.Add(time.Minute), false},
		"begun about then":            {when(201), when(260), true},
		"dated later than stored":     {later, when(260), true},
		"dated a little after stored": {later, later.Add(-time.Minute), false},
	} {
		f := Entry{Place: FullPlace("prod", "a1b2", 185, row.dated), ModTime: row.stored}
		if got := st.mayPass(0, f); got != row.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
