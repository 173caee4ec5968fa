package etcdnode_test

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"cke"
	"cke/etcdnode"
)

// A daemon that is killed while it writes certificates sends a part of the archive. Members read their files at each new
// connection: a file in part would cut off a member that serves.
func TestMachine_FilesAreReplacedAsAWhole(t *testing.T) {
	r := newRig(t, 1, nil)
	inc := r.bootstrap(t)
	j, ctx := inc.Founders[0], t.Context()
	m, node := r.Machine(j.Node), r.cluster.Nodes[0].Hostname
	const dir = cke.CertificateDir + "/"
	version := func(of string) (files []cke.File) {
		for i := range 3 {
			files = append(files, cke.File{Path: fmt.Sprintf("%sfile%d", dir, i), Mode: 0o600, Data: bytes.Repeat([]byte(of), 700+i)})
		}
		return files
	}
	older, newer := version("old "), version("new ")
	packed, err := etcdnode.Replacing(newer)
	must(t, err)
	put := func(archive []byte) error {
		return r.lab.Run(ctx, node, bytes.NewReader(archive), io.Discard, io.Discard, "docker", "cp", "-", j.Volume+":"+etcdnode.DataPath)
	}
	replaced := map[int]int{} // files that are new, by how often that was so
	for cut := 0; cut <= len(packed); cut += 256 {
		must(t, m.PutFiles(ctx, j, older))
		if err := put(packed[:cut]); err != nil {
			t.Logf("the engine refuses %d of %d bytes: %v", cut, len(packed), err)
		}
		files, _, err := m.Certificates(ctx, j)
		must(t, err)
		seen := 0
		for i := range older {
			got := fileOf(files, older[i].Path)
			switch {
			case bytes.Equal(got, newer[i].Data):
				seen++
			case !bytes.Equal(got, older[i].Data):
				t.Fatalf("after %d of %d bytes %s has %d bytes, %.8q", cut, len(packed), older[i].Path, len(got), got)
			}
		}
		replaced[seen]++
	}
	t.Logf("%d bytes; files replaced, and how often: %v", len(packed), replaced)
	if replaced[0] == 0 || replaced[len(newer)] == 0 {
		t.Error("the cuts were not before and after what matters")
	}
	must(t, m.PutFiles(ctx, j, newer))
	left, err := r.lab.Exec(ctx, node, "sh", "-c", "ls -lAR $(docker volume inspect -f '{{.Mountpoint}}' "+j.Volume+")/pki*")
	must(t, err)
	t.Logf("in the volume:\n%s", left)
}

func fileOf(files []cke.File, path string) []byte {
	for _, f := range files {
		if f.Path == path {
			return f.Data
		}
	}
	return nil
}
