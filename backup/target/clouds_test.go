package target_test

import (
	"testing"

	"cke/backup/backuptest"
	"cke/backup/target"
)

// The providers' own client libraries, as they are used in earnest, against servers of ours that speak as much of the
// providers' protocols as that needs. What the providers' services do beyond that, nothing here can tell.

func TestOpen_GCSAgainstAFakeServer(t *testing.T) {
	t.Setenv("STORAGE_EMULATOR_HOST", fakeGCS(t, "backups"))
	b, err := target.Open(t.Context(), "gs://backups/some/prefix", target.Credentials{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	backuptest.Run(t, b)
}

func TestOpen_AzureAgainstAFakeServer(t *testing.T) {
	t.Setenv("AZURE_STORAGE_ACCOUNT", azureAccount)
	t.Setenv("AZURE_STORAGE_KEY", azureKey)
	t.Setenv("AZURE_STORAGE_PROTOCOL", "http")
	t.Setenv("AZURE_STORAGE_DOMAIN", fakeAzure("backups"))
	b, err := target.Open(t.Context(), "azblob://backups/some/prefix", target.Credentials{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	backuptest.Run(t, b)
}
