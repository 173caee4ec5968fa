package main

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"cke"
)

// nearFile is a cluster file of nodes on this machine that nobody answers for.
const nearFile = `# the root password is hunter2hunter2
name: prod
nodes:
  - {address: 127.0.0.1, hostname: cp1, user: cke, control_plane: true, ssh: {port: 1}}
  - {address: 127.0.0.2, hostname: cp2, user: cke, control_plane: true, ssh: {port: 1}}
  - {address: 127.0.0.3, hostname: cp3, user: cke, control_plane: true, ssh: {port: 1}}
options:
  etcd:
    extra_env: {PROXY_LOGIN: "s3cr3t-of-env", GOMEMLIMIT: 4GiB}
`

// unpack returns the files of a bundle by name, without the directory that holds them.
func unpack(t *testing.T, file string) map[string]string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		dir, name, _ := strings.Cut(h.Name, "/")
		if !strings.HasPrefix(dir, "cke-support-") || h.Mode != 0o600 {
			t.Errorf("entry %+v", h)
		}
		all[name] = string(data)
	}
}

func TestSupport_PacksWhatIsKnownAndNoSecret(t *testing.T) {
	h := newHouse(t)
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if user != "ops" || password != "p4ssw0rd-of-http" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprintf(w, "cke_leader{cluster=\"prod\"} 1\n# s3cr3t-of-env\n")
	}))
	defer daemon.Close()
	h.write("http.password", "p4ssw0rd-of-http\n")
	config, err := os.ReadFile(h.config)
	if err != nil {
		t.Fatal(err)
	}
	h.write("config.yml", string(config)+fmt.Sprintf("http: {listen: %q, basic_auth: {username: ops, password_file: %q}}\n", daemon.Listener.Addr(), h.dir+"/http.password"))

	h.run(exitDone, "cluster", "set", "--no-wait", h.write("cluster.yml", strings.ReplaceAll(nearFile, "s3cr3t-of-env", "0ld-s3cr3t-of-env")))
	h.run(exitDone, "cluster", "set", "--no-wait", h.write("cluster.yml", nearFile))
	key, _ := sshKey(t, "")
	h.run(exitDone, "ssh-key", "set", h.write("key", key))
	h.run(exitDone, "backup", "credentials", "set", h.write("aws", "[default]\naws_access_key_id = AKIAABCDEFGHIJKLMNOP\naws_secret_access_key = aws-secret-aws-secret\n"))
	l := h.lead("prod")
	h.form(l)
	l.end(l.begin(cke.Record{Operation: "bootstrap", Targets: []string{"cp1"}, Reason: "no member has data", Steps: []cke.StepRecord{{Name: "image", Node: "cp1", Progress: "https://ann:pa55-in-url@registry"}}}))
	s := ready(2)
	s.Members = []cke.MemberStatus{{Name: "cp1", State: "stopped", Reason: "etcd said: 0ld-s3cr3t-of-env"}}
	l.status(s)

	file := h.dir + "/out.tar.gz"
	stdout, stderr := h.run(exitDone, "support-bundle", file)
	if stdout != file+"\n" {
		t.Errorf("stdout is %q", stdout)
	}
	contains(t, stderr, "missing: nodes/cp1/logs: ")
	files := unpack(t, file)
	for name, holds := range map[string]string{
		"bundle.json": `"cluster": "prod"`, "version.json": `"version": "`, "config.yml": "listen: ", "cluster.yml": "GOMEMLIMIT: (left out)", "status.json": `"health": "READY"`,
		"history.json": `"name": "image"`, "leader.json": `"host": "boot-1"`, "requests.json": "", "plan.json": `"hash": "`, "members.json": "", "revisions.json": `"revision": 2`,
		"daemon/metrics.txt": "cke_leader{", "nodes/cp2/observation.json": `"problem": `, "nodes/cp3/logs.missing.txt": "",
	} {
		text, there := files[name]
		if !there || !strings.Contains(text, holds) {
			t.Errorf("%s: there %v, lacks %q: %s", name, there, holds, text)
		}
		var v any
		if strings.HasSuffix(name, ".json") && json.Unmarshal([]byte(text), &v) != nil {
			t.Errorf("%s is no JSON: %s", name, text)
		}
	}
	secrets := []string{"s3cr3t-of-env", "hunter2", "p4ssw0rd-of-http", "PRIVATE KEY", strings.Split(key, "\n")[1], "AKIAABCDEFGHIJKLMNOP", "aws-secret", "pa55-in-url", "AGE-SECRET-KEY", "age-encryption"}
	id, err := h.store.Identity(h.ctx(), "prod")
	if err != nil {
		t.Fatal(err)
	}
	secrets = append(secrets, id.Incarnation.Token)
	for name, text := range files {
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("%s holds %q", name, secret)
			}
		}
	}
	h.run(exitRefused, "support-bundle", file) // nothing is overwritten
	_, stderr = h.run(exitRefused, "support-bundle", h.dir+"/nowhere/out.tar.gz")
	contains(t, stderr, "error: there is no directory "+h.dir+"/nowhere to write the bundle to\n", "Nothing was changed.\n")
}

func TestSupport_WorksWithoutAStore(t *testing.T) {
	h := declared(t)
	h.embedded.Close()
	stdout, stderr := h.run(exitDone, "support-bundle", h.dir+"/out.tar.gz", "-o", "json")
	contains(t, stdout, `"name": "version.json"`, `"name": "status.json"`, `"problem": "`)
	contains(t, stderr, "missing: status.json: ")
	files := unpack(t, h.dir+"/out.tar.gz")
	if !strings.Contains(files["status.json.missing.txt"], "[CKE102]") || files["version.json"] == "" {
		t.Errorf("got %q", files)
	}
}

func TestSupport_WorksWithoutALeader(t *testing.T) {
	h := newHouse(t)
	h.run(exitDone, "cluster", "set", "--no-wait", h.write("cluster.yml", nearFile))
	h.env["CKECLI_TIMEOUT"] = "1m"
	stdout, _ := h.run(exitDone, "support-bundle", h.dir+"/out.tar.gz")
	contains(t, stdout, "out.tar.gz")
	files := unpack(t, h.dir+"/out.tar.gz")
	for _, name := range []string{"status.json.missing.txt", "leader.json.missing.txt", "plan.json.missing.txt", "cluster.yml", "nodes/cp1/observation.json"} {
		if files[name] == "" {
			t.Errorf("%s is missing in %v", name, files)
		}
	}
}
