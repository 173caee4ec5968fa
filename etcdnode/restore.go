package etcdnode

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/docker/go-units"

	"cke"
)

// restoreLimit bounds sending a snapshot to a node and making data from it.
const restoreLimit = 2 * time.Hour

// onceSuffix is what the name of a container that runs one command has behind that of its member.
const onceSuffix = ".restore"

// What a restore puts into a volume, relative to DataPath.
const (
	restoreDir   = "restore"
	snapshotFile = restoreDir + "/snapshot.db"
)

// markOf is the file that tells that the data was made from a snapshot, whole: it is written after the tool has ended well.
func markOf(s cke.RestoreSpec) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", restoreCommand(s)))
	return restoreDir + "/" + s.Snapshot.Digest + "-" + hex.EncodeToString(sum[:8]) + ".done"
}

// restoreCommand is that of etcd's own tool. It checks the digest at the end of the snapshot before it uses it.
func restoreCommand(s cke.RestoreSpec) []string {
	j := s.Member.Join
	peers := slices.SortedFunc(slices.Values(s.Member.Peers), func(a, b cke.Peer) int { return cmp.Compare(a.URL, b.URL) })
	var list []string
	for _, p := range peers {
		list = append(list, p.Name+"="+p.URL)
	}
	return []string{
		"etcdutl", "snapshot", "restore", DataPath + "/" + snapshotFile,
		"--data-dir=" + DataPath + "/" + dataDir,
		"--name=" + j.Member,
		"--initial-cluster=" + strings.Join(list, ","),
		"--initial-cluster-token=" + s.Member.Token,
		"--initial-advertise-peer-urls=" + j.PeerURL(),
		fmt.Sprintf("--bump-revision=%d", s.Bump), "--mark-compacted",
	}
}

// RestoreData implements cke.Machine.
//
// A crash may leave a part of a snapshot, a running tool, or a part of its result. So there is a mark for complete
// data, and without it everything is made again, in an empty directory. All changes of the volume go through the
// tool's own container, which is removed before the member is started: a late one finds it gone.
func (m machine) RestoreData(ctx context.Context, r cke.RestoreSpec, open func(context.Context) (io.ReadCloser, error), progress func(string)) error {
	j := r.Member.Join
	return m.write(ctx, restoreLimit, "restore the data of "+j.Volume, func(ctx context.Context, s *session) error {
		c, err := own(ctx, s, j)
		if err != nil {
			return err
		}
		if !c.StartedAt.IsZero() {
			return fmt.Errorf("container %s was started before: %w", c.Name, cke.ErrConflict)
		}
		if err := endTool(ctx, s, j); err != nil {
			return err
		}
		if _, err := s.engine.stat(ctx, c.ID, path.Join(DataPath, markOf(r))); !errors.Is(err, cke.ErrNotFound) {
			return err
		}
		tool, err := s.engine.createOnce(ctx, once{
			name: j.Volume + onceSuffix, image: j.Etcd.Image, volume: j.Volume, command: restoreCommand(r), capabilities: []string{"DAC_OVERRIDE"},
			nanoCPUs: int64(j.Etcd.Resources.CPUs * 1e9), memory: int64(j.Etcd.Resources.Memory),
		})
		if err != nil {
			return err
		}
		return errors.Join(m.restoreBy(ctx, s, r, tool, open, progress), s.engine.kill(ctx, tool))
	})
}

// endTool removes the container of the tool that a daemon left when it was killed: its volume could not be removed. Another one of that
// name is somebody's.
func endTool(ctx context.Context, s *session, j cke.Join) error {
	c, err := ownHelper(ctx, s, j.Volume+onceSuffix)
	if errors.Is(err, cke.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.engine.kill(ctx, c.ID)
}

// restoreBy makes the data by way of the container of the tool, which was just made.
func (m machine) restoreBy(ctx context.Context, s *session, r cke.RestoreSpec, tool string, open func(context.Context) (io.ReadCloser, error), progress func(string)) error {
	if err := m.sendSnapshot(ctx, s, tool, r.Snapshot.Size, open, progress); err != nil {
		return err
	}
	progress("creating the member's data")
	if err := m.runOnce(ctx, s, tool, r.Member.Join.Etcd.Image, restoreCommand(r)[0]); err != nil {
		return err
	}
	done, err := archiveOf([]cke.File{{Path: snapshotFile, Mode: 0o600}, {Path: markOf(r), Mode: 0o600}})
	if err != nil {
		return err
	}
	return s.engine.putTar(ctx, tool, DataPath, bytes.NewReader(done))
}

// sendSnapshot streams a snapshot into a volume whose data and earlier marks it removes. Docker's untar removes a
// directory that a file is to replace, and a file that a directory is to replace.
func (m machine) sendSnapshot(ctx context.Context, s *session, container string, size int64, open func(context.Context) (io.ReadCloser, error), progress func(string)) error {
	snapshot, err := open(ctx)
	if err != nil {
		return fmt.Errorf("open the snapshot: %w", err)
	}
	defer snapshot.Close()
	r, w := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		err := writeSnapshot(w, snapshot, size, progress)
		w.CloseWithError(err)
		sent <- err
	}()
	err = s.engine.putTar(ctx, container, DataPath, r)
	r.CloseWithError(io.ErrClosedPipe) // ends the writer if the engine stopped reading
	if writing := <-sent; writing != nil && !errors.Is(writing, io.ErrClosedPipe) {
		err = writing
	}
	if err != nil {
		return fmt.Errorf("send the snapshot: %w", err)
	}
	return nil
}

func writeSnapshot(to io.Writer, snapshot io.Reader, size int64, progress func(string)) error {
	w := tar.NewWriter(to)
	now := time.Now()
	for _, h := range []tar.Header{
		{Typeflag: tar.TypeReg, Name: dataDir, Mode: 0o600},
		{Typeflag: tar.TypeDir, Name: dataDir + "/", Mode: 0o700},
		{Typeflag: tar.TypeReg, Name: restoreDir, Mode: 0o600},
		{Typeflag: tar.TypeDir, Name: restoreDir + "/", Mode: 0o700},
		{Typeflag: tar.TypeReg, Name: snapshotFile, Mode: 0o600, Size: size},
	} {
		h.ModTime = now
		if err := w.WriteHeader(&h); err != nil {
			return err
		}
	}
	n, err := io.CopyBuffer(w, &told{r: snapshot, size: size, progress: progress}, make([]byte, 256<<10))
	if err != nil {
		return err
	}
	if n != size {
		return fmt.Errorf("the snapshot has %d bytes instead of %d", n, size)
	}
	return w.Close()
}

// told reports how far a reader has been read.
type told struct {
	r          io.Reader
	size, done int64
	progress   func(string)
}

func (t *told) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	t.done += int64(n)
	if t.size >= units.MB {
		t.progress("sending " + progressText(t.done, t.size))
	}
	return n, err
}

// runOnce runs the command of a container to its end. One that fails leaves its last words in the error.
func (m machine) runOnce(ctx context.Context, s *session, id, image, tool string) error {
	if err := s.engine.start(ctx, id); err != nil {
		if strings.Contains(err.Error(), "executable file not found") {
			return &cke.Error{Code: cke.CodeImage, What: fmt.Sprintf("image %s on %s lacks %s", image, m.node.Name(), tool),
				Facts: []string{"a restore needs it, in the same version as etcd", "the official images have it"}, Err: err}
		}
		return err
	}
	code, err := s.engine.wait(ctx, id)
	if err != nil || code == 0 {
		return err
	}
	log, logErr := s.engine.lastLog(ctx, id, lastWordsLines)
	words := lastWords(log)
	e := &cke.Error{Code: cke.CodeEtcdExited, What: fmt.Sprintf("%s on %s ended with exit code %d", tool, m.node.Name(), code), Err: logErr}
	if strings.Contains(words, "no space left") {
		e.Code = cke.CodeDiskFull
	}
	if words != "" {
		e.Facts = []string{"its last words: " + words}
	}
	return e
}

// SaveData implements cke.Machine.
func (m machine) SaveData(ctx context.Context, j cke.Join, w io.Writer) error {
	return m.read(ctx, restoreLimit, "read the data of "+j.Volume, func(ctx context.Context, s *session) error {
		c, err := own(ctx, s, j)
		if err != nil {
			return err
		}
		if c.Running() || c.State == cke.ContainerRestarting {
			return fmt.Errorf("container %s runs: %w", c.Name, cke.ErrConflict)
		}
		r, err := s.engine.getTar(ctx, c.ID, databasePath)
		if errors.Is(err, cke.ErrNotFound) {
			return &cke.Error{Code: cke.CodeDataMissing, What: fmt.Sprintf("volume %s on %s contains no database", j.Volume, m.node.Name()), Err: cke.ErrDataMissing}
		}
		if err != nil {
			return err
		}
		defer r.Close()
		t := tar.NewReader(r)
		if _, err := t.Next(); err != nil {
			return err
		}
		sum := sha256.New()
		if _, err := io.CopyBuffer(io.MultiWriter(w, sum), t, make([]byte, 256<<10)); err != nil {
			return err
		}
		_, err = w.Write(sum.Sum(nil))
		return err
	})
}
