package etcdnode

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"cke"
)

// machine is one node as operations change it.
type machine struct {
	fleet *Fleet
	node  cke.Node
}

var _ cke.Machine = machine{}

// read runs a call on the engine; write is one that changes something, and is not started once the term is over. While it runs
// the fence asks before each request.
func (m machine) read(ctx context.Context, limit time.Duration, what string, call func(context.Context, *session) error) error {
	s, err := m.fleet.session(ctx, m.node)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return s.call(ctx, limit, what, func(ctx context.Context) error { return call(ctx, s) })
}

func (m machine) write(ctx context.Context, limit time.Duration, what string, call func(context.Context, *session) error) error {
	if err := m.fleet.guard(); err != nil {
		return fmt.Errorf("%s on %s: %w", what, m.node.Name(), err)
	}
	return m.read(ctx, limit, what, call)
}

// own returns the join's container. It is found by its name or, if it was renamed, by its labels. cke.ErrNotFound: none.
// cke.ErrConflict: the one of that name is another one's, or several have the labels.
func own(ctx context.Context, s *session, j cke.Join) (engineContainer, error) {
	c, err := s.engine.container(ctx, j.Volume)
	if err == nil {
		err = ours(c.Container, j)
	}
	if !errors.Is(err, cke.ErrNotFound) && !errors.Is(err, cke.ErrConflict) {
		return c, err
	}
	labeled, listErr := s.engine.labeled(ctx, j)
	switch {
	case listErr != nil:
		return engineContainer{}, listErr
	case len(labeled) == 0:
		return c, err
	case len(labeled) > 1:
		return engineContainer{}, fmt.Errorf("%d containers on %s have the labels of membership %s: %w", len(labeled), j.Node.Name(), j.ID, cke.ErrConflict)
	}
	return s.engine.container(ctx, labeled[0].ID)
}

// EnsureContainer implements cke.Machine.
func (m machine) EnsureContainer(ctx context.Context, spec cke.MemberSpec) error {
	d := Describe(spec)
	return m.write(ctx, engineLimit, "create container "+d.Name, func(ctx context.Context, s *session) error {
		// The engine would make a volume that is missing, without labels.
		before, err := m.volume(ctx, s, spec.Join)
		if err == nil && d.Restart == restartAlways {
			err = mayRun(ctx, s, spec.Join)
		}
		if err != nil {
			return err
		}
		c, err := own(ctx, s, spec.Join)
		switch {
		case errors.Is(err, cke.ErrNotFound):
			if err := m.portsFree(ctx, s, spec); err != nil {
				return err
			}
		case err != nil:
			return err
		case spec.Join.StartedAt.IsZero() && c.EverRan():
			return cke.StartedOffRecord(m.node.Name(), c.Container)
		case c.Description == d.Digest() && spec.Join.Etcd.Resources.Of(c.Container) && c.MadeWith(spec.Join.Etcd):
			if c.Restart == d.Restart {
				return nil
			}
			return s.engine.setRestart(ctx, c.ID, d.Restart)
		case c.Running() || c.State == cke.ContainerRestarting:
			return fmt.Errorf("it runs with another description: %w", cke.ErrConflict)
		default:
			if !c.StandsAt(spec.Join) {
				if err := m.portsFree(ctx, s, spec); err != nil {
					return err
				}
			}
			if c.Name != d.Name { // it was renamed
				if _, err := s.engine.container(ctx, d.Name); !errors.Is(err, cke.ErrNotFound) {
					return errors.Join(err, fmt.Errorf("the container of %s was renamed to %s, and another container has its name: %w", spec.Join.ID, c.Name, cke.ErrConflict))
				}
			}
			if err := s.engine.remove(ctx, c.ID); err != nil {
				return err
			}
		}
		id, err := s.engine.create(ctx, d)
		if errors.Is(err, cke.ErrNotFound) {
			return m.noImage(d.Image, err)
		}
		if err != nil {
			return err
		}
		made, err := m.volume(ctx, s, spec.Join)
		if err == nil && made.Join != before.Join {
			err = m.volumeMissing(spec.Join)
		}
		if err != nil {
			return errors.Join(err, s.engine.remove(ctx, id))
		}
		return nil
	})
}

// portsFree refuses a member, which has no container for them yet, ports that a container of another cluster on the node was made
// for, whether it runs or not.
func (m machine) portsFree(ctx context.Context, s *session, spec cke.MemberSpec) error {
	all, err := s.engine.containers(ctx)
	if err != nil {
		return err
	}
	n := cke.NodeStatus{Node: m.node}
	_, n.Neighbors = cke.SplitNeighbors(spec.Cluster, all)
	if p := n.PortTaken(spec.Join.ClientPort, spec.Join.PeerPort); p != nil {
		return &cke.Error{Code: p.Code, What: "cannot create container " + spec.Join.Volume + ": " + p.Message, Try: p.Remedy}
	}
	return nil
}

// volume returns the join's volume. cke.ErrDataMissing: it is not there.
func (m machine) volume(ctx context.Context, s *session, j cke.Join) (cke.Volume, error) {
	v, err := s.engine.volume(ctx, j.Volume)
	if errors.Is(err, cke.ErrNotFound) {
		return v.Volume, m.volumeMissing(j)
	}
	if err != nil {
		return v.Volume, err
	}
	return v.Volume, ownVolume(v.Volume, j)
}

func (m machine) volumeMissing(j cke.Join) error {
	return &cke.Error{Code: cke.CodeDataMissing, What: fmt.Sprintf("volume %s is not on %s", j.Volume, m.node.Name()), Err: cke.ErrDataMissing}
}

// PutFiles implements cke.Machine. It closes the member's connection, so that the next one sees new certificates.
func (m machine) PutFiles(ctx context.Context, j cke.Join, files []cke.File) error {
	packed, err := replacing(files)
	if err != nil {
		return fmt.Errorf("put files into %s: %w", j.Volume, err)
	}
	return m.write(ctx, copyLimit, "put files into "+j.Volume, func(ctx context.Context, s *session) error {
		c, err := own(ctx, s, j)
		if err != nil {
			return err
		}
		m.fleet.looks.forget(c.Name)
		defer m.fleet.redial(j.ClientURL())
		defer m.fleet.looks.forget(c.Name)
		return s.engine.putTar(ctx, c.ID, DataPath, bytes.NewReader(packed))
	})
}

// PutFounder implements cke.Machine.
func (m machine) PutFounder(ctx context.Context, spec cke.MemberSpec, files []cke.File) error {
	j := spec.Join
	log, err := firstLog(spec)
	if err != nil {
		return err
	}
	packed, err := archiveOf(append(files, log))
	if err != nil {
		return fmt.Errorf("put files into %s: %w", j.Volume, err)
	}
	return m.write(ctx, copyLimit, "put files and the first log into "+j.Volume, func(ctx context.Context, s *session) error {
		c, err := own(ctx, s, j)
		if err != nil {
			return err
		}
		if !c.StartedAt.IsZero() {
			return fmt.Errorf("container %s was started before: %w", c.Name, cke.ErrConflict)
		}
		m.fleet.looks.forget(c.Name)
		defer m.fleet.looks.forget(c.Name)
		return s.engine.putTar(ctx, c.ID, DataPath, bytes.NewReader(packed))
	})
}

// archiveOf packs files with the directories that they need.
func archiveOf(files []cke.File) ([]byte, error) {
	return pack(func(a *archive) error {
		for _, f := range files {
			if err := a.file(f); err != nil {
				return err
			}
		}
		return nil
	})
}

// replacing packs files so that none is ever there in part: all of them are unpacked beside their places first, then each
// is linked into its own, and an empty file stays beside. An archive that ends early, since its sender was killed, leaves each
// file as it was or whole.
func replacing(files []cke.File) ([]byte, error) {
	return pack(func(a *archive) error {
		for _, f := range files {
			f.Path = path.Join(incomingDir, f.Path)
			if err := a.file(f); err != nil {
				return err
			}
		}
		for _, f := range files {
			if err := a.parents(f.Path); err != nil {
				return err
			}
			if err := a.WriteHeader(&tar.Header{Typeflag: tar.TypeLink, Name: f.Path, Linkname: path.Join(incomingDir, f.Path), Mode: f.Mode, ModTime: a.now}); err != nil {
				return err
			}
		}
		for _, f := range files { // the engine sets the times of directories last, so they have to stay
			if err := a.file(cke.File{Path: path.Join(incomingDir, f.Path), Mode: f.Mode}); err != nil {
				return err
			}
		}
		return nil
	})
}

// archive writes a tar archive for a volume.
type archive struct {
	*tar.Writer
	now  time.Time
	made map[string]bool // directories
}

func pack(fill func(*archive) error) ([]byte, error) {
	var b bytes.Buffer
	a := archive{Writer: tar.NewWriter(&b), now: time.Now(), made: map[string]bool{}}
	if err := fill(&a); err != nil {
		return nil, err
	}
	err := a.Close()
	return b.Bytes(), err
}

func (a *archive) file(f cke.File) error {
	if !localPath(f.Path) {
		return fmt.Errorf("%q is not a path below the volume", f.Path)
	}
	if err := a.parents(f.Path); err != nil {
		return err
	}
	if err := a.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.Path, Mode: f.Mode, Size: int64(len(f.Data)), ModTime: a.now}); err != nil {
		return err
	}
	_, err := a.Write(f.Data)
	return err
}

// parents adds the directories above a path that are not in the archive yet.
func (a *archive) parents(p string) error {
	for _, dir := range parents(p) {
		if a.made[dir] {
			continue
		}
		a.made[dir] = true
		if err := a.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o700, ModTime: a.now}); err != nil {
			return err
		}
	}
	return nil
}

func localPath(p string) bool {
	return p != "" && p == path.Clean(p) && !path.IsAbs(p) && p != ".." && !strings.HasPrefix(p, "../") && p != "."
}

// parents returns "a", "a/b" for "a/b/c".
func parents(p string) []string {
	var dirs []string
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		dirs = append(dirs, dir)
	}
	slices.Reverse(dirs)
	return dirs
}

// Clock implements cke.Machine.
func (m machine) Clock(ctx context.Context) (now time.Time, err error) {
	err = m.read(ctx, engineLimit, "read the clock", func(ctx context.Context, s *session) error {
		if err := s.engine.ping(ctx); err != nil {
			return err
		}
		if now = s.engine.time(); now.IsZero() {
			return errors.New("the engine does not report the time")
		}
		return nil
	})
	return now, err
}

// StartContainer implements cke.Machine.
func (m machine) StartContainer(ctx context.Context, j cke.Join) error {
	return m.write(ctx, engineLimit, "start container "+j.Volume, func(ctx context.Context, s *session) error {
		c, err := own(ctx, s, j)
		if err != nil || c.State == cke.ContainerRunning {
			return err
		}
		if err := mayRun(ctx, s, j); err != nil {
			return err
		}
		return s.engine.start(ctx, c.ID)
	})
}

// KeepRunning implements cke.Machine.
func (m machine) KeepRunning(ctx context.Context, j cke.Join) error {
	return m.write(ctx, engineLimit, "keep container "+j.Volume+" running", func(ctx context.Context, s *session) error {
		c, err := own(ctx, s, j)
		if err != nil {
			return err
		}
		if err := mayRun(ctx, s, j); err != nil || c.Restart == restartAlways {
			return err
		}
		if c.StartsEmpty {
			return fmt.Errorf("container %s could start on an empty volume, so its engine must not start it by itself: %w", j.Volume, cke.ErrConflict)
		}
		return s.engine.setRestart(ctx, c.ID, restartAlways)
	})
}

// How often, and after which pause, the engine is asked to leave a container down.
const (
	restartTries = 5
	restartPause = 50 * time.Millisecond
)

// StopContainer implements cke.Machine. A container that does not exist counts as stopped.
func (m machine) StopContainer(ctx context.Context, j cke.Join, grace time.Duration) error {
	return m.write(ctx, grace+stopSlack, "stop container "+j.Volume, func(ctx context.Context, s *session) error {
		return stopForGood(ctx, s, grace, func() (engineContainer, error) { return own(ctx, s, j) })
	})
}

// RemoveContainer implements cke.Machine.
func (m machine) RemoveContainer(ctx context.Context, j cke.Join) error {
	return m.write(ctx, engineLimit, "remove container "+j.Volume, func(ctx context.Context, s *session) error {
		c, err := own(ctx, s, j)
		if errors.Is(err, cke.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		return s.engine.remove(ctx, c.ID)
	})
}

// Container implements cke.Machine.
func (m machine) Container(ctx context.Context, j cke.Join) (found cke.Container, err error) {
	err = m.read(ctx, engineLimit, "inspect container "+j.Volume, func(ctx context.Context, s *session) error {
		c, err := own(ctx, s, j)
		if err != nil {
			return err
		}
		found, err = m.fleet.complete(ctx, s, c.Container, nil)
		return err
	})
	return found, err
}
