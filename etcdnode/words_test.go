package etcdnode

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"cke"
)

func TestLastWords(t *testing.T) {
	for _, test := range []struct{ name, log, want string }{
		{"nothing", "", ""},
		{"fatal goes before later lines", `{"level":"info","msg":"starting"}
{"level":"error","msg":"creating peer listener failed","error":"listen tcp 10.0.0.1:2380: bind: address already in use"}
{"level":"fatal","msg":"discovery failed","error":"listen tcp 10.0.0.1:2380: bind: address already in use","stacktrace":"x\ny"}
{"level":"info","msg":"closing"}`, "discovery failed: listen tcp 10.0.0.1:2380: bind: address already in use"},
		{"error", `{"level":"warn","msg":"a"}
{"level":"error","msg":"failed to write","error":"no space left on device"}
{"level":"info","msg":"b"}`, "failed to write: no space left on device"},
		{"error of long ago", `{"level":"error","ts":"2026-11-21T04:17:58.100000Z","msg":"failed to update storage version"}
{"level":"info","ts":"2026-11-21T05:18:28.200000+0100","msg":"compacted"}`, "compacted"},
		{"error at the end", `{"level":"error","ts":"2026-11-21T04:18:28.100000Z","msg":"lost it"}
{"level":"info","ts":"2026-11-21T04:18:28.200000Z","msg":"closing"}`, "lost it"},
		{"error said once", `{"level":"fatal","msg":"bad: bad thing","error":"bad thing"}`, "bad: bad thing"},
		{"Go panic", `{"level":"info","msg":"a"}
panic: tocommit(58) is out of range [lastIndex(0)]

goroutine 156 [running]:
go.etcd.io/raft/v3.(*raftLog).commitTo(0x1)`, "panic: tocommit(58) is out of range [lastIndex(0)]"},
		{"zap panic before a Go panic", `{"level":"panic","msg":"failed to recover v3 backend from snapshot","error":"missing"}
panic: failed to recover v3 backend from snapshot
goroutine 1 [running]:`, "failed to recover v3 backend from snapshot: missing"},
		{"unknown flag", "flag provided but not defined: -bad-flag\n", "flag provided but not defined: -bad-flag"},
		{"unknown flag with etcd's usage, again and again", strings.Repeat("flag provided but not defined: -bad-flag\nUsage:\n\n  etcd [flags]\n    Start an etcd server.\n\n  etcd grpc-proxy\n    Run the stateless etcd v3 gRPC L7 reverse proxy.\n\n", 3), "flag provided but not defined: -bad-flag"},
		{"what comes after the usage", "Usage:\n  etcd [flags]\n{\"level\":\"fatal\",\"msg\":\"lost\"}", "lost"},
		{"one line", "a\tb  c", "a b c"},
	} {
		if got := lastWords([]byte(test.log)); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
	if got := lastWords([]byte(strings.Repeat("ü", 1000))); len(got) > lastWordsLength+len("…") {
		t.Errorf("%d bytes", len(got))
	}
}

func TestFirstSegment(t *testing.T) {
	archive := func(entries ...string) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, e := range entries {
			h := &tar.Header{Name: e, Typeflag: tar.TypeDir, Mode: 0o700}
			if !strings.HasSuffix(e, "/") {
				*h = tar.Header{Name: strings.TrimSuffix(e, " empty"), Typeflag: tar.TypeReg, Mode: 0o600}
				if !strings.HasSuffix(e, " empty") {
					h.Size = 1 << 20
				}
			}
			w.WriteHeader(h)
			w.Write(make([]byte, h.Size))
		}
		w.Close()
		return b.Bytes()
	}
	for _, test := range []struct {
		name, want string
		log        []byte
		fails      bool
	}{
		{"one", "0000000000000000-0000000000000000.wal", archive("wal/", "wal/0000000000000000-0000000000000000.wal"), false},
		{"behind what etcd prepares", "0000000000000007-0000000000000abc.wal", archive("wal/", "wal/0.tmp", "wal/0000000000000007-0000000000000abc.wal"), false},
		{"empty directory", "", archive("wal/"), false},
		{"only what etcd prepares", "", archive("wal/", "wal/0.tmp"), false},
		{"empty file", "", archive("wal/", "wal/0000000000000000-0000000000000000.wal empty"), false},
		{"nothing at all", "", archive(), true},
		{"not a tar", "", bytes.Repeat([]byte("x"), 1024), true},
		{"cut off", "", archive("wal/", "wal/0.tmp")[:4096], true},
	} {
		got, err := firstSegment(bytes.NewReader(test.log))
		if got != test.want || (err != nil) != test.fails {
			t.Errorf("%s: %q, %v", test.name, got, err)
		}
	}
}

func TestFirstSegment_ReadsNoFurther(t *testing.T) {
	var head bytes.Buffer
	w := tar.NewWriter(&head)
	w.WriteHeader(&tar.Header{Name: "wal/", Typeflag: tar.TypeDir, Mode: 0o700})
	w.WriteHeader(&tar.Header{Name: "wal/a.wal", Typeflag: tar.TypeReg, Mode: 0o600, Size: 64 << 20})
	r := io.MultiReader(&head, failingReader{})
	if name, err := firstSegment(r); name != "a.wal" || err != nil {
		t.Errorf("%q, %v", name, err)
	}
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errors.New("read on") }

func TestArchiveOf_MakesDirectoriesAndKeepsModes(t *testing.T) {
	data, err := archiveOf([]cke.File{{Path: "pki/peer.key", Mode: 0o600, Data: []byte("k")}, {Path: "pki/peer.crt", Mode: 0o644, Data: []byte("c")}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if err != nil {
			break
		}
		got = append(got, fmt.Sprintf("%s %o", h.Name, h.Mode))
	}
	if want := "pki/ 700,pki/peer.key 600,pki/peer.crt 644"; strings.Join(got, ",") != want {
		t.Errorf("%q", got)
	}
	for _, bad := range []string{"", "/etc/passwd", "../x", "a/../../x", "a//b", ".", ".."} {
		if _, err := archiveOf([]cke.File{{Path: bad}}); err == nil {
			t.Errorf("%q was packed", bad)
		}
	}
}

func TestEtcdImage(t *testing.T) {
	for image, want := range map[string]bool{
		"gcr.io/etcd-development/etcd:v3.6.16": true, "quay.io/coreos/etcd@sha256:abc": true, "etcd": true, "registry:5000/etcd": true,
		"mirror:5000/our/etcd-build:1": true, "nginx:1": false, "sha256:1234": false, "gcr.io/etcd-development/etcdctl:v1": false, "": false,
		"mirror:5000/other/etcd-build:1": false,
	} {
		if got := etcdImage(image, "mirror:5000/our/etcd-build:2"); got != want {
			t.Errorf("%q: %v", image, got)
		}
	}
}

func TestExplain_CodesOfEngineErrors(t *testing.T) {
	ended, end := context.WithCancel(context.Background())
	end()
	node := cke.Node{Address: "127.0.0.1", Hostname: "n1", User: "cke"}
	up := func() *session { return &session{node: node, ctx: context.Background()} }
	down := &session{node: node, ctx: ended, err: errSilent}
	for _, test := range []struct {
		name string
		s    *session
		err  error
		code cke.Code
		is   error
	}{
		{"full disk", up(), errors.New("Error response from daemon: write /x: no space left on device"), cke.CodeDiskFull, nil},
		{"forwarding", up(), fmt.Errorf("during connect: %w", &ssh.OpenChannelError{Reason: ssh.ConnectionFailed, Message: "open failed"}), cke.CodeForward, nil},
		{"engine hung up", up(), fmt.Errorf("during connect: %w", io.EOF), cke.CodeEngine, nil},
		{"node lost", down, io.EOF, cke.CodeUnreachable, cke.ErrUnreachable},
		{"node hung up", &session{node: node, ctx: ended, err: lost(io.EOF)}, io.ErrUnexpectedEOF, cke.CodeUnreachable, cke.ErrUnreachable},
		{"not found", up(), fmt.Errorf("%w: no such container", cke.ErrNotFound), cke.CodeInternal, cke.ErrNotFound},
		{"conflict", up(), fmt.Errorf("%w: in use", cke.ErrConflict), cke.CodeInternal, cke.ErrConflict},
		{"coded already", up(), &cke.Error{Code: cke.CodeImage, What: "x"}, cke.CodeImage, nil},
		{"caller gave up", up(), context.Canceled, cke.CodeInternal, context.Canceled},
	} {
		err := test.s.explain("do it", test.err)
		if cke.CodeOf(err) != test.code || test.is != nil && !errors.Is(err, test.is) {
			t.Errorf("%s: %s %v", test.name, cke.CodeOf(err), err)
		}
		if test.code != cke.CodeImage && !strings.Contains(err.Error(), "n1") && !strings.Contains(err.Error(), node.SSHAddress()) {
			t.Errorf("%s does not say where: %v", test.name, err)
		}
		if strings.Contains(err.Error(), "EOF") {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	if up().explain("do it", nil) != nil {
		t.Error("no error became one")
	}
	for _, e := range cke.Explanations() {
		if r := remedy(e.Code, node); r == "" || strings.Contains(r, "\n") {
			t.Errorf("remedy of %s: %q", e.Code, r)
		}
	}
}

func TestFollowStream_ErrorsAndProgress(t *testing.T) {
	var told []string
	err := followStream(strings.NewReader(`{"status":"Pulling fs layer","id":"a"}
{"status":"Downloading","id":"a","progressDetail":{"current":1000000,"total":40000000}}
{"status":"Downloading","id":"b","progressDetail":{"current":1000000,"total":23000000}}
{"status":"Downloading","id":"a","progressDetail":{"current":41000000,"total":40000000}}`), func(s string) { told = append(told, s) })
	if want := "1 of 40 MB,2 of 63 MB,42 of 63 MB"; err != nil || strings.Join(told, ",") != want {
		t.Errorf("%q, %v", told, err)
	}
	err = followStream(strings.NewReader(`{"errorDetail":{"message":"manifest unknown"},"error":"manifest unknown"}`), nil)
	if err == nil || err.Error() != "manifest unknown" {
		t.Errorf("%v", err)
	}
	if err := followStream(strings.NewReader(`{"status":"Down`), nil); err == nil {
		t.Error("a stream that broke counts as a success")
	}
}

func TestPull_KeepsABoundedAccountOfLayers(t *testing.T) {
	var account strings.Builder
	layer := func(id string) {
		fmt.Fprintf(&account, `{"status":"Downloading","id":%q,"progressDetail":{"current":1000000,"total":2000000}}`, id)
	}
	layer(strings.Repeat("x", longestLayer+1))
	for i := range 3 * mostLayers {
		layer(fmt.Sprint(i))
	}
	layer("0")
	var last string
	if err := followStream(strings.NewReader(account.String()), func(text string) { last = text }); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%d of %d MB", mostLayers, 2*mostLayers); last != want {
		t.Errorf("%q, want %q", last, want)
	}
}
