package server

import (
	"testing"

	"cke"
	"cke/op"
)

func TestSuperseded_OnlyWhenMoreMembersHaveStopped(t *testing.T) {
	starting := func(names ...string) op.Operation {
		var o op.StartMembers
		for _, n := range names {
			o.Joins = append(o.Joins, cke.Join{ID: cke.JoinID(n), Node: cke.Node{Hostname: n}})
		}
		return o
	}
	for _, tt := range []struct {
		name          string
		running, next op.Operation
		want          string
	}{
		{"the same member is still down", starting("n1"), starting("n1"), ""},
		{"one of two came up", starting("n1", "n2"), starting("n2"), ""},
		{"nothing to do", starting("n1"), nil, ""},
		{"another one stopped", starting("n1"), starting("n2"), "n2 stopped meanwhile"},
		{"all others stopped", starting("n1"), starting("n1", "n2", "n3"), "n2 and n3 stopped meanwhile"},
		{"a bootstrap goes on", op.Bootstrap{}, starting("n1"), ""},
		{"a deletion waits its turn", starting("n1"), op.DeleteCluster{}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			if err := superseded(tt.running, tt.next); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
