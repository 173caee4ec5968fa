package etcdnode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cke"
)

const (
	// tryLimit bounds a try of options in all, tryWait how long etcd may take to end in it.
	tryLimit = 25 * time.Second
	tryWait  = 5 * time.Second
)

// TryOptions implements cke.Machine. etcd exits by itself because of what it lacks; one that keeps running has
// refused nothing. The name lets the next trial, or a later visit, remove what a crash left.
func (m machine) TryOptions(ctx context.Context, spec cke.MemberSpec) error {
	d := Describe(spec)
	d.Name = visitPrefix + d.Name + ".try"
	return m.write(ctx, tryLimit, "try the options of "+spec.Join.Volume, func(ctx context.Context, s *session) error {
		if err := s.engine.kill(ctx, d.Name); err != nil {
			return err
		}
		switch has, err := s.engine.hasImage(ctx, d.Image); {
		case err != nil:
			return err
		case !has:
			missing := m.noImage(d.Image, nil)
			missing.Unchanged = true
			return missing
		}
		id, err := s.engine.createTry(ctx, d)
		if err != nil {
			return errors.Join(m.notTaken(err), m.endVisit(ctx, d.Name)) // it may have been made although no answer came
		}
		return errors.Join(m.try(ctx, s, id), m.endVisit(ctx, id))
	})
}

func (m machine) try(ctx context.Context, s *session, id string) error {
	if err := s.engine.start(ctx, id); err != nil {
		return m.notTaken(err)
	}
	brief, cancel := context.WithTimeout(ctx, tryWait)
	defer cancel()
	_, err := s.engine.wait(brief, id)
	if brief.Err() != nil && ctx.Err() == nil {
		return nil
	}
	if err != nil {
		return err
	}
	log, err := s.engine.lastLog(ctx, id, lastWordsLines)
	if words := lastWords(log); err == nil && refuses(words) {
		return m.refused(words)
	}
	return err
}

func (m machine) refused(why string) error {
	return &cke.Error{Code: cke.CodeOptions, What: fmt.Sprintf("the member on %s could not run with the declared options: %s", m.node.Name(), why), Unchanged: true}
}

// notTaken tells an engine's refusal of what a container is to be made of from other trouble with it.
func (m machine) notTaken(err error) error {
	if containsAny(err.Error(), "bind source path does not exist", "invalid mount config", "executable file not found", "exec format error",
		"not a directory: unknown", "permission denied: unknown", "no such file or directory: unknown") {
		return m.refused(shorten(strings.Join(strings.Fields(err.Error()), " "), lastWordsLength))
	}
	return err
}

// refuses reports whether an etcd without volume and network ended for a value that it was given: what it lacks there is no
// such reason, nor is what nobody knows. Source: etcd, etcdmain.startEtcdOrProxyV2 and embed.StartEtcd: it reads its
// arguments, checks their values, and then reads the certificates and listens.
func refuses(words string) bool {
	return containsAny(words, "flag provided but not defined", "invalid value ", "invalid boolean ", "flag needs an argument", "bad flag syntax",
		"failed to verify flags", "conflicting environment variable", "discovery failed") &&
		!containsAny(words, DataPath, "read-only file system", "cannot assign requested address", "address family not supported",
			"lookup ", "dial ", "unreachable", "resource temporarily unavailable", "cannot allocate memory", "no space left")
}

func containsAny(s string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(s, p) })
}
