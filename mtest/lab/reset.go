package lab

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
)

// Reset brings every node back to how it started, much faster than making it again: powered on, cables whole, engine
// running with the right clock, no containers, no volumes, disk free, nothing in /mnt, /srv, /tmp and the user's home. Images loaded since
// stay, and so do host keys.
func (l *Lab) Reset(ctx context.Context) error {
	if err := l.changeCuts(ctx, func(s *state) error {
		for i := range s.Nodes {
			s.Nodes[i].Cuts = nil
		}
		return nil
	}); err != nil {
		return err
	}
	s, err := l.load()
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, n := range s.Nodes {
		g.Go(func() error {
			if err := l.bringUp(ctx, s, n); err != nil {
				return err
			}
			if _, err := l.exec(ctx, n.Name, "sh", "-ec", clockRight+"; exec /lab/clean"); err != nil {
				return fmt.Errorf("reset %s: %w", n.Name, err)
			}
			return nil
		})
	}
	return g.Wait()
}
