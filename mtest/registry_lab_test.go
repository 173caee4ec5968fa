package mtest_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"cke"
	"cke/internal/need"
	"cke/mtest/lab"
	"cke/mtest/rig"
)

// registryProgram is the registry that Docker's own is made of.
var registryProgram = need.Program{File: "registry-v3.1.2", Package: "github.com/distribution/distribution/v3/cmd/registry", Version: "v3.1.2"}

// A cluster's image is in a real registry with TLS and a login. The status names what is missing, one after the other: the CA on the
// nodes, the login, the right password. With that cke pulls the image and bootstraps, and no node keeps the password.
func TestLabRegistry_ImagesComeFromARegistryWithTLSAndALogin(t *testing.T) {
	extra(t)
	t.Parallel()
	program := registryProgram.Built(t)
	l := lab.ForTest(t, 4) // without any image
	s := storyOn(t, l, 3)
	const password = "correct horse"
	r := s.registry(l.Nodes()[3], program, "cke", password)

	login := s.file("registry-password", "wrong\n")
	d := s.daemon("cke1")
	s.setKey()
	c := s.spec()
	c.Options.Etcd.Image = r.image
	s.set(c)
	refused := func(says string) {
		s.Helper()
		s.await(says, seenLimit, func(st cke.Status) bool {
			return !slices.ContainsFunc(s.nodes, func(n lab.Node) bool {
				p, _ := problemOf(st, n.Name, cke.CodeImage)
				return !strings.Contains(p.Message, says)
			})
		})
	}
	refused("certificate")
	for _, n := range s.nodes {
		r.trustedBy(n)
	}
	refused("no basic auth credentials")

	s.must(s.WriteConfig(map[string]any{"images": map[string]any{
		"archive_dir": filepath.Join(s.Dir, "images"),
		"registries":  []map[string]any{{"host": r.host, "username": "cke", "password_file": login}},
	}}))
	_, err := d.Stop(stopLimit)
	s.must(err)
	d = s.daemon("cke1")
	refused("unauthorized")
	s.file("registry-password", password+"\n") // no restart: it is read for each pull
	s.ready()
	s.oneCluster()
	for _, n := range s.nodes {
		if got := s.on(n, "grep -rlF 'correct horse' /root /etc /home /var/lib/docker/containers 2>/dev/null || true"); got != "" {
			t.Errorf("%s keeps the password in %s", n.Name, got)
		}
	}
	if strings.Contains(d.LogText(), password) {
		t.Error("the daemon logs the password")
	}
}

// registry is a real one on a node of the lab.
type registry struct {
	s               *story
	host, image, ca string
}

// registry starts a registry that has the etcd image and lets one user in.
func (s *story) registry(n lab.Node, program, user, password string) registry {
	s.Helper()
	const home = "/var/lib/registry"
	r := registry{s: s, host: fmt.Sprintf("%s:5000", n.Address)}
	r.image = fmt.Sprintf("%s/etcd:v%s", r.host, rig.EtcdVersion)
	dir := s.TempDir()
	s.must(rig.OwnCertificate(dir, n.Address))
	cert, err := os.ReadFile(filepath.Join(dir, "server.crt"))
	s.must(err)
	key, err := os.ReadFile(filepath.Join(dir, "server.key"))
	s.must(err)
	r.ca = string(cert)
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	s.must(err)
	binary, err := os.Open(program)
	s.must(err)
	defer binary.Close()
	s.put(n, home+"/registry", binary)
	for name, text := range map[string]string{
		"cert.pem": string(cert), "key.pem": string(key), "htpasswd": fmt.Sprintf("%s:%s\n", user, hash),
		"config.yml": strings.ReplaceAll(`version: 0.1
storage: {filesystem: {rootdirectory: HOME/data}}
http: {addr: ":5000", tls: {certificate: HOME/cert.pem, key: HOME/key.pem}}
auth: {htpasswd: {realm: lab, path: HOME/htpasswd}}
`, "HOME", home),
	} {
		s.put(n, home+"/"+name, strings.NewReader(text))
	}
	s.on(n, fmt.Sprintf("chmod 755 %[1]s/registry; setsid -f %[1]s/registry serve %[1]s/config.yml > %[1]s/log 2>&1", home))
	r.trustedBy(n)
	img, err := lab.EtcdImage(s.ctx, rig.EtcdVersion, nil)
	s.must(err)
	s.must(s.Lab.LoadImage(s.ctx, img.Archive, n.Name))
	s.on(n, fmt.Sprintf("docker tag %s %s", img.Ref, r.image))
	s.eventually("the registry to serve", func() bool {
		_, err := s.Lab.Exec(s.ctx, n.Name, "sh", "-c", fmt.Sprintf("echo '%s' | docker login -u %s --password-stdin %s", password, user, r.host))
		return err == nil
	})
	s.on(n, "docker push "+r.image)
	return r
}

// trustedBy puts the registry's CA where the node's engine looks for it.
func (r registry) trustedBy(n lab.Node) {
	r.s.Helper()
	r.s.put(n, "/etc/docker/certs.d/"+r.host+"/ca.crt", strings.NewReader(r.ca))
}

// put writes a file on a node.
func (s *story) put(n lab.Node, path string, content io.Reader) {
	s.Helper()
	var stderr bytes.Buffer
	err := s.Lab.Run(s.ctx, n.Name, content, nil, &stderr, "sh", "-c", fmt.Sprintf("mkdir -p '%s' && cat > '%s'", filepath.Dir(path), path))
	if err != nil {
		s.Fatalf("write %s on %s: %v %s", path, n.Name, err, stderr.String())
	}
}
