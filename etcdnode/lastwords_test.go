package etcdnode

import (
	"fmt"
	"strings"
	"testing"
)

// What kept etcd from running is told, not a line of the stacks that follow it, however long these are.
func TestLastWords_OfADamagedDatabaseAreNotItsStack(t *testing.T) {
	var stacks strings.Builder
	for i := range 60 {
		fmt.Fprintf(&stacks, `
goroutine %d [select]:
go.etcd.io/etcd/client/pkg/v3/fileutil.purgeFile.func1()
	/go/pkg/mod/go.etcd.io/etcd/client/pkg/v3@v3.6.16/fileutil/purge.go:102 +0x5ea
go.etcd.io/bbolt.(*DB).View(0xc0001a2000, {0x1234, 0x5})
	go.etcd.io/bbolt@v1.4.3/db.go:939 +0x6c
created by go.etcd.io/etcd/server/v3/storage/backend.newBackend in goroutine 1
	go.etcd.io/etcd/server/v3/storage/backend/backend.go:255 +0x699
`, i)
	}
	before := `{"level":"info","ts":"2026-11-22T08:00:00.000000Z","msg":"opening the database"}` + "\n"
	for want, log := range map[string]string{
		"panic: freepages: failed to get all reachable pages (page 3: multiple references)": before + "panic: freepages: failed to get all reachable pages (page 3: multiple references)\n" + stacks.String(),
		"unexpected fault address 0x7f0000":                                                 before + "unexpected fault address 0x7f0000\n[signal SIGBUS: bus error code=0x2 addr=0x7f0000 pc=0x4]\n" + stacks.String(),
		"opening the database":                                                              before + stacks.String(),
		"":                                                                                  stacks.String()[100:],
	} {
		if got := lastWords([]byte(log)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
