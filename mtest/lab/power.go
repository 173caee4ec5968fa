package lab

import (
	"context"
	"fmt"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
)

// Kill switches a node off as by pulling the plug, and returns when it is off. What it had written, synced or not, is
// still there: this machine's page cache survives. A node that is off stays so.
func (l *Lab) Kill(ctx context.Context, node string) error {
	n, err := l.node(node)
	if err != nil {
		return err
	}
	state, err := l.stateOf(ctx, n.Name)
	if err != nil || state == Stopped || state == Missing {
		return err
	}
	docker, err := l.engine(ctx)
	if err != nil {
		return err
	}
	gone, failed := docker.ContainerWait(ctx, n.Name, container.WaitConditionNotRunning)
	if err := docker.ContainerKill(ctx, n.Name, "KILL"); err != nil && !cerrdefs.IsConflict(err) {
		return fmt.Errorf("kill %s: %w", n.Name, err)
	}
	select {
	case <-gone:
		return nil
	case err := <-failed:
		return fmt.Errorf("wait until %s is off: %w", n.Name, err)
	}
}

// Start switches a node on and returns when its sshd and engine accept connections; containers that restart by
// themselves may still be starting. A running node is left alone.
func (l *Lab) Start(ctx context.Context, node string) error {
	n, err := l.node(node)
	if err != nil {
		return err
	}
	state, err := l.stateOf(ctx, n.Name)
	if err != nil {
		return err
	}
	switch state {
	case Running:
		return l.waitBooted(ctx, n.Name)
	case Paused:
		return l.Unpause(ctx, n.Name)
	case Missing:
		return fmt.Errorf("%w: container %s was removed: make it again with cke-lab wipe %s", ErrNotRunning, n.Name, n.Name)
	}
	return l.powerOn(ctx, n.Name)
}

func (l *Lab) powerOn(ctx context.Context, node string) error {
	docker, err := l.engine(ctx)
	if err != nil {
		return err
	}
	if err := docker.ContainerStart(ctx, node, container.StartOptions{}); err != nil {
		return fmt.Errorf("start %s: %w", node, err)
	}
	return l.waitReady(ctx, node, time.Time{}, sshdReady, engineReady)
}

// waitBooted waits for a running node that someone else may have switched on a moment ago.
func (l *Lab) waitBooted(ctx context.Context, node string) error {
	docker, err := l.engine(ctx)
	if err != nil {
		return err
	}
	info, err := docker.ContainerInspect(ctx, node)
	if err != nil {
		return fmt.Errorf("ask for the state of %s: %w", node, err)
	}
	// Older ones are up; their log may no longer tell.
	if started, err := time.Parse(time.RFC3339Nano, info.State.StartedAt); err != nil || time.Since(started) > readyLimit {
		return nil
	}
	return l.waitReady(ctx, node, time.Time{}, sshdReady, engineReady)
}

// Pause freezes everything on a node: connections stay open and nothing answers. A paused node stays so.
func (l *Lab) Pause(ctx context.Context, node string) error {
	n, err := l.node(node)
	if err != nil {
		return err
	}
	state, err := l.stateOf(ctx, n.Name)
	if err != nil || state == Paused {
		return err
	}
	if state != Running {
		return fmt.Errorf("%w: %s is %s", ErrNotRunning, n.Name, state)
	}
	docker, err := l.engine(ctx)
	if err != nil {
		return err
	}
	if err := docker.ContainerPause(ctx, n.Name); err != nil {
		return fmt.Errorf("pause %s: %w", n.Name, err)
	}
	return nil
}

// Unpause lets a frozen node continue. A running node is left alone. Cables that were cut or repaired meanwhile follow some
// milliseconds later.
func (l *Lab) Unpause(ctx context.Context, node string) error {
	n, err := l.node(node)
	if err != nil {
		return err
	}
	state, err := l.stateOf(ctx, n.Name)
	if err != nil || state == Running {
		return err
	}
	if state != Paused {
		return fmt.Errorf("%w: %s is %s", ErrNotRunning, n.Name, state)
	}
	docker, err := l.engine(ctx)
	if err != nil {
		return err
	}
	if err := docker.ContainerUnpause(ctx, n.Name); err != nil {
		return fmt.Errorf("unpause %s: %w", n.Name, err)
	}
	if _, err := l.exec(ctx, n.Name, "/lab/cuts"); err != nil { // changed while it was frozen, perhaps
		return fmt.Errorf("bring the cables of %s into line: %w", n.Name, err)
	}
	return nil
}

// stateOf asks Docker for the state of a node, given by its full name.
func (l *Lab) stateOf(ctx context.Context, node string) (State, error) {
	docker, err := l.engine(ctx)
	if err != nil {
		return "", err
	}
	info, err := docker.ContainerInspect(ctx, node)
	if cerrdefs.IsNotFound(err) {
		return Missing, nil
	}
	if err != nil {
		return "", fmt.Errorf("ask for the state of %s: %w", node, err)
	}
	return stateOf(info.State.Status), nil
}

func (l *Lab) needRunning(ctx context.Context, node string) error {
	state, err := l.stateOf(ctx, node)
	if err != nil {
		return err
	}
	if state != Running {
		return fmt.Errorf("%w: %s is %s", ErrNotRunning, node, state)
	}
	return nil
}
