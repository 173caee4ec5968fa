package lab

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"os"
	"slices"
	"sync"
	"testing"
	"time"
)

// KeepVariable names the environment variable that, set to anything, keeps the lab of a failed test for inspection.
const KeepVariable = "CKE_LAB_KEEP"

// cleanupLimit bounds how long a lab may take to go, or to be reset.
const cleanupLimit = 2 * time.Minute

// Option changes what the nodes of a test's lab are like.
type Option func(*UpOptions)

// WithEtcd gives nodes the images of these etcd versions from their first boot.
func WithEtcd(versions ...string) Option {
	return func(o *UpOptions) { o.Etcd = append(o.Etcd, versions...) }
}

// WithDisk gives nodes a disk of so many bytes, or Unbounded.
func WithDisk(size int64) Option {
	return func(o *UpOptions) { o.Disk = size }
}

// ForTest makes a lab of n nodes for one test and removes it when the test ends, also when it fails. It skips the test
// under -short, and fails it if nodes cannot be had. The lab's state lies in the test's temporary directory.
func ForTest(t testing.TB, n int, options ...Option) *Lab {
	t.Helper()
	skipShort(t)
	l := newTestLab(t, t.TempDir())
	t.Cleanup(func() {
		if t.Failed() && os.Getenv(KeepVariable) != "" {
			l.disown()
			t.Logf("the lab is kept: cke-lab --dir %s --name %s list", l.parent(), l.name)
			return
		}
		retire(t, l)
	})
	bringUpForTest(t, l, n, options)
	return l
}

// Pool lends labs to the tests of one package, one after the other or side by side, so that nodes are made once. Make
// it in TestMain and close it there.
type Pool struct {
	options []Option

	mu   sync.Mutex
	dir  string
	idle []*Lab
}

// NewPool returns a pool whose nodes are made with these options. It makes nothing yet.
func NewPool(options ...Option) *Pool { return &Pool{options: options} }

// Lab lends a lab that has at least n nodes, in the state in which they started, until the test ends. It skips the
// test under -short. Images that earlier tests loaded may be there.
func (p *Pool) Lab(t testing.TB, n int) *Lab {
	t.Helper()
	skipShort(t)
	l := p.take(t, n)
	t.Cleanup(func() { p.giveBack(t, l) })
	bringUpForTest(t, l, n, p.options)
	return l
}

// take picks the idle lab that fits best, or makes one.
func (p *Pool) take(t testing.TB, n int) *Lab {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) > 0 {
		// The smallest that is large enough, else the largest, which grows.
		best := slices.MaxFunc(p.idle, func(a, b *Lab) int { return fit(a, n) - fit(b, n) })
		p.idle = slices.DeleteFunc(p.idle, func(l *Lab) bool { return l == best })
		return best
	}
	if p.dir == "" {
		dir, err := os.MkdirTemp("", "cke-lab-pool-")
		if err != nil {
			t.Fatalf("make a place for labs: %v", err)
		}
		p.dir = dir
	}
	return newTestLab(t, p.dir)
}

// fit is higher the better a lab suits a test of n nodes.
func fit(l *Lab, n int) int {
	if have := len(l.Nodes()); have >= n {
		return maxNodes + n - have
	} else {
		return have
	}
}

// giveBack resets a lab for the next test; one that cannot be reset is removed.
func (p *Pool) giveBack(t testing.TB, l *Lab) {
	ctx, cancel := context.WithTimeout(context.Background(), cleanupLimit)
	defer cancel()
	l.Progress = nil
	if err := l.Reset(ctx); err != nil {
		t.Logf("lab %s is given up: %v", l.name, err)
		retire(t, l)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, l)
}

// Close removes all labs that are not lent out.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), cleanupLimit)
	defer cancel()
	for _, l := range p.idle {
		if err := l.Down(ctx); err != nil {
			return err
		}
		l.Close()
	}
	p.idle = nil
	if p.dir == "" {
		return nil
	}
	return os.RemoveAll(p.dir)
}

func skipShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs real nodes")
	}
}

// newTestLab opens a lab under a name of its own that is removed, at the latest by the next test run, once this process
// is gone.
func newTestLab(t testing.TB, dir string) *Lab {
	t.Helper()
	b := make([]byte, 4)
	rand.Read(b)
	l, err := Open(dir, "test-"+hex.EncodeToString(b))
	if err == nil {
		err = l.own(true)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	return l
}

func bringUpForTest(t testing.TB, l *Lab, n int, options []Option) {
	t.Helper()
	o := UpOptions{Nodes: n}
	for _, option := range options {
		option(&o)
	}
	l.Progress = NewProgress(t.Output())
	err := l.Up(t.Context(), o)
	l.Progress = nil
	if err != nil {
		t.Fatalf("start a lab of %d nodes: %v", n, err)
	}
}

// retire removes a lab for good.
func retire(t testing.TB, l *Lab) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), cleanupLimit)
	defer cancel()
	l.Progress = nil
	if err := l.Down(ctx); err != nil {
		t.Errorf("remove lab %s: %v", l.name, err)
	}
	l.Close()
}
