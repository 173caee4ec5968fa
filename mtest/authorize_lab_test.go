package mtest_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"cke/mtest/lab"
)

// A node whose sshd has no key of cke gets it through a login of the operator; one whose home cannot be written does not.
func TestLabAuthorize_LetsCkeInAndReportsTheNodeThatRefuses(t *testing.T) {
	s := newStory(t, 2)
	s.daemon("cke1")
	s.setKey()
	open, fixed := s.nodes[0], s.nodes[1]
	const home = "/home/cke/"
	for _, n := range s.nodes {
		s.on(n, "cp -a "+home+".ssh "+home+".ssh.before && sed -i /^restrict/d "+home+".ssh/authorized_keys")
		t.Cleanup(func() {
			if _, err := s.Lab.Exec(context.Background(), n.Name, "sh", "-c", "rm -rf "+home+".ssh && mv "+home+".ssh.before "+home+".ssh"); err != nil {
				t.Error(err)
			}
		})
	}
	s.on(open, "chown -R cke: "+home+".ssh")
	s.on(fixed, "chown -R root: "+home+".ssh && chmod 755 "+home+".ssh") // sshd can read it
	authorize := func(code int, nodes ...lab.Node) (rows []struct {
		Result, EngineVersion string
		Problem               struct{ Message string }
	}) {
		s.Helper()
		args := []string{"node", "authorize", "-o", "json", "-i", s.nodes[0].KeyFile}
		for _, n := range nodes {
			key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(n.HostKey))
			s.must(err)
			args = append(args, "cke@"+n.Address, "--host-key", n.Address+"="+ssh.FingerprintSHA256(key))
		}
		res, err := s.CLI(s.ctx, args...)
		s.must(err)
		s.Logf("%s%s", res.Stdout, res.Stderr)
		s.must(json.Unmarshal([]byte(res.Stdout), &rows))
		if res.Code != code || len(rows) != len(nodes) {
			s.Fatalf("exit code %d, want %d", res.Code, code)
		}
		return rows
	}

	rows := authorize(1, fixed, open)
	if m := rows[0].Problem.Message; rows[0].Result != "failed" || !strings.Contains(m, "Permission denied") {
		s.Errorf("%s: %+v", fixed.Name, rows[0])
	}
	if rows[1].Result != "installed" || rows[1].EngineVersion == "" {
		s.Errorf("%s: %+v", open.Name, rows[1])
	}
	modes := s.on(open, "stat -c '%a %U' "+home+".ssh/authorized_keys; ls -A "+home+".ssh; grep -c ^restrict "+home+".ssh/authorized_keys")
	if strings.TrimSpace(modes) != "600 cke\nauthorized_keys\n1" {
		s.Errorf("on %s: %q", open.Name, modes)
	}
	if rows = authorize(0, open); rows[0].Result != "present" {
		s.Errorf("again: %+v", rows[0])
	}
	s.on(fixed, "chown -R cke: "+home+".ssh")
	if rows = authorize(0, fixed); rows[0].Result != "installed" {
		s.Errorf("after its home was corrected: %+v", rows[0])
	}
}
