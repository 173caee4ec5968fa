package etcdnode

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"cke"
)

// helperMount is where a helper container has the directory or volume that it gives access to.
const helperMount = "/cke"

// helperSuffix is what the name of a helper container has behind that of the volume.
const helperSuffix = ".helper"

// EnsureVolume implements cke.Machine.
func (m machine) EnsureVolume(ctx context.Context, spec cke.MemberSpec) error {
	j := spec.Join
	return m.write(ctx, copyLimit, "create volume "+j.Volume, func(ctx context.Context, s *session) error {
		device := ""
		if j.Etcd.VolumeRoot != "" {
			device = path.Join(j.Etcd.VolumeRoot, j.Volume)
			if _, err := s.engine.volume(ctx, j.Volume); errors.Is(err, cke.ErrNotFound) {
				if err := m.makeDirectory(ctx, s, j, device); err != nil {
					return fmt.Errorf("create directory %s: %w", device, err)
				}
			}
		}
		v, err := s.engine.createVolume(ctx, j.Volume, labels(spec), device)
		if err != nil {
			return err
		}
		if v.Device != device {
			return fmt.Errorf("it exists in %q instead of %q: %w", v.Device, device, cke.ErrConflict)
		}
		if v.Cluster != spec.Cluster && v.Cluster != "" {
			return fmt.Errorf("it exists and belongs to cluster %q: %w", v.Cluster, cke.ErrConflict)
		}
		return ownVolume(v.Volume, j)
	})
}

func ownVolume(v cke.Volume, j cke.Join) error {
	if v.Of(j) {
		return nil
	}
	return fmt.Errorf("volume %s carries the labels of another membership (%q): %w", v.Name, v.Join, cke.ErrConflict)
}

// makeDirectory makes a directory on the node by mounting it into a helper container that is never started: the
// engine makes the source of a bind when something first looks into the container. No shell, no root on the node.
func (m machine) makeDirectory(ctx context.Context, s *session, j cke.Join, dir string) error {
	return m.withHelper(ctx, s, j, dir, func(id string) error {
		_, err := s.engine.stat(ctx, id, helperMount)
		return err
	})
}

// emptyDirectory replaces what etcd and we put into a volume by empty files: removing a volume that a directory of the
// node backs would leave them. Docker's untar removes a directory that a file is to replace.
func (m machine) emptyDirectory(ctx context.Context, s *session, j cke.Join) error {
	packed, err := archiveOf([]cke.File{{Path: dataDir, Mode: 0o600}, {Path: pkiDir, Mode: 0o600}, {Path: incomingDir, Mode: 0o600}, {Path: restoreDir, Mode: 0o600}})
	if err != nil {
		return err
	}
	return m.withHelper(ctx, s, j, j.Volume, func(id string) error { return s.engine.putTar(ctx, id, helperMount, bytes.NewReader(packed)) })
}

// withHelper runs work with a container that has source at helperMount and is never started. One that a crash left is
// removed first.
func (m machine) withHelper(ctx context.Context, s *session, j cke.Join, source string, work func(id string) error) error {
	name := j.Volume + helperSuffix
	c, err := ownHelper(ctx, s, name)
	if err == nil {
		err = s.engine.remove(ctx, c.ID)
	}
	if err != nil && !errors.Is(err, cke.ErrNotFound) {
		return err
	}
	err = s.engine.createHelper(ctx, name, j.Etcd.Image, source, helperMount)
	if errors.Is(err, cke.ErrNotFound) {
		return m.noImage(j.Etcd.Image, err)
	}
	if err != nil {
		return err
	}
	err = work(name)
	return errors.Join(err, s.engine.remove(ctx, name))
}

// ownHelper returns the helper container of that name. cke.ErrNotFound: none. cke.ErrConflict: cke did not make it.
func ownHelper(ctx context.Context, s *session, name string) (engineContainer, error) {
	c, err := s.engine.container(ctx, name)
	if err == nil && !c.Helper {
		err = fmt.Errorf("container %s on %s lacks the label %s, so cke did not make it: %w", name, s.node.Name(), LabelHelper, cke.ErrConflict)
	}
	return c, err
}

// unused returns cke.ErrConflict while a container, running or not, mounts a volume or the directory that backs it. A helper that a
// crash left does not count.
func unused(ctx context.Context, s *session, v engineVolume) error {
	names, err := s.engine.users(ctx, v.Name, v.Device)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == v.Name+helperSuffix })
	if len(names) > 0 {
		return fmt.Errorf("volume %s is used by container %s: %w", v.Name, strings.Join(names, ", "), cke.ErrConflict)
	}
	return nil
}

// MarkOver implements cke.Machine. The mark is an empty volume: its labels are its content, and no removal of
// containers removes it.
func (m machine) MarkOver(ctx context.Context, cluster string, over []string) error {
	return m.write(ctx, engineLimit, "mark what is over of cluster "+cluster, func(ctx context.Context, s *session) error {
		all, err := s.engine.volumes(ctx)
		if err != nil {
			return err
		}
		marks := marksOf(all, cluster)
		ids, more := cke.Marked(overBy(marks), over)
		if !more && len(marks) <= 1 {
			return nil
		}
		text := strings.Join(ids, " ")
		sum := sha256.Sum256([]byte(text))
		made, err := s.engine.createVolume(ctx, fmt.Sprintf("%s%x", marksPrefix(cluster), sum[:8]), map[string]string{LabelCluster: cluster, LabelOver: text}, "")
		if err != nil {
			return err
		}
		if made.Cluster != cluster || !slices.Equal(made.Over, ids) {
			return fmt.Errorf("volume %s exists without these labels: %w", made.Name, cke.ErrConflict)
		}
		for _, v := range marks {
			if v.Name == made.Name {
				continue
			}
			if err := s.engine.removeVolume(ctx, v.Name); err != nil && !errors.Is(err, cke.ErrNotFound) {
				return err
			}
		}
		return nil
	})
}

// marksOf returns the marks of a cluster, the newest last. There are several if the removal of those before did not complete: a
// newer one names the last that an older one does.
func marksOf(all []engineVolume, cluster string) []engineVolume {
	marks := slices.DeleteFunc(slices.Clone(all), func(v engineVolume) bool { return len(v.Over) == 0 || v.Cluster != cluster })
	names := func(v, last engineVolume) bool { return slices.Contains(v.Over, last.Over[len(last.Over)-1]) }
	slices.SortStableFunc(marks, func(a, b engineVolume) int {
		switch aIsOlder, bIsOlder := names(b, a), names(a, b); {
		case aIsOlder == bIsOlder:
			return cmp.Compare(len(a.Over), len(b.Over))
		case aIsOlder:
			return -1
		}
		return 1
	})
	return marks
}

// overBy returns what marks name, each once, in the order of the newest one: what only older ones name is in front.
func overBy(marks []engineVolume) (over []string) {
	for _, v := range slices.Backward(marks) {
		var older []string
		for _, id := range v.Over {
			if !slices.Contains(over, id) && !slices.Contains(older, id) {
				older = append(older, id)
			}
		}
		over = append(older, over...)
	}
	return over
}

// mayRun refuses to start a member whose membership a mark on the node names.
func mayRun(ctx context.Context, s *session, j cke.Join) error {
	all, err := s.engine.volumes(ctx)
	if err == nil && slices.ContainsFunc(all, func(v engineVolume) bool { return slices.Contains(v.Over, string(j.ID)) }) {
		err = cke.EndedByMark(j)
	}
	return err
}

// RemoveVolume implements cke.Machine. A directory of the node is emptied by a container of the member's image, which may
// have been removed from the node since.
func (m machine) RemoveVolume(ctx context.Context, j cke.Join) error {
	err := m.removeVolume(ctx, j)
	if cke.CodeOf(err) != cke.CodeImage {
		return err
	}
	if err := m.EnsureImage(ctx, j.Etcd.Image, nil); err != nil {
		return err
	}
	return m.removeVolume(ctx, j)
}

func (m machine) removeVolume(ctx context.Context, j cke.Join) error {
	return m.write(ctx, copyLimit, "remove volume "+j.Volume, func(ctx context.Context, s *session) error {
		v, err := s.engine.volume(ctx, j.Volume)
		if errors.Is(err, cke.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := ownVolume(v.Volume, j); err != nil {
			return err
		}
		if err := endTool(ctx, s, j); err != nil {
			return err
		}
		if v.Device != "" {
			// The engine refuses to remove a volume that is in use, but only after its directory was emptied.
			if err := unused(ctx, s, v); err != nil {
				return err
			}
			if err := m.emptyDirectory(ctx, s, j); err != nil {
				return fmt.Errorf("empty %s: %w", v.Device, err)
			}
		}
		return s.engine.removeVolume(ctx, v.Name)
	})
}

// marksPrefix is how the names of volumes start that mark what is over. Events of volumes show no labels.
func marksPrefix(cluster string) string { return "cke-over." + cluster + "." }
