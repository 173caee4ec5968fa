package cke_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// mayImport says which packages of this module each top-level folder may import, tests left aside:
//
//	cmd ─► server ─► op ─► cke ◄─ etcdnode, storage, pki, …   (siblings never import each other)
//
// A folder that is missing here may import nothing but the vocabulary.
func mayImport(folder string) []string {
	switch folder {
	case "cmd":
		return []string{"", "cmd", "internal", "clusterfile", "plan", "preflight", "server", "op", "etcdnode", "storage", "pki", "backup", "sim", "mtest"}
	case "server":
		return []string{"", folder, "op"}
	case "storage": // it connects as the configuration says
		return []string{"", folder, "clusterfile"}
	case "plan":
		return []string{"", "server", "op", "sim"}
	case "internal/follow": // it reads what leaders store
		return []string{"", "internal", "op", "storage"}
	case "internal/bundle": // it asks nodes, and the daemon as the configuration says
		return []string{"", "internal", "clusterfile", "etcdnode"}
	case "preflight":
		return []string{"", folder, "internal", "etcdnode", "op"}
	case "mtest":
		return []string{"", folder, "clusterfile"}
	case "cketest": // held by tests to what stands in ports.go; no program imports it
		return []string{""}
	case "bench":
		return []string{"", folder, "mtest", "backup", "server", "op", "sim"}
	case "":
		return nil
	}
	return []string{"", folder}
}

// Requirement D5: each package has one job.
func TestLayering_EveryPackageImportsOnlyWhatStandsBelowIt(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	d := json.NewDecoder(strings.NewReader(string(out)))
	packages := 0
	for {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		packages++
		room := folder(p.ImportPath)
		if room == "internal" { // each has a job of its own
			_, room, _ = strings.Cut(p.ImportPath, "/")
		}
		allowed := mayImport(room)
		for _, i := range p.Imports {
			if !ours(i) {
				continue
			}
			if !slices.Contains(allowed, folder(i)) {
				t.Errorf("%s imports %s; folder %q may import only %q", p.ImportPath, i, room, allowed)
			}
		}
	}
	if packages < 5 {
		t.Fatalf("only %d packages were looked at", packages)
	}
}

// folder is the top-level folder of a package of this module, "" for the vocabulary itself.
func folder(path string) string {
	_, rest, _ := strings.Cut(path, "/")
	top, _, _ := strings.Cut(rest, "/")
	return top
}

func ours(path string) bool { return path == "cke" || strings.HasPrefix(path, "cke/") }
