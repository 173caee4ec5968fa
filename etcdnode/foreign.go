package etcdnode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cke"
)

// foreignsPerLook bounds how many containers that cke did not make are inspected in one look: a node may have thousands that ended.
const foreignsPerLook = 50

// foreignsShown bounds how many of those that do not run an observation has: the status has to fit into a request of the store.
const foreignsShown = 200

// fewer leaves out of containers that cke did not make what is beyond the bound: first those that are down for good.
func (sc scope) fewer(all []cke.Container) []cke.Container {
	rank := func(c cke.Container) int {
		switch {
		case c.Running() || c.State == cke.ContainerRestarting || sc.ourName(c.Name):
			return 0
		case !c.Down():
			return 1
		}
		return 2
	}
	slices.SortStableFunc(all, func(a, b cke.Container) int { return cmp.Compare(rank(a), rank(b)) })
	always := slices.IndexFunc(all, func(c cke.Container) bool { return rank(c) > 0 })
	if always < 0 {
		return all
	}
	return all[:min(len(all), always+foreignsShown)]
}

// foreignFacts is what a container that cke did not make was configured as at a time.
type foreignFacts struct {
	at time.Time
	cke.Container
}

// inspectForeigns completes containers that cke did not make with what they are configured as: those that do not lie still first, then
// those that were inspected longest ago. The others are as they were inspected last; what was never inspected is unknown.
func inspectForeigns(ctx context.Context, s *session, all []cke.Container, known map[string]foreignFacts) ([]cke.Container, map[string]foreignFacts, error) {
	ended := func(c cke.Container) int {
		if c.State == cke.ContainerExited || c.State == cke.ContainerCreated || c.State == cke.ContainerDead {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(all, func(a, b cke.Container) int {
		return cmp.Or(cmp.Compare(ended(a), ended(b)), known[a.ID].at.Compare(known[b.ID].at))
	})
	facts := map[string]foreignFacts{}
	var found []cke.Container
	for i, c := range all {
		f := known[c.ID]
		if i < foreignsPerLook {
			e, err := s.engine.container(ctx, c.ID)
			if errors.Is(err, cke.ErrNotFound) {
				continue // gone meanwhile
			}
			if err != nil && ctx.Err() != nil {
				return nil, nil, err
			} // else what it is configured as stays unknown, which is no reason to doubt the node
			f = foreignFacts{time.Now(), e.Container}
		}
		facts[c.ID] = f
		c.PeerURLs, c.Mounts, c.KeptDown, c.AutoRemove = f.PeerURLs, f.Mounts, f.KeptDown, f.AutoRemove
		found = append(found, c)
	}
	return found, facts, nil
}

// Foreign implements cke.Machine.
func (m machine) Foreign(ctx context.Context, id string) (found cke.Container, err error) {
	err = m.read(ctx, engineLimit, "inspect container "+id, func(ctx context.Context, s *session) error {
		c, err := s.engine.container(ctx, id)
		found = c.Container
		return err
	})
	return found, err
}

// StopForeign implements cke.Machine.
func (m machine) StopForeign(ctx context.Context, id string, peerURLs []string, grace time.Duration) error {
	return m.write(ctx, grace+stopSlack, "stop container "+id, func(ctx context.Context, s *session) error {
		return stopForGood(ctx, s, grace, func() (engineContainer, error) {
			c, err := s.engine.container(ctx, id)
			switch {
			case err != nil:
			case c.ID != id || !c.Carries(peerURLs):
				err = fmt.Errorf("%s on %s is not a foreign etcd container of %s: %w", c.Name, m.node.Name(), strings.Join(peerURLs, ", "), cke.ErrConflict)
			case c.AutoRemove:
				err = fmt.Errorf("%s on %s would be removed once it stops: %w", c.Name, m.node.Name(), cke.ErrConflict)
			}
			return c, err
		})
	})
}

// stopForGood ends the engine's own restarts of a container and stops it. look returns the container, or why it must
// not be stopped. One that is not there is stopped.
func stopForGood(ctx context.Context, s *session, grace time.Duration, look func() (engineContainer, error)) error {
	c, err := look()
	if errors.Is(err, cke.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	for tries := 1; c.Restart != restartNever; tries++ {
		err := s.engine.setRestart(ctx, c.ID, restartNever)
		if err == nil {
			break
		}
		if tries == restartTries {
			return err
		}
		// An engine refuses while the container is ending by itself.
		select {
		case <-ctx.Done():
			return err
		case <-time.After(restartPause):
		}
		if c, err = look(); err != nil {
			return err
		}
	}
	if !c.Running() && c.State != cke.ContainerRestarting {
		return nil
	}
	return s.engine.stop(ctx, c.ID, grace)
}

// Settings of etcd that tell which peer URL is its own, as flags without dashes.
const (
	flagName       = "name"
	flagAdvertise  = "initial-advertise-peer-urls"
	flagListen     = "listen-peer-urls"
	flagCluster    = "initial-cluster"
	flagConfigFile = "config-file"
)

// ownPeerURLs returns the peer URLs that etcd takes for its own when it is run with these words and this environment:
// those that it tells others, else those at which it listens. None: they do not say, as when they name a file of
// settings, beside which etcd heeds nothing else. Source: etcd, configuration options.
func ownPeerURLs(words, env []string) []string {
	set := etcdSettings(words, env)
	if set[flagConfigFile] != "" {
		return nil
	}
	if urls := urlsIn(set[flagAdvertise]); urls != nil {
		return urls
	}
	var own []string
	for _, entry := range strings.Split(set[flagCluster], ",") {
		if name, url, ok := strings.Cut(entry, "="); ok && set[flagName] != "" && strings.TrimSpace(name) == set[flagName] {
			own = append(own, urlsIn(url)...)
		}
	}
	if own != nil {
		return own
	}
	return urlsIn(set[flagListen])
}

// etcdSettings reads settings from the environment and from flags, which go before it. A shell's line is read as words.
func etcdSettings(words, env []string) map[string]string {
	set := map[string]string{}
	for _, name := range []string{flagName, flagAdvertise, flagListen, flagCluster, flagConfigFile} {
		variable := "ETCD_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_")) + "="
		for _, e := range env {
			if value, is := strings.CutPrefix(e, variable); is {
				set[name] = value
			}
		}
	}
	all := strings.Fields(strings.Join(words, " "))
	for i, word := range all {
		flag := strings.TrimPrefix(strings.TrimPrefix(word, "-"), "-")
		if flag == word {
			continue
		}
		name, value, given := strings.Cut(flag, "=")
		if !given && i+1 < len(all) {
			value = all[i+1]
		}
		switch name {
		case flagName, flagAdvertise, flagListen, flagCluster, flagConfigFile:
			set[name] = strings.Trim(value, `'"`)
		}
	}
	return set
}

func urlsIn(list string) []string {
	var urls []string
	for _, url := range strings.Split(list, ",") {
		if url = strings.TrimRight(strings.TrimSpace(url), "/"); url != "" {
			urls = append(urls, url)
		}
	}
	return urls
}
