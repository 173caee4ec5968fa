package etcdnode

import (
	"context"

	"cke"
)

// Log returns the last bytes, at most most, of a container's output. cke.ErrNotFound: there is no such container.
func (f *Fleet) Log(ctx context.Context, n cke.Node, container string, most int) (log []byte, err error) {
	m := machine{f, n}
	err = m.read(ctx, copyLimit, "read the log of "+container, func(ctx context.Context, s *session) error {
		log, err = s.engine.endOfLog(ctx, container, most)
		return err
	})
	return log, err
}

// tail keeps the last bytes that are written to it.
type tail struct {
	kept []byte
	most int
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if len(t.kept) > 2*t.most {
		t.kept = append(t.kept[:0], t.kept[len(t.kept)-t.most:]...)
	}
	return len(p), nil
}

func (t *tail) end() []byte { return t.kept[max(len(t.kept)-t.most, 0):] }
