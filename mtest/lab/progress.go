package lab

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

// Progress narrates steps: one line per step with the seconds it took. On a terminal the step that runs has a spinner;
// elsewhere a step is announced once it has taken longer than announceAfter. A nil Progress is silent.
type Progress struct {
	mu       sync.Mutex
	w        io.Writer
	terminal bool
}

const (
	announceAfter = time.Second
	spinEvery     = 100 * time.Millisecond
)

// NewProgress narrates on w; nil is silent.
func NewProgress(w io.Writer) *Progress {
	if w == nil {
		return nil
	}
	f, ok := w.(*os.File)
	return &Progress{w: w, terminal: ok && term.IsTerminal(int(f.Fd()))}
}

// step runs f and narrates it as what. It returns f's error unchanged.
func (p *Progress) step(what string, f func() error) error {
	if p == nil {
		return f()
	}
	start := time.Now()
	done := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() { p.watch(what, start, done) })
	err := f()
	close(done)
	watcher.Wait()
	outcome := "done"
	if err != nil {
		outcome = "failed"
	}
	p.line(fmt.Sprintf("%s: %s in %.1f s", what, outcome, time.Since(start).Seconds()))
	return err
}

// watch shows that a step is running, until done is closed.
func (p *Progress) watch(what string, start time.Time, done <-chan struct{}) {
	if !p.terminal {
		select {
		case <-done:
		case <-time.After(announceAfter):
			p.line(what + " …")
			<-done
		}
		return
	}
	tick := time.NewTicker(spinEvery)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-done:
			return
		case <-tick.C:
			p.mu.Lock()
			fmt.Fprintf(p.w, "\r\x1b[K%c %s … %.0f s", `|/-\`[i%4], what, time.Since(start).Seconds())
			p.mu.Unlock()
		}
	}
}

func (p *Progress) line(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
	fmt.Fprintln(p.w, text)
}

func countNodes(n int) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}
