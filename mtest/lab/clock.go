package lab

import (
	"context"
	_ "embed"
	"fmt"
	"time"
)

//go:embed clock/engine.pl
var clockOfEngine []byte

// clockRight gives the engine of a node its socket back, if something stands before it.
const clockRight = `if [ -e /run/lab-clock.pid ]; then kill "$(cat /run/lab-clock.pid)"; while [ -e /run/lab-clock.pid ]; do sleep 0.02; done; fi`

// SetClock lets a running node show a clock that is ahead by so much to those who ask its engine, until it is set to 0 or the engine
// starts again. All nodes share the clock of one kernel, which cannot be set for one of them: the header Date of the engine's answers is
// changed on their way, and nothing else is. Connections of its user end, so that none is left that was made before.
func (l *Lab) SetClock(ctx context.Context, node string, ahead time.Duration) error {
	n, err := l.node(node)
	if err != nil {
		return err
	}
	script := clockRight
	if ahead != 0 {
		if err := l.putFiles(ctx, n.Name, file{Name: "lab/engine.pl", Mode: 0o644, Data: clockOfEngine}); err != nil {
			return err
		}
		script += fmt.Sprintf("; perl /lab/engine.pl %d", int(ahead.Seconds()))
	}
	_, err = l.Exec(ctx, n.Name, "sh", "-ec", script+"; pkill -f '^sshd: "+nodeUser+"' || :")
	return err
}
