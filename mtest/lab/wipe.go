package lab

import "context"

// WipeOptions say what survives a wipe.
type WipeOptions struct {
	KeepHostKey bool // false: a new host key, as after an installation from scratch
}

// Wipe replaces a node by a blank machine with the same name, address and cables, which carries the images it was made
// with and nothing else. It returns when the machine is up.
func (l *Lab) Wipe(ctx context.Context, node string, o WipeOptions) error {
	n, err := l.node(node)
	if err != nil {
		return err
	}
	if err := l.remove(ctx, n.Name); err != nil {
		return err
	}
	if !o.KeepHostKey {
		err := l.update(ctx, func(s *state) error {
			_, public, err := l.hostKey(n.Name, true)
			if found := s.find(l.name, n.Name); found != nil {
				found.HostKey = public
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	s, err := l.load()
	if err != nil {
		return err
	}
	return l.bringUp(ctx, s, *s.find(l.name, n.Name))
}
