package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"cke"
)

func TestPause_IsShownUntilSomebodyResumes(t *testing.T) {
	h := declared(t)
	h.lead("prod").status(ready(1))
	_, stderr := h.run(exitRefused, "resume")
	contains(t, stderr, "error[CKE110]: cluster prod is not paused\nNothing was changed.\n")

	watch := h.start("status", "-w")
	watch.stdout.await(t, "Operation  none: nothing to do")
	stdout, stderr := h.run(exitDone, "pause", "--reason", "new switch", "--for", "2h")
	contains(t, stdout, "prod is paused: new switch by ", "@", " since ", " (until ")
	if stderr != "" {
		t.Errorf("nothing was to be told: %s", stderr)
	}
	watch.stdout.await(t, "Paused     new switch by ")
	_, stderr = h.run(exitDone, "pause", "--reason", "new rack")
	contains(t, stderr, "It replaces the pause: new switch by ")
	watch.stdout.await(t, "Paused     new rack by ")
	stdout, _ = h.run(exitDone, "status")
	contains(t, stdout, "Paused     new rack by ", " (until resumed)\n", "Operation  none: nothing to do\n")

	stdout, _ = h.run(exitDone, "resume")
	if stdout != "prod is no longer paused\n" {
		t.Errorf("stdout is %q", stdout)
	}
	if stdout, _ = h.run(exitDone, "status"); strings.Contains(stdout, "Paused") {
		t.Errorf("it is still shown as paused:\n%s", stdout)
	}
	h.run(exitRefused, "resume")
}

func TestPause_IsOverWhenItsTimeIs(t *testing.T) {
	h := declared(t)
	h.lead("prod").status(ready(1))
	now := time.Now()
	h.now = func() time.Time { return now }
	h.run(exitDone, "pause", "--reason", "new switch", "--for", "1m")
	now = now.Add(time.Minute)
	if stdout, _ := h.run(exitDone, "status"); strings.Contains(stdout, "Paused") {
		t.Errorf("it is still shown as paused:\n%s", stdout)
	}
	_, stderr := h.run(exitRefused, "resume")
	contains(t, stderr, "error[CKE110]: cluster prod is not paused\n  its pause ended by itself at "+now.UTC().Format("2006-01-02 15:04:05Z")+"\nNothing was changed.\n")
	if _, stderr = h.run(exitDone, "pause", "--reason", "again"); stderr != "" {
		t.Errorf("it replaces none: %s", stderr)
	}
}

func TestPause_IsWrittenForPrograms(t *testing.T) {
	h := declared(t)
	h.lead("prod").status(ready(1))
	read := func(args ...string) (p struct {
		Cluster string
		Paused  bool
		Hold    *cke.Hold
	}) {
		t.Helper()
		stdout, _ := h.run(exitDone, append(args, "-o", "json")...)
		if err := json.Unmarshal([]byte(stdout), &p); err != nil {
			t.Fatalf("%v in %s", err, stdout)
		}
		return p
	}
	if p := read("status"); p.Hold != nil {
		t.Errorf("got %+v", p.Hold)
	}
	p := read("pause", "--reason", "new switch", "--for", "2h")
	if p.Cluster != "prod" || !p.Paused || p.Hold == nil || p.Hold.Reason != "new switch" || !strings.Contains(p.Hold.By, "@") || p.Hold.Until.Sub(p.Hold.Since) != 2*time.Hour {
		t.Errorf("got %+v", p)
	}
	if s := read("status"); s.Hold == nil || *s.Hold != *p.Hold {
		t.Errorf("status has %+v", s.Hold)
	}
	if r := read("resume"); r.Cluster != "prod" || r.Paused || r.Hold == nil || *r.Hold != *p.Hold {
		t.Errorf("got %+v", r)
	}
	_, stderr := h.run(exitRefused, "resume", "-o", "json")
	contains(t, stderr, `{"code":"CKE110",`, `"unchanged":true`)
}

func TestPause_NeedsACluster(t *testing.T) {
	h := newHouse(t)
	for _, args := range [][]string{{"pause", "--reason", "x"}, {"resume"}, {"cluster", "apply"}} {
		_, stderr := h.run(exitFailed, args...)
		contains(t, stderr, "error[CKE106]: there is no cluster yet\n")
		_, stderr = h.run(exitFailed, append(args, "--cluster", "nosuch")...)
		contains(t, stderr, "error[CKE106]: there is no cluster nosuch\nNothing was changed.\n")
	}
}
