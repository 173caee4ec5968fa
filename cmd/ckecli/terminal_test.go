package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/clusterfile"
	"cke/storage"
)

func TestStatus_WatchRedrawsInPlace(t *testing.T) {
	h := newHouse(t)
	h.run(exitDone, "cluster", "set", "--no-wait", h.write("cluster.yml", clusterFile))
	l := h.lead("prod")
	l.status(cke.Status{Generation: 1, Health: cke.HealthForming, Summary: "bootstrap waits", Reason: "bootstrap waits"})
	screen := h.onTerminal("status", "--watch")
	screen.stdout.await(t, "\x1b[2J\x1b[H\x1b[1mprod\x1b[0m  \x1b[33mFORMING\x1b[0m")
	l.status(ready(1))
	screen.stdout.await(t, "\x1b[J\x1b[H\x1b[1mprod\x1b[0m  \x1b[32mREADY\x1b[0m")
	screen.cancel()
	screen.must(exitInterrupted)
	if text := screen.stdout.String(); strings.Count(text, "\x1b[2J") != 1 {
		t.Errorf("the screen was cleared more than once: %q", text)
	}
}

func TestStatus_WatchWithoutATerminalWritesOneAfterTheOther(t *testing.T) {
	h := newHouse(t)
	h.run(exitDone, "cluster", "set", "--no-wait", h.write("cluster.yml", clusterFile))
	l := h.lead("prod")
	l.status(cke.Status{Generation: 1, Health: cke.HealthForming, Summary: "bootstrap waits", Reason: "bootstrap waits"})
	watch := h.start("status", "-w", "-o", "json")
	watch.stdout.await(t, `"health": "FORMING"`)
	l.status(ready(1))
	watch.stdout.await(t, `"health": "READY"`)
	watch.cancel()
	watch.must(exitInterrupted)
	if text := watch.stdout.String(); strings.Contains(text, "\x1b") {
		t.Errorf("escape codes in JSON: %q", text)
	}
}

func TestSet_ShowsRunningStepsOnATerminal(t *testing.T) {
	h := newHouse(t)
	set := h.onTerminal("cluster", "set", h.write("cluster.yml", clusterFile))
	set.stdout.await(t, "stored as revision 1")
	l := h.lead("prod")
	r := l.begin(cke.Record{Operation: "bootstrap", Targets: []string{"cp1", "cp2"}, Reason: "no member has data", Generation: 1,
		Steps: []cke.StepRecord{{Name: "image", Node: "cp1", Progress: "1 of 63 MB"}, {Name: "image", Node: "cp2"}}})
	set.stdout.await(t, "\x1b[2m  image                     cp1, cp2  ")
	set.stdout.await(t, "…  1 of 63 MB\x1b[0m\r\n\x1b[A\x1b[2K") // redrawn while it runs
	l.end(r)
	l.status(ready(1))
	set.must(exitDone)
	text := set.stdout.String()
	if !strings.Contains(text, "  image                     cp2  0.3s\r\n") || !strings.Contains(text, "prod is ready") {
		t.Errorf("got %q", text)
	}
}

func TestDelete_AsksForTheName(t *testing.T) {
	h := newHouse(t)
	h.run(exitDone, "cluster", "set", "--no-wait", h.write("cluster.yml", clusterFile))
	ask := h.onTerminal("cluster", "delete", "prod")
	ask.stdout.await(t, "Type prod to confirm: ")
	ask.types("yes\n")
	ask.must(exitRefused)
	if text := ask.stdout.String(); !strings.Contains(text, "deleting prod was not confirmed\r\nNothing was changed.") {
		t.Errorf("got %q", text)
	}
	ask = h.onTerminal("cluster", "delete", "prod")
	ask.stdout.await(t, "Type prod to confirm: ")
	ask.cancel()
	ask.must(exitInterrupted)
	if spec, err := h.store.Spec(h.ctx(), "prod"); err != nil || spec.Deleting() {
		t.Fatalf("the deletion was asked for without a confirmation: %v %v", spec, err)
	}

	l := h.lead("prod")
	ask = h.onTerminal("cluster", "delete", "prod")
	ask.stdout.await(t, "Type prod to confirm: ")
	ask.types("prod\n")
	for state := range h.store.WatchCluster(h.ctx(), "prod") {
		if state.Spec.Deleting() {
			break
		}
	}
	if err := l.term.FinishDelete(h.ctx()); err != nil {
		t.Fatal(err)
	}
	ask.must(exitDone)
	if text := ask.stdout.String(); !strings.Contains(text, "prod is deleted; its volumes stay on the nodes") || !strings.Contains(text, "docker volume ls --filter label=cke.cluster=prod") {
		t.Errorf("got %q", text)
	}
	if _, err := h.store.Spec(h.ctx(), "prod"); !errors.Is(err, cke.ErrNotFound) {
		t.Error(err)
	}
}

// A restore is started while the operator, who was shown that only a declaration is deleted, has not confirmed that yet.
func TestDelete_OfADeclarationStopsNoMember(t *testing.T) {
	h := newHouse(t)
	task := cke.NewTask(cke.TaskRestore, "", "", "ann@boot-2", time.Now())
	task.Restore = &cke.RestoreOrder{Target: "file:///b", Source: "prod"}
	c, _, err := clusterfile.ParseCluster("cluster.yml", []byte(clusterFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := h.store.AskRestore(h.ctx(), "prod", task, storage.RestoreAsked{Declare: &storage.Declared{Cluster: c, Source: []byte(clusterFile)}}); err != nil {
		t.Fatal(err)
	}
	l := h.lead("prod")
	ask := h.onTerminal("cluster", "delete", "prod")
	ask.stdout.await(t, "members that run continue to run")
	ask.stdout.await(t, "Type prod to confirm: ")
	id, err := l.term.Identity(h.ctx())
	if err != nil {
		t.Fatal(err)
	}
	if err := l.term.BeginRestore(h.ctx(), cke.NewRestoration(c.WithDefaults(), id, cke.Restoration{ID: task.ID}, time.Now())); err != nil {
		t.Fatal(err)
	}
	ask.types("prod\n")
	ask.must(exitRefused)
	if text := ask.stdout.String(); !strings.Contains(text, "a restore of cluster prod was started meanwhile") {
		t.Errorf("got %q", text)
	}
	if spec, err := h.store.Spec(h.ctx(), "prod"); err != nil || spec.Deleting() {
		t.Fatalf("%v %v", spec, err)
	}
}
