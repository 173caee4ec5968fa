package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/clusterfile"
	"cke/internal/golden"
)

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	rest := text
	for _, p := range parts {
		_, after, found := strings.Cut(rest, p)
		if !found {
			t.Errorf("%q is missing, or not where it belongs, in\n%s", p, text)
			return
		}
		rest = after
	}
}

func declared(t *testing.T) *house {
	h := newHouse(t)
	h.run(exitDone, "cluster", "set", "--no-wait", h.write("cluster.yml", clusterFile))
	return h
}

func TestErrors_AreJSONWhenTheOutputIs(t *testing.T) {
	h := newHouse(t)
	for _, args := range [][]string{{"cluster", "set", "-o", "json", h.write("bad.yml", "name: 1 2\nnodez: []\n")}, {"status", "-o", "json"}, {"-ojson", "bogus"}, {"--output=json", "status", "--bogus"}} {
		c := h.start(args...)
		if c.wait() == exitDone {
			t.Errorf("%q succeeded", args)
		}
		var e struct {
			Code, Message, Try *string
			Facts              []string
			Unchanged          *bool
			Faults             []clusterfile.Fault
		}
		if err := json.Unmarshal([]byte(c.stderr.String()), &e); err != nil || e.Code == nil || e.Message == nil || e.Facts == nil || e.Unchanged == nil {
			t.Errorf("%q: %v in %s", args, err, c.stderr)
		}
		if args[0] == "cluster" && len(e.Faults) < 2 {
			t.Errorf("not every fault is told: %s", c.stderr)
		}
	}
}

func TestHistory_FollowsUntilTheRecordEnds(t *testing.T) {
	h := declared(t)
	l := h.lead("prod")
	_, stderr := h.run(exitDone, "history")
	contains(t, stderr, "Nothing was done on prod yet.")
	l.end(l.begin(cke.Record{Operation: "bootstrap", Targets: []string{"cp1"}, Reason: "no member has data", Steps: []cke.StepRecord{{Name: "image", Node: "cp1"}}}))
	r := l.begin(cke.Record{Operation: "start-members", Targets: []string{"cp2"}, Reason: "cp2 stopped", Steps: []cke.StepRecord{{Name: "start", Node: "cp2"}}})

	follow := h.start("history", "2", "-f")
	follow.stdout.await(t, "#2 start-members cp2: cp2 stopped\n")
	all := h.start("history", "-f")
	all.stdout.await(t, "#2 start-members cp2: cp2 stopped\n")
	lines := h.start("history", "-f", "-n", "5", "-o", "json")
	lines.stdout.await(t, `{"id":1,`)
	l.end(r)
	follow.must(exitDone)
	contains(t, follow.stdout.String(), "  start                     cp2  0.3s\n#2 completed after 0.9s\n")
	all.stdout.await(t, "#2 completed")
	if strings.Contains(all.stdout.String(), "#1") {
		t.Errorf("what was long over is told: %s", all.stdout)
	}
	lines.stdout.await(t, `"state":"completed","startedAt"`)
	all.cancel()
	all.must(exitInterrupted)

	stdout, _ := h.run(exitDone, "history", "-o", "name", "-n", "1")
	if stdout != "2\n" {
		t.Errorf("got %q", stdout)
	}
	_, stderr = h.run(exitFailed, "history", "99")
	contains(t, stderr, "error[CKE106]: prod has no operation 99\nNothing was changed.\n")
	h.now = func() time.Time { return r.StartedAt }
	stdout, _ = h.run(exitDone, "__complete", "history", "")
	contains(t, stdout, "2\tstart-members, completed, 0s ago\n1\tbootstrap, completed")
}

func TestLeader_ResignWaitsForTheNextTerm(t *testing.T) {
	h := declared(t)
	_, stderr := h.run(exitNoStatus, "leader")
	contains(t, stderr, "error[CKE108]: no daemon leads prod\n")
	l := h.lead("prod")
	l.status(ready(1))
	stdout, _ := h.run(exitDone, "leader", "--cluster", "prod")
	contains(t, stdout, "HOST    TERM  SINCE\nboot-1  1     0s\n")
	resign := h.start("leader", "--resign")
	for state := range h.store.WatchCluster(h.ctx(), "prod") {
		if state.ResignRequested(l.term.Number()) {
			break
		}
	}
	if err := l.term.Resign(h.ctx()); err != nil {
		t.Fatal(err)
	}
	h.lead("prod").status(ready(1))
	resign.must(exitDone)
	contains(t, resign.stdout.String(), "boot-1  2 ")
	contains(t, resign.stderr.String(), "boot-1, which leads prod in term 1, was asked to resign")
}

func TestInit_WritesAFileThatIsInOrder(t *testing.T) {
	h := newHouse(t)
	stdout, stderr := h.run(exitDone, "cluster", "init", "--name", "lab", "cke@10.0.0.11", "fd00::12", "10.0.0.13")
	if stderr != "" {
		t.Error(stderr)
	}
	golden.Compare(t, "testdata/init.yml", stdout)
	stdout, _ = h.run(exitDone, "cluster", "validate", h.write("lab.yml", stdout))
	contains(t, stdout, "lab.yml is valid: cluster lab, 3 members of etcd "+cke.DefaultEtcdVersion+"\n")
	_, stderr = h.run(exitUsage, "cluster", "init", "cp1.example.org")
	contains(t, stderr, `"cp1.example.org" is not an IP address`)
	h.run(exitRefused, "cluster", "init", "--name", "No Name", "10.0.0.11")
}

func TestInit_WritesAFileInTheFormatThatIsAskedFor(t *testing.T) {
	h := newHouse(t)
	commented, _ := h.run(exitDone, "cluster", "init", "10.0.0.11")
	for _, format := range []string{"table", "wide", "yaml"} {
		if stdout, _ := h.run(exitDone, "cluster", "init", "10.0.0.11", "-o", format); stdout != commented {
			t.Errorf("-o %s: %s", format, stdout)
		}
	}
	stdout, _ := h.run(exitDone, "cluster", "init", "cke@10.0.0.11", "-o", "json")
	var c cke.Cluster
	if err := json.Unmarshal([]byte(stdout), &c); err != nil || c.Name != "prod" || len(c.Nodes) != 1 || c.Nodes[0].User != "cke" || c.Options.Etcd.Version != cke.DefaultEtcdVersion {
		t.Errorf("%v: %s", err, stdout)
	}
	stdout, _ = h.run(exitDone, "cluster", "validate", h.write("prod.json", stdout))
	contains(t, stdout, "prod.json is valid: cluster prod, 1 member of etcd ")
	if stdout, _ = h.run(exitDone, "cluster", "init", "--name", "lab", "10.0.0.11", "-o", "name"); stdout != "lab\n" {
		t.Errorf("got %q", stdout)
	}
}

func TestImages_TellsWhichArchiveHoldsWhat(t *testing.T) {
	h := declared(t)
	stdout, _ := h.run(exitDone, "images")
	contains(t, stdout, "gcr.io/etcd-development/etcd:v3.6.16  prod       none in "+h.dir+"/images: nodes must have it, or pull it\n")
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	manifest := `[{"RepoTags":["gcr.io/etcd-development/etcd:v3.6.16"]}]`
	err := errors.Join(w.WriteHeader(&tar.Header{Name: "manifest.json", Size: int64(len(manifest)), Mode: 0o644}), func() error { _, err := w.Write([]byte(manifest)); return err }(), w.Close())
	if err != nil {
		t.Fatal(err)
	}
	file := h.write("images/etcd.tar", b.String())
	h.write("images/broken.tar", "no archive at all")
	stdout, _ = h.run(exitDone, "images")
	contains(t, stdout, "gcr.io/etcd-development/etcd:v3.6.16  prod       "+file+"\n")
}
