package target_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

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

// A real S3 server, addressed with a prefix, by path, with credentials passed in.
func TestOpen_S3(t *testing.T) {
	address := gateway(t, "backups")
	b, err := target.Open(t.Context(), fmt.Sprintf("s3://backups/some/prefix?region=us-east-1&endpoint=http://%s&path_style=true", address),
		target.Credentials{AccessKey: accessKey, SecretKey: secretKey})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	backuptest.Run(t, b)
}

func TestOpen_S3CredentialsFromTheEnvironment(t *testing.T) {
	address := gateway(t, "backups")
	t.Setenv("AWS_ACCESS_KEY_ID", accessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", secretKey)
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
