package main

import (
	"testing"

	"cke"
	"cke/backup"
)

// The way out names the target, too: it need not be that of the cluster file.
func TestRestore_OfADamagedBackupNamesTheLastGoodRevision(t *testing.T) {
	damage := &backup.DamagedError{Object: "prod/a1b2/delta/00000000000000000003/0000000001-00000000000000000017.cke", LastGood: 16}
	err := cannotExtract(t.Context(), cke.RestoreOrder{Target: "s3://bucket/x?region=eu", Source: "prod"}, damage)
	e, is := err.(*cke.Error)
	if want := "ckecli restore --from 's3://bucket/x?region=eu' --source-cluster prod --lineage a1b2 --revision 16"; !is || e.Code != cke.CodeBackupDamaged || e.Try != want {
		t.Errorf("%+v", err)
	}
}
