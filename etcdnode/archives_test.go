package etcdnode

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"cke"
)

// tarOf packs name and content, one after the other.
func tarOf(t testing.TB, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		if err := w.WriteHeader(&tar.Header{Name: files[i], Size: int64(len(files[i+1])), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, files[i+1])
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func compressed(t testing.TB, data []byte, with func(io.Writer) io.WriteCloser) []byte {
	t.Helper()
	var b bytes.Buffer
	w := with(&b)
	w.Write(data)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestArchives_FindsImagesInEveryFormat(t *testing.T) {
	dir := t.TempDir()
	layer := strings.Repeat("x", 1<<20)
	for name, data := range map[string][]byte{
		"plain.tar": tarOf(t, "aa/layer.tar", layer, "manifest.json", `[{"RepoTags":["gcr.io/etcd-development/etcd:v3.6.16","etcd:latest"]}]`),
		"packed.tar.gz": compressed(t, tarOf(t, "manifest.json", `[{"RepoTags":["quay.io/coreos/etcd:v3.5.35"]}]`), func(w io.Writer) io.WriteCloser {
			return gzip.NewWriter(w)
		}),
		"dense.tar.zst": compressed(t, tarOf(t, "manifest.json", `[{"RepoTags":["etcd:3.7.3"]}]`), func(w io.Writer) io.WriteCloser {
			z, err := zstd.NewWriter(w)
			if err != nil {
				t.Fatal(err)
			}
			return z
		}),
		"oci.tar":    tarOf(t, "index.json", `{"manifests":[{"annotations":{"io.containerd.image.name":"docker.io/library/etcd:oci","org.opencontainers.image.ref.name":"oci"}}]}`),
		"broken.tar": []byte("this is no archive, and long enough to look like the header of one" + strings.Repeat(".", 600)),
		"notes.txt":  []byte("no archive"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	a := &Archives{Dir: dir}
	for ref, want := range map[string]string{
		"gcr.io/etcd-development/etcd:v3.6.16": "plain.tar", "etcd": "plain.tar", "docker.io/library/etcd:latest": "plain.tar",
		"quay.io/coreos/etcd:v3.5.35": "packed.tar.gz", "etcd:3.7.3": "dense.tar.zst", "etcd:oci": "oci.tar", "etcd:9": "",
	} {
		file, looked, err := a.Find(t.Context(), ref)
		if want == "" {
			if file != "" || looked != 5 || err == nil || !strings.Contains(err.Error(), "broken.tar") {
				t.Errorf("%s: %q, %d, %v", ref, file, looked, err)
			}
			continue
		}
		if filepath.Base(file) != want || err != nil {
			t.Errorf("%s: %q, %v", ref, file, err)
		}
	}
	if _, _, err := a.Find(t.Context(), "Not A Ref"); err == nil {
		t.Error("a faulty reference was looked for")
	}
	for _, none := range []*Archives{nil, {}} {
		if file, looked, err := none.Find(t.Context(), "etcd"); file != "" || looked != 0 || err != nil {
			t.Errorf("without a directory: %q, %d, %v", file, looked, err)
		}
	}
}

func TestArchives_RemembersAFileUntilItChanges(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.tar")
	write := func(tag string, changed time.Time) {
		t.Helper()
		if err := os.WriteFile(file, tarOf(t, "manifest.json", `[{"RepoTags":["`+tag+`"]}]`), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, changed, changed); err != nil {
			t.Fatal(err)
		}
	}
	a := &Archives{Dir: filepath.Dir(file)}
	then := time.Now().Add(-time.Hour)
	write("etcd:1", then)
	if found, _, err := a.Find(t.Context(), "etcd:1"); found != file || err != nil {
		t.Fatalf("%q, %v", found, err)
	}
	write("etcd:2", then) // nobody can tell
	if found, _, _ := a.Find(t.Context(), "etcd:1"); found != file {
		t.Error("the file was read again")
	}
	write("etcd:2", then.Add(time.Minute))
	if found, _, _ := a.Find(t.Context(), "etcd:2"); found != file {
		t.Error("the file was not read again after it changed")
	}
}

func TestEnsureImage_TellsAllThatWasTried(t *testing.T) {
	t.Parallel()
	node := newFakeNode(t, "127.0.17.1", "ed25519", "ed25519")
	node.engine.answer("POST /images/create", "500 dial tcp: lookup gcr.io: no such host")
	dir := t.TempDir()
	fleet := fleetOf(t, newMemoryHostKeys(), func(c *Config) { c.Archives = &Archives{Dir: dir} }, node)
	err := fleet.Machine(node.node).EnsureImage(t.Context(), "etcd:1", nil)
	if cke.CodeOf(err) != cke.CodeImage {
		t.Fatalf("%s %v", cke.CodeOf(err), err)
	}
	for _, want := range []string{"not on the node", "no archive in " + dir, "no such host"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %q", want, err)
		}
	}
}

func TestEnsureImage_LogsInToTheRegistryOfTheImage(t *testing.T) {
	t.Parallel()
	for i, c := range []struct {
		ref, password string
		err           error
		want          string // the login that arrives; "": none
		says          string
	}{
		{ref: "registry.example.com:5000/etcd:1", password: "geheim", want: `{"username":"cke","password":"geheim","serveraddress":"registry.example.com:5000"}`, says: "denied"},
		{ref: "other.example.com/etcd:1", password: "geheim", says: "denied"},
		{ref: "etcd:1", password: "geheim", says: "denied"},
		{ref: "registry.example.com:5000/etcd:1", err: os.ErrNotExist, says: "log in to registry.example.com:5000: file does not exist"},
	} {
		node := newFakeNode(t, fmt.Sprintf("127.0.17.%d", 10+i), "ed25519", "ed25519")
		node.engine.answer("POST /images/create", "500 denied")
		fleet := fleetOf(t, newMemoryHostKeys(), func(config *Config) {
			config.Login = func(registry string) (string, string, error) {
				if registry != "registry.example.com:5000" {
					return "", "", nil
				}
				return "cke", c.password, c.err
			}
		}, node)
		err := fleet.Machine(node.node).EnsureImage(t.Context(), c.ref, nil)
		if cke.CodeOf(err) != cke.CodeImage || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%s: %v", c.ref, err)
		}
		got, err := base64.URLEncoding.DecodeString(node.engine.login)
		if string(got) != c.want || err != nil {
			t.Errorf("%s: the engine got %q, %v", c.ref, got, err)
		}
	}
}

func TestEnsureImage_LoadsAnArchiveBeforeItPulls(t *testing.T) {
	t.Parallel()
	node := newFakeNode(t, "127.0.18.1", "ed25519", "ed25519")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.tar"), tarOf(t, "manifest.json", `[{"RepoTags":["etcd:1"]}]`), 0o644); err != nil {
		t.Fatal(err)
	}
	node.engine.answer("POST /images/load", `{"stream":"Loaded image: etcd:1\n"}`)
	fleet := fleetOf(t, newMemoryHostKeys(), func(c *Config) { c.Archives = &Archives{Dir: dir} }, node)
	var told []string
	err := fleet.Machine(node.node).EnsureImage(t.Context(), "etcd:1", func(s string) { told = append(told, s) })
	// The engine says that it loaded the image, yet has it not: a lie is told, and the registry is tried.
	if cke.CodeOf(err) != cke.CodeImage || !strings.Contains(err.Error(), "is still missing") {
		t.Errorf("%v", err)
	}
	if node.engine.asked("POST /images/load") != 1 || len(told) < 2 || told[0] != "0 of 0 MB" {
		t.Errorf("progress %q", told)
	}
	node.engine.answer("GET /images/etcd:1/json", `{"Id":"sha256:1"}`)
	if err := fleet.Machine(node.node).EnsureImage(t.Context(), "etcd:1", nil); err != nil || node.engine.asked("POST") != 2 {
		t.Errorf("with the image there: %v", err)
	}
}
