package etcdnode

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"sync"
	"time"

	"cke"
)

// Bounds of a look at certificate files.
const (
	// certificatesEvery is how old may be what is known of the files of a member that answers; certificatesAgain, of one
	// that does not.
	certificatesEvery = 10 * time.Minute
	certificatesAgain = 5 * time.Second
	// certificateLookLimit bounds reading them within a look at a node, which is waited for for a second.
	certificateLookLimit = 500 * time.Millisecond
	// largestFile and mostFiles are far more than what is issued.
	largestFile = 64 << 10
	mostFiles   = 64
)

// Certificates implements cke.Machine.
func (m machine) Certificates(ctx context.Context, j cke.Join) (files []cke.File, err error) {
	err = m.read(ctx, CopyLimit, "read the certificates in "+j.Volume, func(ctx context.Context, s *session) error {
		c, err := own(ctx, s, j)
		if err != nil {
			return err
		}
		files, err = certificateFiles(ctx, s, c.ID)
		return err
	})
	return files, err
}

// certificateFiles reads the files that a container, which need not run, has for TLS.
func certificateFiles(ctx context.Context, s *session, id string) ([]cke.File, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the stream
	r, err := s.engine.getTar(ctx, id, DataPath+"/"+pkiDir)
	if errors.Is(err, cke.ErrNotFound) {
		// It may have been said of the container: that files are missing is claimed only while it is there.
		_, err := s.engine.container(ctx, id)
		return nil, err
	}
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return unpack(r)
}

// unpack reads the plain files of a directory, whose own entry comes first.
func unpack(r io.Reader) ([]cke.File, error) {
	var files []cke.File
	for t := tar.NewReader(r); len(files) < mostFiles; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", pkiDir, err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		data, err := io.ReadAll(io.LimitReader(t, largestFile))
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", h.Name, err)
		}
		files = append(files, cke.File{Path: path.Clean(h.Name), Mode: h.Mode & 0o777, Data: data})
	}
	return files, nil
}

// certificateLooks remembers what the files of each container were worth, by name: they are read seldom, and what was in
// them, keys among it, is forgotten at once.
type certificateLooks struct {
	mu    sync.Mutex
	known map[string]certificateLook
}

type certificateLook struct {
	at    time.Time
	found *cke.CertificateFiles
	// writes counts how often files were written: what was read meanwhile tells nothing.
	writes int
}

func (l *certificateLooks) get(container string) certificateLook {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known[container]
}

// put stores what a look found that began when old was known.
func (l *certificateLooks) put(container string, old certificateLook, found *cke.CertificateFiles) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil {
		l.known = map[string]certificateLook{}
	}
	if l.known[container].writes == old.writes {
		l.known[container] = certificateLook{at: time.Now(), found: found, writes: old.writes}
	}
}

// forget makes the next look read the files.
func (l *certificateLooks) forget(container string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil {
		l.known = map[string]certificateLook{}
	}
	l.known[container] = certificateLook{writes: l.known[container].writes + 1}
}

// certificates tells what the certificate files of a container of ours are worth. Where they cannot be read now, what was
// known before stays; nil: nothing was. A look at a node does not fail for it.
func (f *Fleet) certificates(ctx context.Context, s *session, c cke.Container) *cke.CertificateFiles {
	lasts, answers := f.memberOf(c.Join)
	if !lasts {
		return nil
	}
	old := f.looks.get(c.Name)
	every := certificatesEvery
	if c.State != cke.ContainerRunning || !answers {
		every = certificatesAgain
	}
	if !old.at.IsZero() && time.Since(old.at) < every {
		return old.found
	}
	brief, cancel := context.WithTimeout(ctx, certificateLookLimit)
	defer cancel()
	files, err := certificateFiles(brief, s, c.ID)
	if err != nil {
		f.looks.put(c.Name, old, old.found) // a volume that hangs must not make every look at its node late
		return old.found
	}
	found := cke.ReadCertificates(files)
	f.looks.put(c.Name, old, &found)
	return &found
}

// memberOf reports whether a membership lasts, and whether its member answered when it was looked at last.
func (f *Fleet) memberOf(id cke.JoinID) (lasts, answers bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.scope.joins, func(j cke.Join) bool { return j.ID == id })
	if i < 0 {
		return false, false
	}
	e := f.members[f.scope.joins[i].ClientURL()]
	if e == nil || e.watch.Load() == nil {
		return true, false
	}
	facts, looks, _ := e.watch.Load().last()
	return true, looks > 0 && facts.status.Problem == ""
}
