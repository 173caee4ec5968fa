package mtest_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// bundle makes a support bundle and returns its files by name.
func (s *story) bundle(name string) map[string]string {
	s.Helper()
	file := filepath.Join(s.Dir, name+".tar.gz")
	s.do("support-bundle", file)
	list, err := exec.CommandContext(s.ctx, "tar", "-tzf", file).Output()
	s.must(err)
	all := map[string]string{}
	for _, path := range strings.Fields(string(list)) {
		text, err := exec.CommandContext(s.ctx, "tar", "-xzOf", file, path).Output()
		s.must(err)
		_, name, _ := strings.Cut(path, "/")
		all[name] = string(text)
	}
	return all
}

func TestLabSupport_HasWhatNodesSayWithAndWithoutADaemon(t *testing.T) {
	s := newStory(t, 3)
	d := s.daemon("cke1")
	s.found()
	member := s.now().Members[0]
	files := s.bundle("led")
	log := func(files map[string]string, node string) string {
		for name, text := range files {
			if strings.HasPrefix(name, "nodes/"+node+"/etcd-cke.") && strings.HasSuffix(name, ".log") {
				return text
			}
		}
		return ""
	}
	for _, n := range s.nodes {
		if text := log(files, n.Name); !strings.Contains(text, "ready to serve client requests") || len(text) > 1<<20 {
			s.Errorf("%s: the log of its member has %d bytes", n.Name, len(text))
		}
	}
	if !strings.Contains(files["daemon/metrics.txt"], "cke_") || !strings.Contains(files["members.json"], member.ID) {
		s.Errorf("metrics or members are missing: %q", files["members.json"])
	}
	for name, text := range files {
		if strings.HasSuffix(name, ".missing.txt") || strings.Contains(text, "PRIVATE KEY") || strings.Contains(text, "AGE-SECRET-KEY") {
			s.Errorf("%s: %s", name, text)
		}
	}

	// The store is the daemon's: without it the nodes are not known. With it, one that is off is told.
	d.Kill()
	off := s.nodes[2]
	s.must(s.Lab.Kill(s.ctx, off.Name))
	files = s.bundle("alone")
	if !strings.Contains(files["status.json.missing.txt"], "CKE102") || !strings.Contains(files["daemon/metrics.txt.missing.txt"], "connection refused") {
		s.Errorf("what is missing does not say why: %q %q", files["status.json.missing.txt"], files["daemon/metrics.txt.missing.txt"])
	}
	s.daemon("cke2")
	files = s.bundle("one-off")
	if !strings.Contains(files["nodes/"+off.Name+"/logs.missing.txt"], "CKE201") || log(files, s.nodes[0].Name) == "" {
		s.Errorf("%q", files["nodes/"+off.Name+"/logs.missing.txt"])
	}
}
