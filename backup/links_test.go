package backup_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cke/backup"
	"cke/backup/internal/etcdtest"
)

// A person moves a part of a target to a larger disk, and leaves a link.
func TestDir_FollowsLinks(t *testing.T) {
	ctx := etcdtest.Context(t)
	f := makeFixture(t, false)
	root := t.TempDir()
	real, larger := filepath.Join(root, "target"), filepath.Join(root, "larger")
	if _, err := f.store(t, f.bucket).Copy(ctx, backup.Dir(real), backup.CopyFilter{}); err != nil {
		t.Fatal(err)
	}
	all := names(t, backup.Dir(real))
	move := func(part string) {
		t.Helper()
		if err := os.Rename(part, larger); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(larger, part); err != nil {
			t.Fatal(err)
		}
	}
	back := func(part string) {
		t.Helper()
		if err := os.Remove(part); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(larger, part); err != nil {
			t.Fatal(err)
		}
	}
	for _, part := range []string{".", "prod", "prod/a1b2/delta", strings.TrimSuffix(all[0], "/")} {
		part = filepath.Join(real, part)
		move(part)
		left := filepath.Join(filepath.Dir(filepath.Join(real, all[0])), ".partial-1")
		if err := os.WriteFile(left, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		d := backup.Dir(real)
		if got := names(t, d); strings.Join(got, " ") != strings.Join(all, " ") {
			t.Errorf("%s is a link: %q", part, got)
		}
		if x, err := f.store(t, d).Extract(ctx, backup.At{}, filepath.Join(t.TempDir(), "out"), backup.ExtractOptions{}); err != nil || x.Revision != f.last {
			t.Errorf("%s is a link: revision %d of %d, %v", part, x.Revision, f.last, err)
		}
		if err := d.Sweep(ctx, -time.Hour); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(left); err == nil {
			t.Errorf("%s is a link: %s was not swept", part, left)
		}
		back(part)
	}

	// What is not mounted is no empty folder, and a circle ends.
	for to, says := range map[string]string{filepath.Join(root, "none"): "mounted?", real: "does a symbolic link point back?"} {
		link := filepath.Join(real, "prod/a1b2/more")
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
		if _, err := backup.Dir(real).List(ctx, "prod/"); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("a link to %s: %v", to, err)
		}
		if err := os.Remove(link); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMarked_ProbeNoticesAFullDisk(t *testing.T) {
	dir := smallDisk(t, "64k")
	s := &backup.Store{Bucket: backup.Dir(filepath.Join(dir, "target")), Cluster: "prod"}
	m, err := s.Mark(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	fill, err := os.Create(filepath.Join(dir, "fill"))
	if err != nil {
		t.Fatal(err)
	}
	defer fill.Close()
	for err == nil {
		_, err = fill.Write(make([]byte, 4096))
	}
	if err := m.Probe(t.Context(), true); err == nil {
		t.Error("a full disk takes something")
	}
}
