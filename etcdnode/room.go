package etcdnode

import (
	"context"
	"strings"

	"cke"
)

// noRoom reports whether a container failed on a disk that is full, of which its last words may say nothing: they did not fit
// onto that disk either. It makes a container that is never started, which takes a few blocks of the disk that the engine's
// logs lie on, and removes it. Only a daemon asks, whose fleet has a guard; one that does not lead may make none: false.
func noRoom(ctx context.Context, s *session, c cke.Container) bool {
	if c.ExitCode == 0 || strings.Contains(c.LastWords, noSpaceText) {
		return false
	}
	name := visitPrefix + c.Name + ".room"
	_, err := s.engine.createTry(ctx, Description{Name: name, Image: c.Image})
	_ = s.engine.kill(ctx, name) // what is left is removed by the next visit
	return err != nil && noSpace(err)
}
