package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"cke"
)

// Orders reads what is requested and under way in the clusters of a store, as storage.Store does.
type Orders interface {
	Clusters(ctx context.Context) ([]string, error)
	RequestsOf(ctx context.Context, cluster string) (cke.Requests, error)
	Identity(ctx context.Context, cluster string) (cke.Identity, error)
}

// Ordered returns ErrBusy while a restore from the backups of the cluster source is requested or under way, in any cluster
// of a store and from any target: a URL may be another name of the same one.
func Ordered(ctx context.Context, o Orders, source string) error {
	clusters, err := o.Clusters(ctx)
	if err != nil {
		return unlessNone(err)
	}
	for _, cluster := range clusters {
		if err := unlessNone(orderedFor(ctx, o, cluster, source)); err != nil {
			if !errors.Is(err, ErrBusy) {
				err = fmt.Errorf("read the requests of cluster %s: %w", cluster, err)
			}
			return err
		}
	}
	return nil
}

func orderedFor(ctx context.Context, o Orders, cluster, source string) error {
	reads := func(order cke.RestoreOrder, by, how string) error {
		if order.Survivor != "" || order.Source != source {
			return nil
		}
		return fmt.Errorf("%w (%s has requested to restore %s from %s: %s)",
			ErrBusy, cmp.Or(by, "a user"), cluster, order.Describe(), how)
	}
	asked, err := o.RequestsOf(ctx, cluster) // first: what begins meanwhile is on record by the time that is read
	if err != nil {
		return err
	}
	if asked.Unread != nil {
		return fmt.Errorf("%w (request %s for %s cannot be read, and may be to restore)", ErrBusy, asked.Unread[0], cluster)
	}
	for _, t := range asked.Tasks {
		if t.Kind != cke.TaskRestore || t.Restore == nil {
			continue
		}
		if err := reads(*t.Restore, t.By, "it has not started"); err != nil {
			return err
		}
	}
	id, err := o.Identity(ctx, cluster)
	if err != nil {
		return err
	}
	for _, r := range id.Restores() {
		if err := reads(r.Order, r.By, "it is being prepared"); err != nil {
			return err
		}
	}
	return nil
}
