package main

import (
	"strings"
	"testing"
)

func TestStoreSchema_IsShownAndRaised(t *testing.T) {
	h := newHouse(t)
	h.run(exitDone, "cluster", "set", "--no-wait", h.write("cluster.yml", clusterFile))
	h.lead("prod")
	stdout, _ := h.run(exitDone, "store", "schema")
	contains(t, stdout, "WHO               CLUSTER  SCHEMA\n", "this ckecli       -        4\n", "daemon on boot-1  prod     4\n")
	h.run(exitDone, "store", "schema", "--raise")
	if stdout, _ := h.run(exitDone, "store", "schema", "-o", "name"); strings.TrimSpace(stdout) != "4" {
		t.Errorf("raised to %q", stdout)
	}
	h.run(exitDone, "store", "schema", "--raise") // again
}
