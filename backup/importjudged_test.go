package backup_test

import (
	"errors"
	"path/filepath"
	"strconv"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
)

// Of members whose data differs cke cannot know which are right. An alarm by which cke stopped writes for a restore says nothing of that.
func TestImport_CountsWhoseDataIsInDoubt(t *testing.T) {
	h := newHandMade(t)
	cli, err := clientv3.New(clientv3.Config{Endpoints: []string{h.Endpoint}, Username: "root", Password: "secret", Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer cli.Close()
	stop, err := strconv.ParseUint(cke.WriteStop("a1b2", 1).MemberID, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	for alarms, member := range []uint64{uint64(h.Etcd.Server.MemberID()), stop} {
		if _, err := pb.NewMaintenanceClient(cli.ActiveConnection()).Alarm(etcdtest.Context(t), &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, Alarm: pb.AlarmType_CORRUPT, MemberID: member}); err != nil {
			t.Fatal(err)
		}
		f := opened(t, h.save(t), false)
		if f.Alarms != int64(2+alarms) || f.Corrupt != 1 {
			t.Errorf("%+v", f.ImportInfo)
		}
	}
}

// Who cannot sign an import does not replace one: also where nothing else is signed there, no unsigned full is restored.
func TestImport_OnlyWhatIsSignedIsRestored(t *testing.T) {
	h := newHandMade(t)
	f := opened(t, h.save(t), false)
	s := importer(t, backuptest.NewMemory())
	forger := *s
	forger.Signer = nil
	if _, err := forger.Import(t.Context(), f, backup.ImportOptions{}); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	s.AllowUntrusted = false
	if _, err := s.Extract(t.Context(), backup.At{}, out, backup.ExtractOptions{}); !errors.Is(err, backup.ErrUntrusted) {
		t.Errorf("restored without a signature: %v", err)
	}
	s.AllowUntrusted = true
	if _, err := s.Extract(t.Context(), backup.At{}, out, backup.ExtractOptions{}); err != nil {
		t.Errorf("an operator has judged it: %v", err)
	}
}
