package target_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/target"
)

func TestOpen_File(t *testing.T) {
	b, err := target.Open(t.Context(), "file://"+filepath.Join(t.TempDir(), "backups"), target.Credentials{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	backuptest.Run(t, b)
}

// What a crashed writer left behind in a directory is found through a target, too.
func TestTarget_SweepsADirectory(t *testing.T) {
	dir := t.TempDir()
	left := filepath.Join(dir, ".partial-1")
	if err := os.WriteFile(left, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-48 * time.Hour)
	if err := os.Chtimes(left, old, old); err != nil {
		t.Fatal(err)
	}
	b, err := target.Open(t.Context(), "file://"+dir, target.Credentials{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	store := &backup.Store{Bucket: b, Cluster: "prod"}
	if _, err := store.Prune(t.Context(), cke.Retention{Last: 1}, false); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
}

// A real S3 server, addressed with a prefix, by path, with credentials passed in.
func TestOpen_S3(t *testing.T) {
	address, _ := backuptest.Gateway(t, "backups")
	b, err := target.Open(t.Context(), fmt.Sprintf("s3://backups/some/prefix?region=us-east-1&endpoint=http://%s&path_style=true", address),
		target.Credentials{AccessKey: backuptest.AccessKey, SecretKey: backuptest.SecretKey})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	backuptest.Run(t, b)
}

func TestOpen_S3CredentialsFromTheEnvironment(t *testing.T) {
	address, _ := backuptest.Gateway(t, "backups")
	t.Setenv("AWS_ACCESS_KEY_ID", backuptest.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", backuptest.SecretKey)
	b, err := target.Open(t.Context(), "s3://backups?endpoint=http://"+address+"&path_style=true", target.Credentials{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Create(t.Context(), "x", backup.Content{Head: []byte("1")}); err != nil {
		t.Error(err)
	}
	wrong, err := target.Open(t.Context(), "s3://backups?endpoint=http://"+address+"&path_style=true", target.Credentials{AccessKey: "no", SecretKey: "no"})
	if err != nil {
		t.Fatal(err)
	}
	defer wrong.Close()
	if _, err := wrong.List(t.Context(), ""); err == nil {
		t.Error("listed with wrong credentials")
	}
}

func TestOpen_RefusesWhatIsNoTarget(t *testing.T) {
	for _, bad := range []string{"", "/var/backups", "file://relative/path", "file:///x?y=z", "ftp://x/y", "s3://bucket?path_style=perhaps", "s3://bucket?regio=x", "://"} {
		_, err := target.Open(t.Context(), bad, target.Credentials{})
		if err == nil || !strings.Contains(err.Error(), "backup target") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
