package strategy_test

import (
	"strings"
	"testing"

	"cke"
	"cke/server/strategy"
)

// What cannot be reached is told from what may be, with the way that works.
func TestUnreachable(t *testing.T) {
	for _, row := range []struct {
		runs []string // by member; "" does not answer
		// recorded are the versions on record; nil: those that run.
		recorded []string
		want     string
		try      string // empty: it can be reached
	}{
		{[]string{"3.6.16", "3.6.16", "3.6.16"}, nil, "3.6.16", ""},
		{[]string{"3.6.16", "3.6.16", "3.6.16"}, nil, "3.6.1", ""},
		{[]string{"3.6.16", "3.6.16", "3.6.16"}, nil, "3.7.3", ""},
		{[]string{"3.5.35", "3.5.35", "3.5.35"}, nil, "3.7.3", "each once all members run the one before: 3.6.14, 3.7.3"},
		{[]string{"3.5.9", "3.5.9", "3.5.9"}, nil, "3.7.3", ": 3.5.33, 3.6.14, 3.7.3"},
		{[]string{"3.5.9", "3.5.35", "3.5.35"}, nil, "3.6.16", ": 3.5.33, 3.6.16"},
		{[]string{"3.7.3", "3.7.3", "3.7.3"}, nil, "3.6.16", "declare version: 3.7.3; a restore from a backup of 3.6"},
		{[]string{"3.7.3", "3.7.3", "3.6.16"}, nil, "3.6.16", ""}, // not all have taken the step
		{[]string{"3.7.3", "3.7.3", "3.6.16"}, nil, "3.7.2", ""},
		{[]string{"3.6.16", "3.6.16", "3.5.35"}, nil, "3.7.3", ": 3.6.14, 3.7.3"},
		{[]string{"3.6.16", "3.6.16", ""}, []string{"3.6.16", "3.6.16", "3.7.3"}, "3.6.16", ""}, // it does not start with that one
		{[]string{"", "", ""}, []string{"3.7.3", "3.7.3", "3.7.3"}, "3.6.16", ""},               // whether it ever ran is not known
		{[]string{"", "", ""}, []string{"3.7.3", "3.7.3", "3.7.3"}, "3.5.35", "declare version: 3.7.3"},
		{[]string{"", "", ""}, []string{"3.5.35", "3.5.35", "3.5.35"}, "3.7.3", ": 3.6.14, 3.7.3"},
		{[]string{"", "", ""}, []string{"3.6.16", "3.6.16", "3.6.16"}, "3.8.0", ": 3.7.1, 3.8.0"},
	} {
		s := formed(3)
		s.Spec.Options.Etcd.Version = row.want
		for i, version := range row.runs {
			e, j := s.endpoint(i+1), &s.Identity.Joins[i]
			j.Etcd.Version, e.Version = version, version
			if row.recorded != nil {
				j.Etcd.Version = row.recorded[i]
			}
		}
		err := strategy.Unreachable(s.Input)
		switch {
		case row.try == "" && err != nil:
			t.Errorf("%v to %s: %v", row.runs, row.want, err)
		case row.try != "" && (err == nil || err.Code != cke.CodeVersion || !strings.HasSuffix(err.Try, row.try) && !strings.Contains(err.Try, row.try)):
			t.Errorf("%v to %s: %+v", row.runs, row.want, err)
		}
		if err == nil {
			continue
		}
		// What is refused is what the daemon would never do.
		if d := strategy.DecideChange(s.Input); d.Operation != nil && d.Operation.Name() == "restart-member" {
			t.Errorf("%v to %s: %s", row.runs, row.want, d.Reason)
		}
	}
	blank := &scene{strategy.Input{Spec: spec(3)}}
	if err := strategy.Unreachable(blank.Input); err != nil {
		t.Errorf("a cluster that is new: %v", err)
	}
}
