package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"cke"
	"cke/clusterfile"
	"cke/storage"
)

// fleetOf declares clusters that boot-1 leads; the first prefers a host without a daemon.
func fleetOf(t *testing.T, names ...string) (*house, map[string]*storage.Term) {
	h := newHouse(t)
	h.store.Attend(cke.Daemon{Host: "boot-1", Version: "1.4.0"})
	terms := map[string]*storage.Term{}
	for i, name := range names {
		text := strings.Replace(clusterFile, "name: prod", "name: "+name, 1)
		if i == 0 {
			text += "prefer: [boot-9]\n"
		}
		_, stderr := h.run(exitDone, "cluster", "set", "--no-wait", h.write("cluster.yml", text))
		if i == 0 {
			contains(t, stderr, "note: "+name+" prefers boot-9, where no daemon is alive\n")
		}
		terms[name] = h.lead(name).term
	}
	if err := terms[names[0]].Prefer(h.ctx(), []string{"boot-9"}); err != nil {
		t.Fatal(err)
	}
	for f := range h.store.WatchFleet(h.ctx()) {
		if len(f.Clusters) == len(names) && f.Daemons[0].Version != "" {
			break
		}
	}
	return h, terms
}

// another starts a daemon on boot-2 that waits to lead all clusters, and leads those that it gets.
func (h *house) another(names ...string) *storage.Store {
	h.t.Helper()
	c, err := clusterfile.LoadConfig(h.config, true)
	if err != nil {
		h.t.Fatal(err)
	}
	s, err := storage.Open(h.ctx(), patientConfig(c))
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { s.Close() })
	s.Attend(cke.Daemon{Host: "boot-2", Version: "1.5.0"})
	for _, name := range names {
		go func() { _, _ = s.Campaign(h.ctx(), name, "boot-2") }() // the test may be over before it is elected
	}
	for f := range s.WatchFleet(h.ctx()) {
		waits := !slices.ContainsFunc(f.Clusters, func(l cke.Led) bool { return len(l.Waiting) == 0 })
		if len(f.Daemons) == 2 && f.Daemons[1].Version != "" && waits {
			break
		}
	}
	return s
}

func TestLeader_ShowsAllDaemonsAndWhatTheyLead(t *testing.T) {
	names := []string{"ci", "dev", "prod", "test"}
	h, _ := fleetOf(t, names...)
	stdout, stderr := h.run(exitDone, "leader")
	contains(t, stdout, "DAEMON  VERSION  SCHEMA  ALIVE  LEADS  BALANCED\nboot-1  1.4.0    "+fmt.Sprint(storage.SchemaVersion)+" ", "4      4\n",
		"CLUSTER  HOST    TERM  SINCE  PREFER  NEXT\nci       boot-1  1 ", "boot-9  -\n", "dev      boot-1  1 ", "-       -\n")
	contains(t, stderr, "note: only the daemon on boot-1 is alive: it leads every cluster until another one is started with the same store\n",
		"note: ci prefers boot-9, where no daemon is alive\n")
	_, stderr = h.run(exitDone, "leader", "--balance")
	contains(t, stderr, "Nothing to balance.\nnote: only the daemon on boot-1 is alive")

	h.another(names...)
	stdout, _ = h.run(exitDone, "leader")
	contains(t, stdout, "boot-1  1.4.0 ", "4      2\n", "boot-2  1.5.0 ", "0      2\n", "ci       boot-1 ", "boot-2 (balance)\n", "prod     boot-1 ", "-\n")
	stdout, _ = h.run(exitDone, "leader", "-o", "json")
	var got shownFleet
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Daemons) != 2 || got.Daemons[0].Leads != 4 || got.Daemons[1].Balanced != 2 || len(got.Clusters) != 4 || got.Clusters[0].Next != "boot-2" || got.Clusters[0].Leader.Host != "boot-1" || len(got.Notes) != 1 {
		t.Errorf("%+v", got)
	}
	if stdout, _ = h.run(exitDone, "leader", "-o", "name"); stdout != "boot-1\nboot-2\n" {
		t.Errorf("%q", stdout)
	}
	h.env["CKECLI_CLUSTER"] = "prod"
	stdout, _ = h.run(exitDone, "leader")
	contains(t, stdout, "HOST    TERM  SINCE\nboot-1  1 ")
	stdout, _ = h.run(exitDone, "leader", "--all")
	contains(t, stdout, "DAEMON ", "test ")
}

func TestLeader_BalanceAsksAllDaemonsAndWaits(t *testing.T) {
	names := []string{"ci", "dev", "prod", "test"}
	h, terms := fleetOf(t, names...)
	second := h.another(names...)
	_, stderr := h.run(exitDone, "leader", "--balance", "--no-wait")
	contains(t, stderr, "2 of 4 clusters change hands")
	f, err := h.store.Fleet(h.ctx())
	if err != nil || f.Asked == nil || !strings.Contains(f.Asked.By, "@") {
		t.Fatalf("%+v, %v", f.Asked, err)
	}
	waits := h.start("leader", "--balance")
	var to string
	for _, d := range f.Daemons {
		if d.Host == "boot-2" {
			to = d.ID
		}
	}
	for _, name := range names[:2] {
		if err := terms[name].HandOver(h.ctx(), to); err != nil {
			t.Fatal(err)
		}
	}
	waits.must(exitDone)
	for f := range h.store.WatchFleet(h.ctx()) { // it may have started after both were handed over
		if len(f.Clusters) == len(names) {
			break
		}
	}
	stdout, stderr := h.run(exitDone, "leader", "--balance")
	contains(t, stdout, "boot-1 ", "2      2\n", "boot-2 ", "2      2\n")
	contains(t, stderr, "The clusters are balanced already.\n")
	second.Close()
}
