package probe_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cke/preflight/probe"
)

// free is an address of this machine that nobody listens on.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestRun_TellsWhatListensAndWhatIsReached(t *testing.T) {
	mine, other, nobody := free(t), free(t), free(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := t.TempDir()

	ended := make(chan probe.Result)
	go func() {
		ended <- probe.Run(t.Context(), probe.Task{Listen: []string{mine, taken.Addr().String()}, Dial: []string{other, nobody}, Dir: dir, For: 1})
	}()
	late, err := net.Listen("tcp", other) // one that begins later is reached, too
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	r := <-ended

	if got := r.Listened; got[mine] != "" || got[taken.Addr().String()] != probe.Taken {
		t.Errorf("listened: %q", got)
	}
	if got := r.Dialled; got[other] != "" || got[nobody] != probe.Refused {
		t.Errorf("dialled: %q", got)
	}
	if s := r.Sync; s == nil || s.Writes == 0 || s.P99 < s.Median || s.Median <= 0 || s.Problem != "" {
		t.Errorf("sync: %+v", s)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	if l, err := net.Listen("tcp", mine); err != nil {
		t.Errorf("it still listens: %v", err)
	} else {
		l.Close()
	}
}

func TestRun_TellsWhyNothingWasMeasured(t *testing.T) {
	r := probe.Run(t.Context(), probe.Task{Dir: "/nowhere", For: 0.1})
	if r.Sync == nil || r.Sync.Writes != 0 || r.Sync.Problem != "no such file or directory" {
		t.Errorf("%+v", r.Sync)
	}
}

// Whoever kills it leaves no file on the disk that was measured.
func TestRun_WritesToAFileThatNobodyHasToRemove(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan probe.Result)
	go func() { ended <- probe.Run(ctx, probe.Task{Dir: dir, For: 120}) }()
	awaitWrites(t, dir)
	seen, err := os.ReadDir(dir)
	if err != nil || len(seen) > 0 {
		t.Errorf("while it writes there is %v, %v", seen, err)
	}
	cancel()
	<-ended
}

// awaitWrites waits until this process has a file in dir open that has something in it.
func awaitWrites(t *testing.T, dir string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		open, err := filepath.Glob("/proc/self/fd/*")
		if err != nil {
			t.Fatal(err)
		}
		for _, fd := range open {
			name, _ := os.Readlink(fd)
			info, err := os.Stat(fd)
			if strings.HasPrefix(name, dir) && err == nil && info.Size() > 0 {
				return
			}
		}
	}
	t.Fatal("nothing was written")
}
