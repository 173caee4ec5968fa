package main

import (
	"errors"
	"strings"
	"testing"

	"cke"
	"cke/clusterfile"
	"cke/preflight"
)

// Three nodes that refuse the login are one row; what follows from that is counted beside it.
func TestPreflight_ReportsACauseOnce(t *testing.T) {
	c, _, err := clusterfile.ParseCluster("cluster.yml", []byte(clusterFile))
	if err != nil {
		t.Fatal(err)
	}
	c = c.WithDefaults()
	seen := cke.Observation{}
	for _, n := range c.Nodes {
		p := &cke.Problem{Code: cke.CodeSSHAuth, Message: n.Name() + " refuses the key", Remedy: "put the key into authorized_keys"}
		seen.Nodes = append(seen.Nodes, cke.NodeStatus{Node: n, Problem: p})
	}
	r := preflightResult{Checks: preflight.Judge(c, preflight.Members{Cluster: c.Name}, seen, preflight.Keys{}, nil)}
	r.Causes = preflight.Causes(r.Checks)
	var short, wide strings.Builder
	if err := errors.Join(r.table(&short, false, false), r.table(&wide, false, true)); err != nil {
		t.Fatal(err)
	}
	if strings.Count(short.String(), "\n") != 5 || strings.Count(wide.String(), "\n") != 31 {
		t.Errorf("rows:\n%s\n%s", short.String(), wide.String())
	}
	contains(t, short.String(), "cp1, cp2, cp3  ssh    fail    cp1 refuses the key; the same on cp2, cp3; 24 more checks wait for this [CKE202]\n",
		"cp1, cp2, cp3: put the key into authorized_keys\n", "3 checks failed, for 1 cause.\n")
}

// Before cke runs anywhere, a file and a key are enough; what cannot be reached is a row.
func TestPreflight_NeedsNoStoreForAFileAndAKey(t *testing.T) {
	h := newHouse(t)
	file := h.write("c.yml", "name: prod\nnodes:\n  - {address: 127.0.0.1, hostname: cp1, user: cke, control_plane: true, ssh: {port: 1}}\n")
	stdout, _ := h.run(exitFailed, "preflight", file) // of a cluster that nobody has declared
	contains(t, stdout, "cp1   ssh           fail    there is no SSH key to log in to cp1 with; 6 more checks wait for this [CKE214]\n")
	h.embedded.Close()
	_, stderr := h.run(exitStore, "preflight", file)
	contains(t, stderr, "error[CKE102]: ")
	stdout, stderr = h.run(exitFailed, "preflight", file, "--ssh-key", h.write("key", "no key"))
	contains(t, stderr, "The store does not answer: host keys are not compared with those in it.\n")
	contains(t, stdout, "NODE  CHECK         RESULT  DETAIL\n", "cp1   ssh           fail    ", "1 check failed.\n")
	stdout, _ = h.run(exitFailed, "preflight", file, "--ssh-key", h.dir+"/key", "-o", "wide")
	contains(t, stdout, "cp1   disk          warn    not checked: ")
	stdout, _ = h.run(exitFailed, "preflight", file, "--ssh-key", h.dir+"/key", "-o", "json")
	contains(t, stdout, `"passed": false`, `"check": "ssh"`, `"result": "fail"`)
	h.run(exitFailed, "preflight", h.dir+"/none.yml")
}
