package main

import (
	"context"
	"errors"
	"fmt"

	"cke"
	"cke/backup"
	"cke/backup/target"
)

// noSecond refuses other data for a cluster of which no incarnation is on record, while its own target or that of the data has something of a
// cluster of its name, or cannot be read: ckecli, which refuses the same, may have read another directory, or what was there before.
func (s *snapshots) noSecond(ctx context.Context, o cke.RestoreOrder, own backup.Store) (*cke.Error, error) {
	if o.Source == s.cluster {
		return nil, nil
	}
	id, err := s.identity(ctx)
	if err != nil || !id.BringsSecond() {
		return nil, err
	}
	spec, err := s.store.Spec(ctx, s.cluster)
	if err != nil && !errors.Is(err, cke.ErrNotFound) {
		return nil, err
	}
	for _, url := range []string{o.Target, spec.Wanted().Backup.Target} {
		switch url {
		case "":
			continue
		case o.Target:
		default:
			credentials, err := targetCredentials(ctx, s.store, s.cluster, url)
			if err != nil {
				return nil, err
			}
			t, err := target.Open(ctx, url, credentials)
			if err != nil {
				return unknownSecond(s.cluster, url, err), nil
			}
			defer t.Close()
			own.Bucket, own.Past = t, backup.Past{}
			if err := own.Mounted(); err != nil {
				return unknownSecond(s.cluster, url, err), nil
			}
		}
		within, cancel := context.WithTimeout(ctx, listWithin)
		unknown, err := own.HasUnknown(within, id)
		slow := within.Err() != nil
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil && slow && url == o.Target:
			return slowSecond(s.cluster, url, err, "restore into a cluster of another name; or copy what is restored to another target first: ckecli backup copy --backup-cluster "+o.Source), nil
		case err != nil && slow:
			return slowSecond(s.cluster, url, err, "give the cluster a target of its own, such as another prefix: ckecli cluster set, then restore again; or restore into a cluster of another name"), nil
		case err != nil:
			return unknownSecond(s.cluster, url, err), nil
		case unknown:
			return backup.SecondOf(cke.CodeOlderStore, shown(url), s.cluster, o.Describe()), nil
		}
	}
	return nil, nil
}

// NoSecond implements cke.Snapshots. A target that lists what it has for very long has something.
func (s *snapshots) NoSecond(ctx context.Context, url string, id cke.Identity, progress func(string)) error {
	unread := func(err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		progress(fmt.Sprintf("the target cannot be read, so that it is not known whether it has another cluster %s: %v", s.cluster, err))
		return nil
	}
	credentials, err := targetCredentials(ctx, s.store, s.cluster, url)
	if err != nil {
		return unread(err)
	}
	t, err := target.Open(ctx, url, credentials)
	if err != nil {
		return unread(err)
	}
	defer t.Close()
	there := backup.Store{Bucket: t, Cluster: s.cluster}
	if err := there.Answers(ctx, ownTargetWithin); err != nil {
		return unread(err)
	}
	within, cancel := context.WithTimeout(ctx, listWithin)
	defer cancel()
	unknown, err := there.HasUnknown(within, id)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && within.Err() != nil:
		return slowSecond(s.cluster, url, err, "give the cluster a target of its own, such as another prefix: ckecli cluster set; or another name")
	case err != nil:
		return unread(err)
	case !unknown:
		if there.MayBeUnmounted() {
			progress(fmt.Sprintf("%s is missing or empty: it was never used, or it is not mounted, so that it is not known whether it has another cluster %s", shown(url), s.cluster))
		}
		return nil
	}
	return backup.Second(cke.CodeOlderStore, shown(url), s.cluster, "ckecli restore --from '"+shown(url)+"'",
		"its members may serve, also on nodes that the cluster file does not name",
		"to bring that cluster back: bring back a newer copy of the store; or ckecli cluster delete "+s.cluster+", then restore it from that target",
		"to make another cluster: give it another name, or a target of its own, such as another prefix",
		"only if that cluster is gone for good, and its backups are not needed: remove "+s.cluster+"/ from the target")
}

// slowSecond is the refusal where a target answers, and does not list what it has in time: no repetition lists it faster.
func slowSecond(cluster, url string, err error, try string) *cke.Error {
	return backup.UnknownSecond(fmt.Sprintf("%s answers, but did not list what it has of %s within %s", shown(url), cluster, listWithin), cluster, err, try)
}

func unknownSecond(cluster, url string, err error) *cke.Error {
	return backup.UnknownSecond(shown(url)+" cannot be read", cluster, err, "let the daemon read the target, then restore again")
}

// shown is the URL of a target without a password.
func shown(url string) string {
	t, _ := cke.ParseTarget(url)
	return t.URL
}
