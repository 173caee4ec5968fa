package fleet

import (
	"archive/tar"
	"errors"
	"io"
	"path"
	"slices"
	"strings"
	"time"
)

// tree is a directory of a node with all below it: the content of a volume. Paths in it are relative; "." is itself.
type tree struct {
	files map[string]*file
}

type file struct {
	dir     bool
	data    []byte
	mode    int64
	changed time.Time
}

func newTree() *tree {
	return &tree{files: map[string]*file{".": {dir: true, mode: 0o755, changed: time.Now()}}}
}

// below returns the paths of a directory and all in it, in order; of a file only its own.
func (t *tree) below(name string) []string {
	var all []string
	for p := range t.files {
		if p == name || name == "." || strings.HasPrefix(p, name+"/") {
			all = append(all, p)
		}
	}
	slices.Sort(all)
	return all
}

func (t *tree) remove(name string) {
	for _, p := range t.below(name) {
		delete(t.files, p)
	}
}

// put sets a file or directory, and when its directory changed.
func (t *tree) put(name string, f *file) {
	if old := t.files[name]; old != nil && old.dir && f.dir {
		old.mode = f.mode
		return
	}
	t.remove(name)
	t.files[name] = f
	t.parents(name)
	if dir := t.files[path.Dir(name)]; dir != nil {
		dir.changed = time.Now()
	}
}

func (t *tree) parents(name string) {
	for dir := path.Dir(name); ; dir = path.Dir(dir) {
		if t.files[dir] == nil || !t.files[dir].dir {
			t.files[dir] = &file{dir: true, mode: 0o755, changed: time.Now()}
		}
		if dir == "." {
			return
		}
	}
}

// unpack puts an archive into a directory; a file may go before a directory, as the engine does it where it is asked to.
func (t *tree) unpack(at string, archive io.Reader) error {
	for r := tar.NewReader(archive); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := path.Join(at, h.Name)
		f := &file{mode: h.Mode, changed: h.ModTime}
		switch h.Typeflag {
		case tar.TypeDir:
			f.dir = true
		case tar.TypeLink:
			of := t.files[path.Join(at, h.Linkname)]
			if of == nil {
				return errors.New("link to " + h.Linkname + ": no such file or directory")
			}
			f.data, f.mode = of.data, of.mode
		default:
			if f.data, err = io.ReadAll(r); err != nil {
				return err
			}
		}
		t.put(name, f)
	}
}

// pack writes a file, or a directory with all in it, as an archive in which it has its own name.
func (t *tree) pack(name, as string, to io.Writer) error {
	w := tar.NewWriter(to)
	for _, p := range t.below(name) {
		f := t.files[p]
		h := &tar.Header{Typeflag: tar.TypeReg, Name: path.Join(as, strings.TrimPrefix(strings.TrimPrefix(p, name), "/")), Mode: f.mode, Size: int64(len(f.data)), ModTime: f.changed}
		if name == "." && p != "." {
			h.Name = path.Join(as, p)
		}
		if f.dir {
			h.Typeflag, h.Name, h.Size = tar.TypeDir, h.Name+"/", 0
		}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := w.Write(f.data); err != nil {
			return err
		}
	}
	return w.Close()
}
