package lab

import (
	"context"
	"time"
)

// HangDocker stops a running node's engine with SIGSTOP: its socket accepts connections and does not answer, while
// containers continue to run. A hung engine stays hung until ResumeDocker, Reset or a power cycle.
func (l *Lab) HangDocker(ctx context.Context, node string) error {
	return l.signalEngine(ctx, node, "STOP")
}

// ResumeDocker lets a hung engine continue.
func (l *Lab) ResumeDocker(ctx context.Context, node string) error {
	return l.signalEngine(ctx, node, "CONT")
}

// RestartDocker restarts a running node's engine in good order, which stops its containers, and returns when it accepts
// connections again. Containers whose restart policy says so come back by themselves.
func (l *Lab) RestartDocker(ctx context.Context, node string) error {
	return l.endEngine(ctx, node, "TERM")
}

// CrashDocker kills a running node's engine, and returns when it runs again and accepts connections. The engine of the
// nodes (20.10) then ends the containers it finds running. Those with the restart policy "always" come back; those with
// "unless-stopped" do not.
func (l *Lab) CrashDocker(ctx context.Context, node string) error {
	return l.endEngine(ctx, node, "KILL")
}

func (l *Lab) endEngine(ctx context.Context, node, signal string) error {
	n, err := l.node(node)
	if err != nil {
		return err
	}
	since := time.Now()
	if err := l.signalEngine(ctx, n.Name, signal); err != nil {
		return err
	}
	return l.waitReady(ctx, n.Name, since, engineReady)
}

// signalEngine sends a signal, and then CONT unless it is STOP: a hung engine takes others only once it goes on.
func (l *Lab) signalEngine(ctx context.Context, node, signal string) error {
	script := "pid=$(cat /run/docker.pid) && kill -" + signal + " $pid"
	if signal != "STOP" {
		script += " && { kill -CONT $pid 2>/dev/null || :; }"
	}
	_, err := l.Exec(ctx, node, "sh", "-c", script)
	return err
}
