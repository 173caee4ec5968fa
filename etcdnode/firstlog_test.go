package etcdnode

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.uber.org/zap"

	"cke"
)

// etcd's own reader finds in it what etcd's own bootstrap writes.
func TestFirstLog_IsWhatEtcdReads(t *testing.T) {
	s := cke.MemberSpec{Cluster: "demo", Token: "demo-8f3a", Join: cke.Join{Member: "n2", Node: cke.Node{Address: "10.0.0.2"}, PeerPort: 2380}}
	for i := range 3 {
		s.Peers = append(s.Peers, cke.Peer{Name: fmt.Sprintf("n%d", i+1), URL: fmt.Sprintf("https://10.0.0.%d:2380", i+1)})
	}
	file, err := firstLog(s)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, filepath.Base(file.Path)), file.Data, 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := wal.Open(zap.NewNop(), dir, &walpb.Snapshot{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	meta, state, entries, err := w.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if state.GetTerm() != 1 || state.GetVote() != 0 || state.GetCommit() != 3 || len(entries) != 3 || len(meta) == 0 {
		t.Errorf("%v, %d entries", state, len(entries))
	}
	var got []membership.Member
	for i, e := range entries {
		if e.GetIndex() != uint64(i+1) || e.GetTerm() != 1 {
			t.Errorf("%v", e)
		}
		var m membership.Member
		at := 0
		for at < len(e.GetData()) && e.GetData()[at] != '{' {
			at++
		}
		if err := json.Unmarshal(e.GetData()[at:], &m); err != nil {
			t.Fatalf("%q: %v", e.GetData(), err)
		}
		got = append(got, m)
	}
	var want []membership.Member
	for _, f := range s.Founders() {
		want = append(want, membership.Member{ID: got[len(want)].ID, RaftAttributes: membership.RaftAttributes{PeerURLs: []string{f.URL}}, Attributes: membership.Attributes{Name: f.Name}})
		if uint64(want[len(want)-1].ID) != f.ID {
			t.Errorf("id %d instead of %d", want[len(want)-1].ID, f.ID)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
