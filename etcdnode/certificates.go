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

// Bounds of an observation of certificate files.
const (
	// certificatesEvery is how old may be what is known of the files of a member that answers; certificatesAgain, of one
	// that does not, or whose files could not be read.
	certificatesEvery = 10 * time.Minute
	certificatesAgain = 5 * time.Second
	// certificatePatience is how long an observation of a node, which is waited for for a second, waits for them to be read. They
	// are read to the end all the same, and a later look has them.
	certificatePatience = 250 * time.Millisecond
	// largestFile and mostFiles are far more than what is issued.
	largestFile = 64 << 10
	mostFiles   = 64
)

// Certificates implements cke.Machine.
func (m machine) Certificates(ctx context.Context, j cke.Join) (files []cke.File, worth cke.CertificateFiles, err error) {
	err = m.read(ctx, copyLimit, "read the certificates in "+j.Volume, func(ctx context.Context, s *session) error {
		c, err := own(ctx, s, j)
		if err != nil {
			return err
		}
		files, err = certificateFiles(ctx, s, c.ID)
		return err
	})
	return files, cke.ReadCertificates(files), err
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
	// failed: what was found is from an earlier look.
	failed bool
	// reading is closed when the look that is under way ends; nil: none is.
	reading chan struct{}
	// changed is when a file was last added to the directory or taken away, by the node's clock and as of the last look; checked is
	// when that was last asked for.
	changed, checked time.Time
	// writes counts how often files were written: what was read meanwhile tells nothing.
	writes int
}

func (l *certificateLooks) get(container string) certificateLook {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known[container]
}

// begin notes that a look starts; false: one is under way.
func (l *certificateLooks) begin(container string) (certificateLook, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.known[container]
	if now.reading != nil {
		return now, false
	}
	now.reading = make(chan struct{})
	l.put(container, now)
	return now, true
}

// end stores what the look that started found; nil: the files could not be read.
func (l *certificateLooks) end(container string, began certificateLook, found *cke.CertificateFiles, changed time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.known[container]
	switch {
	case now.writes != began.writes:
	case found == nil:
		now.at, now.failed = time.Now(), true
	default:
		now.at, now.failed, now.found = time.Now(), false, found
		now.changed, now.checked = changed, now.at
	}
	now.reading = nil
	l.put(container, now)
	close(began.reading)
}

// check notes that nothing had changed in the directory.
func (l *certificateLooks) check(container string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.known[container]
	now.checked = time.Now()
	l.put(container, now)
}

// forget makes the next look read the files.
func (l *certificateLooks) forget(container string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.known[container]
	l.put(container, certificateLook{writes: now.writes + 1, reading: now.reading})
}

// put is called with mu held.
func (l *certificateLooks) put(container string, look certificateLook) {
	if l.known == nil {
		l.known = map[string]certificateLook{}
	}
	l.known[container] = look
}

// certificates tells what the certificate files of a container of ours are worth. Where they cannot be read at once, what
// was known before stays; nil: nothing was. An observation of a node does not fail for it, and is late for it only once.
func (f *Fleet) certificates(ctx context.Context, s *session, c cke.Container) *cke.CertificateFiles {
	lasts, answers := f.memberOf(c.Join)
	if !lasts {
		return nil
	}
	old := f.looks.get(c.Name)
	every := certificatesEvery
	if c.State != cke.ContainerRunning || !answers || old.failed {
		every = certificatesAgain
	}
	if !old.at.IsZero() && time.Since(old.at) < every && !f.certificatesChanged(ctx, s, c, old) {
		return old.found
	}
	began, first := f.looks.begin(c.Name)
	if !first {
		return began.found
	}
	if !s.spawn(func() { f.readCertificates(s, c, began) }) {
		f.looks.end(c.Name, began, nil, time.Time{})
	}
	patience := time.NewTimer(allowed(certificatePatience))
	defer patience.Stop()
	select {
	case <-began.reading:
	case <-patience.C:
	case <-ctx.Done():
	}
	return f.looks.get(c.Name).found
}

// certificatesChanged reports whether files have been added or taken away since they were read last, which is asked for every
// certificatesAgain. What cannot be asked has not changed.
func (f *Fleet) certificatesChanged(ctx context.Context, s *session, c cke.Container, old certificateLook) bool {
	if time.Since(old.checked) < certificatesAgain {
		return false
	}
	at, err := changedAt(ctx, s, c.ID)
	if err != nil || at.Equal(old.changed) {
		f.looks.check(c.Name)
		return false
	}
	return true
}

// changedAt is when a file was last added to the certificate directory of a container, or taken away; zero: it is not there.
func changedAt(ctx context.Context, s *session, id string) (time.Time, error) {
	dir, err := s.engine.stat(ctx, id, DataPath+"/"+pkiDir)
	if errors.Is(err, cke.ErrNotFound) {
		return time.Time{}, nil
	}
	return dir.Mtime, err
}

// readCertificates does one look at the files of a container, which ends with the session at the latest.
func (f *Fleet) readCertificates(s *session, c cke.Container, began certificateLook) {
	ctx, cancel := context.WithTimeout(s.ctx, copyLimit)
	defer cancel()
	var found *cke.CertificateFiles
	var changed time.Time
	defer func() { f.looks.end(c.Name, began, found, changed) }()
	at, err := changedAt(ctx, s, c.ID) // before: what changes meanwhile is read again
	if err != nil {
		return
	}
	changed = at
	if files, err := certificateFiles(ctx, s, c.ID); err == nil {
		worth := cke.ReadCertificates(files)
		found = &worth
	}
}

// memberOf reports whether a membership is current, and whether its member answered when it was observed last.
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
