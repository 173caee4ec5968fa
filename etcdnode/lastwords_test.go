package etcdnode

import (
	"fmt"
	"strings"
	"testing"

	"cke"
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

// The ends of logs of etcd 3.5.35 whose member was removed: when that happened, and when it was started again.
func TestLastWords_OfARemovedMember(t *testing.T) {
	removed := `{"level":"warn","ts":"2026-11-26T00:07:12.893670Z","caller":"etcdserver/server.go:1160","msg":"server error","error":"the member has been permanently removed from the cluster"}
{"level":"warn","ts":"2026-11-26T00:07:12.893680Z","caller":"etcdserver/server.go:1161","msg":"data-dir used by this member must be removed"}
{"level":"info","ts":"2026-11-26T00:07:12.894003Z","caller":"rafthttp/peer.go:335","msg":"stopped remote peer","remote-peer-id":"ddd67b312462fd7b"}
{"level":"info","ts":"2026-11-26T00:07:12.898384Z","caller":"etcdmain/main.go:50","msg":"successfully notified init daemon"}`
	for name, log := range map[string]string{
		"when it was removed": removed,
		"a later start":       removed + "\n" + `{"level":"fatal","ts":"2026-11-26T00:07:13.087505Z","caller":"etcdmain/etcd.go:219","msg":"listener failed","error":"server is stopping"}`,
	} {
		if got := lastWords([]byte(log)); got != "server error: "+cke.WordsOfRemoved {
			t.Errorf("%s: %q", name, got)
		}
	}
	asked := `{"level":"panic","ts":"2026-11-26T03:51:42.812Z","caller":"membership/cluster.go:890","msg":"failed to find local ID in cluster members","cluster-id":"7c3ec3574d16b300","local-member-id":"83faa7aa3b1ac8b3"}
panic: failed to find local ID in cluster members

goroutine 214 [running]:
go.uber.org/zap/zapcore.CheckWriteAction.OnWrite(0x0?, 0x0?, {0x0?, 0x0?, 0xc0000a6000?})`
	if c := (cke.Container{State: cke.ContainerExited, LastWords: lastWords([]byte(asked))}); !c.SaysRemoved() {
		t.Errorf("asked for its status meanwhile: %q", c.LastWords)
	}
	other := `{"level":"warn","ts":"2026-11-26T00:07:10.848250Z","msg":"peer became inactive (message send to peer failed)","peer-id":"ddd67b312462fd7b","error":"failed to dial ddd67b312462fd7b on stream MsgApp v2 (the member has been permanently removed from the cluster)"}
{"level":"info","ts":"2026-11-26T00:07:12.898384Z","msg":"closed etcd server"}`
	if got := lastWords([]byte(other)); got != "closed etcd server" {
		t.Errorf("of another member: %q", got)
	}
}
