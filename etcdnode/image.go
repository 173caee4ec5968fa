package etcdnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/distribution/reference"
	"github.com/docker/docker/api/types/registry"

	"cke"
)

// progressEvery bounds how often the progress of a load is told.
const progressEvery = 200 * time.Millisecond

// EnsureImage implements cke.Machine. It prefers an archive to a registry: the management host is faster and more
// reliable.
func (m machine) EnsureImage(ctx context.Context, ref string, progress func(string)) error {
	if progress == nil {
		progress = func(string) {}
	}
	present := false
	err := m.read(ctx, engineLimit, "check for image "+ref, func(ctx context.Context, s *session) (err error) {
		present, err = s.engine.hasImage(ctx, ref)
		return err
	})
	if err != nil || present {
		return err
	}
	tried := []string{"it is not on the node"}
	brief, cancel := context.WithTimeout(ctx, allowed(archiveLimit))
	archive, looked, findErr := m.fleet.config.Archives.Find(brief, ref)
	cancel()
	if archive != "" {
		err := m.loadArchive(ctx, archive, ref, progress)
		if err == nil {
			return nil
		}
		if code := cke.CodeOf(err); code != cke.CodeInternal || errors.Is(err, cke.ErrDeposed) || ctx.Err() != nil {
			return err
		}
		tried = append(tried, err.Error())
	} else {
		tried = append(tried, m.notArchived(looked, findErr))
	}
	login, err := m.fleet.login(ref)
	if err == nil {
		err = m.write(ctx, imageLimit, "pull "+ref, func(ctx context.Context, s *session) error {
			progress("pulling")
			return s.engine.pullImage(ctx, ref, login, progress)
		})
	}
	if code := cke.CodeOf(err); err == nil || code != cke.CodeInternal || errors.Is(err, cke.ErrDeposed) || ctx.Err() != nil {
		return err
	}
	return &cke.Error{Code: cke.CodeImage, What: fmt.Sprintf("image %s is not available on %s", ref, m.node.Name()), Facts: append(tried, err.Error())}
}

// login is what an engine shows to the registry of an image, encoded as the Docker API wants it; empty: nothing.
func (f *Fleet) login(ref string) (string, error) {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil || f.config.Login == nil {
		return "", err
	}
	host := reference.Domain(named)
	username, password, err := f.config.Login(host)
	if err != nil {
		return "", fmt.Errorf("log in to %s: %w", host, err)
	}
	if username == "" {
		return "", nil
	}
	return registry.EncodeAuthConfig(registry.AuthConfig{Username: username, Password: password, ServerAddress: host})
}

// notArchived says why no archive was loaded.
func (m machine) notArchived(looked int, err error) string {
	a := m.fleet.config.Archives
	switch {
	case a == nil || a.Dir == "":
		return "no directory of image archives is configured (images.archive_dir)"
	case err != nil:
		return fmt.Sprintf("no archive in %s contains it (%d checked; %v)", a.Dir, looked, err)
	}
	return fmt.Sprintf("no archive in %s contains it (%d checked)", a.Dir, looked)
}

// loadArchive sends an archive through the SSH connection. Engines before 23 know gzip, but not zstd, so that is taken
// off here.
func (m machine) loadArchive(ctx context.Context, file, ref string, progress func(string)) error {
	var size int64
	f, err := onDisk(ctx, file, func() (*os.File, error) {
		info, err := os.Stat(file)
		if err != nil {
			return nil, err
		}
		size = info.Size()
		return os.Open(file)
	})
	if err != nil {
		return err
	}
	defer f.Close()
	counted := &countingReader{Reader: newLocalReader(ctx, file, f), total: size, tell: progress}
	var content io.Reader = counted
	if strings.HasSuffix(file, ".zst") {
		if content, err = decompress(file, counted); err != nil {
			return fmt.Errorf("read %s: %w", file, err)
		}
		defer content.(io.Closer).Close()
	}
	what := "load " + filepath.Base(file)
	return m.write(ctx, imageLimit, what, func(ctx context.Context, s *session) error {
		if err := s.engine.loadImage(ctx, content); err != nil {
			return err
		}
		present, err := s.engine.hasImage(ctx, ref)
		if err == nil && !present {
			err = fmt.Errorf("the archive was loaded, but image %s is still missing", ref)
		}
		return err
	})
}

// countingReader reports how far the reading has come, not too often.
type countingReader struct {
	io.Reader
	read, total int64
	told        time.Time
	tell        func(string)
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.read += int64(n)
	if now := time.Now(); now.Sub(r.told) >= progressEvery || r.read == r.total {
		r.told = now
		r.tell(progressText(r.read, r.total))
	}
	return n, err
}

// noImage is the error of what needs an image that the node lacks; err, which may be nil, is how the engine put it.
func (m machine) noImage(image string, err error) *cke.Error {
	return &cke.Error{Code: cke.CodeImage, What: fmt.Sprintf("image %s is not on %s", image, m.node.Name()), Err: err}
}
