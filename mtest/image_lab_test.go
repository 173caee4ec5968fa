package mtest_test

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cke"
	"cke/mtest/lab"
	"cke/mtest/rig"
)

// nowhere is the name of an image in a registry that does not answer: a closed port on the node itself.
const nowhere = "127.0.0.1:1/etcd:v" + rig.EtcdVersion

func TestLabImage_ThatIsNowhereIsWaitedForAndLoadedFromAnArchive(t *testing.T) {
	extra(t)
	t.Parallel()
	l := lab.ForTest(t, 3) // without any image
	s := storyOn(t, l, 3)
	s.daemon("cke1")
	s.setKey()
	before := s.carriedBy(s.nodes)
	c := s.spec()
	c.Options.Etcd.Image = nowhere
	s.set(c)
	for _, n := range s.nodes {
		if p := s.awaitProblem(n.Name, cke.CodeImage); !strings.Contains(p.Remedy, "images.archive_dir") || !strings.Contains(p.Message, nowhere) {
			t.Errorf("problem %+v", p)
		}
	}
	st := s.now()
	if st.Incarnation != "" || st.Health != cke.HealthForming {
		t.Errorf("something has begun: %s, incarnation %q", st.Health, st.Incarnation)
	}
	for name, has := range s.carriedBy(s.nodes) {
		if has != before[name] {
			t.Errorf("%s carries\n%s", name, has)
		}
	}

	img, err := lab.EtcdImage(s.ctx, rig.EtcdVersion, nil)
	s.must(err)
	s.must(retag(img.Archive, filepath.Join(s.Dir, "images", "etcd.tar"), nowhere))
	progress := map[string]bool{}
	s.must(s.Follow(s.within(readyLimit), func(r cke.Record) bool {
		for _, step := range r.Steps {
			if step.Name == "image" && strings.HasSuffix(step.Progress, " MB") {
				progress[step.Node] = true
			}
		}
		return r.Operation == "bootstrap" && r.State == cke.RecordCompleted
	}))
	if len(progress) != 3 {
		t.Errorf("progress was told of %v", progress)
	}
	s.ready()
	s.oneCluster()
}

// retag copies a docker archive and gives its image another name.
func retag(archive, to, ref string) error {
	in, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer in.Close()
	// Under another name while it is written: half an archive is none.
	out, err := os.Create(to + ".part")
	if err != nil {
		return err
	}
	defer out.Close()
	w := tar.NewWriter(out)
	for r := tar.NewReader(in); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		var content io.Reader = r
		if h.Name == "manifest.json" {
			var manifest []map[string]any
			if err := json.NewDecoder(r).Decode(&manifest); err != nil {
				return err
			}
			manifest[0]["RepoTags"] = []string{ref}
			data, err := json.Marshal(manifest)
			if err != nil {
				return err
			}
			h.Size, content = int64(len(data)), strings.NewReader(string(data))
		}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.Copy(w, content); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.Rename(out.Name(), to)
}
