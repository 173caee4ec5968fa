package op

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"cke"
)

const (
	// lookEvery is the pause between two looks at a member that is starting.
	lookEvery = 10 * time.Millisecond
	// containerEvery is how often the container is observed meanwhile: an etcd that exited will not answer.
	containerEvery = 250 * time.Millisecond
	// rejoinLimit is how long a member that was started on its own data may take to serve again, once it has read its database.
	rejoinLimit = 20 * time.Second
	// loadRate is the least number of bytes per second that a member reads of its database before it answers: it builds its index,
	// and compares a hash with its peers.
	loadRate = 32 << 20
	// serveLimit bounds it all: etcd's databases are of 8 GB at most.
	serveLimit = 2*rejoinLimit + 8<<30/loadRate*time.Second
)

// awaitServing returns once the member answers a linearizable read, or when its process ended, or with ctx.
func awaitServing(ctx context.Context, e Env, j cke.Join) error {
	return awaitLoaded(ctx, e, j, readsLinearizably)
}

func readsLinearizably(s cke.EndpointStatus) bool { return s.Healthy() && s.Linearizable }

// awaitLoaded is await within rejoinLimit, after the time that a member needs to read its database if it does not answer before.
func awaitLoaded(ctx context.Context, e Env, j cke.Join, enough func(cke.EndpointStatus) bool) error {
	within := func(limit time.Duration, enough func(cke.EndpointStatus) bool) error {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return await(ctx, e, j, enough)
	}
	err := within(rejoinLimit, enough)
	answers := func(s cke.EndpointStatus) bool { return s.Problem == "" }
	if cke.CodeOf(err) != cke.CodeMemberSilent || ctx.Err() != nil || answers(e.Etcd.Endpoint(ctx, j.ClientURL())) {
		return err
	}
	size, sizeErr := e.Machines.Machine(j.Node).DataSize(ctx, j)
	load := time.Duration(size/loadRate) * time.Second
	if sizeErr != nil || load <= 0 {
		return err
	}
	if err := within(load, answers); err != nil {
		return err
	}
	return within(rejoinLimit, enough)
}

// await returns once the member's answer is enough, or when its process ended, or with ctx.
func await(ctx context.Context, e Env, j cke.Join, enough func(cke.EndpointStatus) bool) error {
	var last cke.EndpointStatus
	var ended *cke.Error // why etcd ended last, while the engine starts it again and again
	looked := e.Now()
	for {
		last = e.Etcd.Endpoint(ctx, j.ClientURL())
		if enough(last) {
			id, err := e.Ledger.Identity(ctx)
			switch {
			case err == nil && !id.OfAnother(last):
				return nil
			case err != nil && ctx.Err() == nil:
				return err
			}
			last.Problem = id.NotOurs(last)
		}
		if now := e.Now(); now.Sub(looked) >= containerEvery {
			looked = now
			var err error
			if ended, err = stillRunning(ctx, e, j, ended); err != nil {
				return err
			}
		}
		if err := e.Pause(ctx, lookEvery); err != nil {
			if ended != nil {
				ended.Err = err
				return ended
			}
			return &cke.Error{Code: cke.CodeMemberSilent, What: fmt.Sprintf("the member on %s does not serve yet", j.Node.Name()), Facts: silence(last), Err: err}
		}
	}
}

func silence(e cke.EndpointStatus) []string {
	if e.Problem != "" {
		return []string{e.Problem}
	}
	return []string{"it answers, but no linearizable read succeeds: no leader or no quorum"}
}

// stillRunning fails with the last words of an etcd that exited. Of one that the engine starts again it returns them,
// and else what was known before: between two starts it runs for a moment.
func stillRunning(ctx context.Context, e Env, j cke.Join, before *cke.Error) (*cke.Error, error) {
	c, err := e.Machines.Machine(j.Node).Container(ctx, j)
	switch {
	case errors.Is(err, cke.ErrNotFound):
		return nil, fmt.Errorf("the container of %s is gone: %w", j.Node.Name(), err)
	case err != nil:
		return before, nil // unknown: the endpoint decides
	case c.State == cke.ContainerRestarting:
		return Exited(j.Node.Name(), c), nil
	case c.State == cke.ContainerExited, c.State == cke.ContainerDead:
		return nil, Exited(j.Node.Name(), c)
	}
	return before, nil
}

// Exited returns the error of a container that exited, with its last words and, if they allow, a better code.
func Exited(node string, c cke.Container) *cke.Error {
	code := cke.CodeEtcdExited
	words := strings.ToLower(c.LastWords)
	switch {
	case strings.Contains(words, "no space left"):
		code = cke.CodeDiskFull
	case strings.Contains(words, "address already in use"):
		code = cke.CodePortTaken
	}
	how, why := Ending(c)
	e := &cke.Error{Code: code, What: fmt.Sprintf("etcd on %s %s", node, how)}
	if why != "" {
		e.Facts = []string{"its last words: " + why}
	}
	return e
}

// Ending describes how the process of a container ended, and returns its last words if they say why: those of a
// stopped one do not.
func Ending(c cke.Container) (how, why string) {
	if c.State == cke.ContainerExited && c.ExitCode == 0 {
		return "was stopped", ""
	}
	return fmt.Sprintf("ended with exit code %d", c.ExitCode), c.LastWords
}
