package etcdnode

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"cke"
)

// Visit is a program of cke that runs on a node for a short time. It runs in a container of an image that is already
// there, on the node's network, and the engine removes the container when the program exits, even without any client.
// So the program must exit by itself.
type Visit struct {
	Image   string
	Program []byte // an executable that needs no library
	Args    []string
	// Processes: it sees the processes of the node.
	Processes bool
	// Dir is a directory of the node that the program finds at VisitDir; empty: a temporary one of the engine.
	Dir string
}

// VisitDir is where a visiting program finds its directory.
const VisitDir = "/cke"

// ErrNoDirectory is why a visit cannot have its directory.
var ErrNoDirectory = errors.New("no such directory")

const (
	visitPrefix  = "cke-preflight-"
	visitProgram = "/cke-preflight"
)

// Visit runs a program on a node and returns its stdout. It calls start when all else is ready, before the program
// starts. What was made on the node is removed, whatever the outcome; what a killed process or a restarted engine
// left is removed by the next visit after visitLimit. CodeImage: the image is not on the node. ErrNoDirectory: the
// directory is not.
func (f *Fleet) Visit(ctx context.Context, n cke.Node, v Visit, start func(context.Context) error) (stdout []byte, err error) {
	m := machine{f, n}
	id := make([]byte, 4)
	_, _ = rand.Read(id) // never fails
	name := visitPrefix + hex.EncodeToString(id)
	err = m.write(ctx, visitLimit, "run a helper container", func(ctx context.Context, s *session) (err error) {
		if err := m.prepareVisit(ctx, s, name, v); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, m.endVisit(ctx, name)) }()
		said, err := s.engine.attach(ctx, name)
		if err != nil {
			return err
		}
		defer said.Close()
		if err := start(ctx); err != nil {
			return err
		}
		if err := s.engine.start(ctx, name); err != nil {
			return err
		}
		var out, trouble bytes.Buffer
		err = frames(&out, &trouble, io.LimitReader(said, maxLog))
		if err == nil && trouble.Len() > 0 {
			err = errors.New(shorten(strings.TrimSpace(trouble.String()), lastWordsLength))
		}
		stdout = out.Bytes()
		return err
	})
	return stdout, err
}

// prepareVisit makes the container and puts the program into it.
func (m machine) prepareVisit(ctx context.Context, s *session, name string, v Visit) error {
	if err := removeLeft(ctx, s); err != nil {
		return err
	}
	switch has, err := s.engine.hasImage(ctx, v.Image); {
	case err != nil:
		return err
	case !has:
		return m.noImage(v.Image, nil)
	}
	if err := s.engine.createVisit(ctx, name, v); err != nil {
		if strings.Contains(err.Error(), "bind source path does not exist") {
			return fmt.Errorf("%s on %s: %w", v.Dir, m.node.Name(), ErrNoDirectory)
		}
		return errors.Join(err, m.endVisit(ctx, name)) // it may have been made although no answer came
	}
	program, err := programTar(v.Program)
	if err == nil {
		err = s.engine.putTar(ctx, name, "/", program)
	}
	if err != nil {
		return errors.Join(err, m.endVisit(ctx, name))
	}
	return nil
}

// removeLeft removes what visits have left on the node that were started longer than visitLimit ago, by its own clock.
func removeLeft(ctx context.Context, s *session) error {
	before := s.engine.time().Add(-visitLimit)
	ids, err := s.engine.leftVisits(ctx, before)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := s.engine.kill(ctx, id); err != nil && !errors.Is(err, cke.ErrConflict) { // the engine is removing it already
			return err
		}
	}
	names, err := s.engine.leftVolumes(ctx, before)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := s.engine.removeVolume(ctx, name); err != nil && !errors.Is(err, cke.ErrNotFound) && !errors.Is(err, cke.ErrConflict) {
			return err
		}
	}
	return nil
}

// endAgain is the pause between attempts to end a visit on a node or an engine that does not answer.
const endAgain = 500 * time.Millisecond

// endVisit removes the container of a visit, also when ctx has ended. A node or an engine that does not answer is
// waited for.
func (m machine) endVisit(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), engineLimit)
	defer cancel()
	for {
		err := m.read(ctx, engineLimit, "remove the helper container", func(ctx context.Context, s *session) error {
			err := s.engine.kill(ctx, name)
			if errors.Is(err, cke.ErrConflict) {
				return nil // the engine is removing it already
			}
			return err
		})
		if !Unanswered(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(endAgain):
		}
	}
}

// Unanswered reports whether a visit failed because the node, or its engine, did not answer: it may do so later.
func Unanswered(err error) bool {
	code := cke.CodeOf(err)
	return code == cke.CodeEngine || code == cke.CodeUnreachable
}

// programTar is a tar archive of the program, which is not copied.
func programTar(program []byte) (io.Reader, error) {
	var head bytes.Buffer
	err := tar.NewWriter(&head).WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path.Base(visitProgram), Mode: 0o755, Size: int64(len(program)), ModTime: time.Now()})
	const block = 512
	tail := make([]byte, (block-len(program)%block)%block+2*block)
	return io.MultiReader(&head, bytes.NewReader(program), bytes.NewReader(tail)), err
}
