package etcdnode

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/client"

	"cke"
)

// docker speaks with one node's Docker engine. All use of the Docker client library is in the files docker*.go. Errors are
// the library's, wrapped in cke.ErrNotFound or cke.ErrConflict where they mean that; session.explain does the rest.
type docker struct {
	api       *client.Client
	transport *http.Transport
	version   atomic.Pointer[string] // as the engine's Server header tells it
	clock     atomic.Int64           // seconds since 1970, as the last answer's Date header tells them; 0: none did
	heardAt   atomic.Int64           // nanoseconds since 1970: when the engine last sent something, or took a part of a long request
	agreed    bool                   // on an API version; guarded by agreeing
	agreeing  chan struct{}          // cap 1: a lock that gives way to a context
	reach     *reach                 // of all sessions with the engine
	guard     func() error           // see newDocker
}

// engineContainer is a container with what only we need to know of it.
type engineContainer struct {
	cke.Container
	Restart restartPolicy
	Helper  bool
}

// newDocker returns a client that opens its streams with dial, and asks guard before each request that changes something.
// Call agree before the first call.
func newDocker(dial func(context.Context) (net.Conn, error), guard func() error) (*docker, error) {
	d := &docker{agreeing: make(chan struct{}, 1), reach: &reach{}, guard: guard}
	d.transport = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := dial(ctx)
			if err != nil {
				return nil, err
			}
			return &fencedConn{Conn: conn, heard: func() { d.heardAt.Store(time.Now().UnixNano()) }}, nil
		},
		MaxIdleConnsPerHost: 2,
		ReadBufferSize:      2 << 10,
		WriteBufferSize:     2 << 10,
	}
	// No WithHost: after WithHTTPClient it would replace the dialer.
	api, err := client.NewClientWithOpts(
		client.WithHTTPClient(&http.Client{Transport: fencedTransport{guard, roundTripper(d.roundTrip)}, CheckRedirect: client.CheckRedirect}))
	if err != nil {
		return nil, fmt.Errorf("make a Docker client: %w", err)
	}
	d.api = api
	return d, nil
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// roundTrip reads the engine's version ("Docker/20.10.24 (linux)") and time from the answer, which saves a call for them.
func (d *docker) roundTrip(r *http.Request) (*http.Response, error) {
	resp, err := d.transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if v, ok := strings.CutPrefix(resp.Header.Get("Server"), "Docker/"); ok {
		v, _, _ = strings.Cut(v, " ")
		if old := d.version.Load(); old == nil || *old != v {
			d.version.Store(&v)
		}
	}
	if t, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		d.clock.Store(t.Unix())
	}
	resp.Body = bounded(r, resp.Body)
	return resp, nil
}

// close drops idle streams; those in use end with the session.
func (d *docker) close() { d.transport.CloseIdleConnections() }

// engineVersion is empty until the first answer.
func (d *docker) engineVersion() string {
	if v := d.version.Load(); v != nil {
		return *v
	}
	return ""
}

// time is the node's, as its engine's last answer told it; zero: none did.
func (d *docker) time() time.Time {
	if s := d.clock.Load(); s != 0 {
		return time.Unix(s, 0).UTC()
	}
	return time.Time{}
}

// agree finds out, once, which API version both sides speak. The library could do it by itself, but reads the version
// without a lock for an event stream.
func (d *docker) agree(ctx context.Context) error {
	select {
	case d.agreeing <- struct{}{}:
		defer func() { <-d.agreeing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if d.agreed {
		return nil
	}
	p, err := d.api.Ping(ctx)
	if err != nil {
		return err
	}
	d.api.NegotiateAPIVersionPing(p)
	d.agreed = true
	return nil
}

// disagree makes the next call agree again: another engine may have taken the place of this one.
func (d *docker) disagree() {
	d.agreeing <- struct{}{}
	defer func() { <-d.agreeing }()
	d.agreed = false
}

func (d *docker) ping(ctx context.Context) error {
	_, err := d.api.Ping(ctx)
	return err
}

// containers lists all containers of the engine; dates and exit codes are left out.
func (d *docker) containers(ctx context.Context) ([]cke.Container, error) {
	return d.list(ctx, filters.NewArgs())
}

// labeled lists the containers that have the labels of a join, whatever their names.
func (d *docker) labeled(ctx context.Context, j cke.Join) ([]cke.Container, error) {
	all, err := d.list(ctx, filters.NewArgs(filters.Arg("label", LabelJoin+"="+string(j.ID)), filters.Arg("label", LabelIncarnation+"="+j.Incarnation)))
	return slices.DeleteFunc(all, func(c cke.Container) bool { return ours(c, j) != nil }), err
}

func (d *docker) list(ctx context.Context, which filters.Args) ([]cke.Container, error) {
	list, err := d.api.ContainerList(ctx, container.ListOptions{All: true, Filters: which})
	if err != nil {
		return nil, meaning(err)
	}
	out := make([]cke.Container, 0, len(list))
	for _, c := range list {
		if c.ID == "" {
			return nil, answerError{"the list of containers has an entry without an id"}
		}
		name := ""
		if len(c.Names) > 0 {
			name = c.Names[0]
		}
		out = append(out, containerOf(c.ID, name, c.Image, string(c.State), c.Labels))
		d.reach.seen(c.ID, hasEnded(out[len(out)-1]))
	}
	return out, nil
}

// hasEnded reports whether a container has run and does not now.
func hasEnded(c cke.Container) bool { return !c.Running() && c.State != cke.ContainerCreated }

func containerOf(id, name, image, state string, labels map[string]string) cke.Container {
	return cke.Container{
		ID: id, Name: strings.TrimPrefix(name, "/"), Image: image, State: cke.ContainerState(state),
		Cluster: labels[LabelCluster], Incarnation: labels[LabelIncarnation], Join: cke.JoinID(labels[LabelJoin]),
		Description: labels[LabelDescription], Options: labels[LabelOptions], Place: labels[LabelPlace],
	}
}

// container looks at one container, by name or id. cke.ErrNotFound: there is none.
func (d *docker) container(ctx context.Context, name string) (engineContainer, error) {
	c, err := d.api.ContainerInspect(ctx, name)
	if err != nil {
		return engineContainer{}, meaning(err)
	}
	if c.ContainerJSONBase == nil || c.State == nil || c.Config == nil || c.HostConfig == nil {
		return engineContainer{}, answerError{"the answer lacks the container's state"}
	}
	out := engineContainer{
		Container: containerOf(c.ID, c.Name, c.Config.Image, string(c.State.Status), c.Config.Labels),
		Restart:   restartPolicy(c.HostConfig.RestartPolicy.Name),
	}
	d.reach.seen(out.ID, hasEnded(out.Container))
	out.StartedAt, out.FinishedAt = moment(c.State.StartedAt), moment(c.State.FinishedAt)
	out.ImageID, out.CPUs, out.Memory = c.Image, float64(c.HostConfig.NanoCPUs)/1e9, c.HostConfig.Memory
	if !out.Running() {
		out.ExitCode = c.State.ExitCode
		out.LastWords = c.State.Error // what kept it from starting, as told by the engine
	}
	out.KeptDown = out.Restart == restartNever || out.Restart == ""
	out.StartsEmpty, out.Helper = startsEmpty(c.Config.Cmd), c.Config.Labels[LabelHelper] == "true"
	if out.Cluster == "" {
		out.PeerURLs = ownPeerURLs(slices.Concat(c.Config.Entrypoint, c.Config.Cmd), c.Config.Env)
		out.AutoRemove = c.HostConfig.AutoRemove
		for _, m := range c.Mounts {
			out.Mounts = append(out.Mounts, cmp.Or(m.Name, m.Source))
		}
		slices.Sort(out.Mounts) // the engine keeps them in no order
	}
	return out, nil
}

// moment reads a time of the engine's; never is "0001-01-01T00:00:00Z" there.
func moment(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.Year() < 1970 {
		return time.Time{}
	}
	return t.UTC()
}

// lastLog returns the last lines of a container's log.
func (d *docker) lastLog(ctx context.Context, id string, lines int) ([]byte, error) {
	var log bytes.Buffer
	err := d.log(ctx, id, container.LogsOptions{Tail: fmt.Sprint(lines)}, maxLog, &log, &log)
	return log.Bytes(), err
}

// maxLog bounds, in bytes, what is read of a log that is not cut elsewhere.
const maxLog = 1 << 20

// log reads what a container writes, at most so many bytes of it.
func (d *docker) log(ctx context.Context, id string, o container.LogsOptions, most int64, stdout, stderr io.Writer) error {
	o.ShowStdout, o.ShowStderr = true, true
	r, err := d.api.ContainerLogs(ctx, id, o)
	if err != nil {
		return meaning(err)
	}
	defer r.Close()
	return frames(stdout, stderr, io.LimitReader(r, most))
}

// create makes a container, not started, and returns the engine's id of it. cke.ErrConflict: one of that name is there.
func (d *docker) create(ctx context.Context, c Description) (id string, err error) {
	mounts := []mount.Mount{{Type: mount.TypeVolume, Source: c.Volume, Target: DataPath, VolumeOptions: &mount.VolumeOptions{NoCopy: true}}}
	for _, b := range c.Binds {
		mounts = append(mounts, mount.Mount{Type: mount.TypeBind, Source: b.Source, Target: b.Destination, ReadOnly: b.ReadOnly})
	}
	labels := map[string]string{LabelDescription: c.Digest(), LabelOptions: c.Options, LabelPlace: c.Place}
	for k, v := range c.Labels {
		labels[k] = v
	}
	grace := c.StopSeconds
	made, err := d.api.ContainerCreate(ctx,
		&container.Config{
			Image: c.Image, Entrypoint: c.Entrypoint, Cmd: c.Args, Env: c.Env, Labels: labels,
			StopSignal: "SIGTERM", StopTimeout: &grace,
		},
		&container.HostConfig{
			NetworkMode: container.NetworkMode("host"), Mounts: mounts, ReadonlyRootfs: true,
			CapDrop: []string{"ALL"}, CapAdd: c.Capabilities, SecurityOpt: []string{"no-new-privileges"},
			RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyMode(c.Restart)},
			LogConfig:     container.LogConfig{Type: "json-file", Config: c.LogOptions},
			Resources:     container.Resources{NanoCPUs: c.NanoCPUs, Memory: c.Memory},
		}, nil, nil, c.Name)
	return made.ID, meaning(err)
}

// createHelper makes a container that is never started: it only gives access to a directory or volume, mounted at
// target, through the archive API.
func (d *docker) createHelper(ctx context.Context, name, image, source, target string) error {
	_, err := d.api.ContainerCreate(ctx,
		&container.Config{Image: image, Entrypoint: []string{"none"}, Labels: map[string]string{LabelHelper: "true"}},
		// Binds, not Mounts: for these alone every engine makes a directory that is missing.
		&container.HostConfig{NetworkMode: container.NetworkMode("none"), Binds: []string{source + ":" + target}}, nil, nil, name)
	return meaning(err)
}

func (d *docker) start(ctx context.Context, id string) error {
	return meaning(d.api.ContainerStart(ctx, id, container.StartOptions{}))
}

func (d *docker) stop(ctx context.Context, id string, grace time.Duration) error {
	seconds := int((grace + time.Second - 1) / time.Second)
	return meaning(d.api.ContainerStop(ctx, id, container.StopOptions{Timeout: &seconds}))
}

// remove removes a container that does not run. It is named as those name it who reach into it.
func (d *docker) remove(ctx context.Context, id string) error {
	return d.removeWith(ctx, id, container.RemoveOptions{})
}

// removeWith removes a container while no request reaches into it.
func (d *docker) removeWith(ctx context.Context, id string, o container.RemoveOptions) error {
	if err := d.guard(); err != nil { // there is nothing to wait for
		return fenceError{err}
	}
	done, err := d.reach.alone(ctx, id)
	if err != nil {
		return err
	}
	err = d.api.ContainerRemove(ctx, id, o)
	done(err)
	return meaning(err)
}

func (d *docker) setRestart(ctx context.Context, id string, p restartPolicy) error {
	_, err := d.api.ContainerUpdate(ctx, id, container.UpdateConfig{RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyMode(p)}})
	return meaning(err)
}

// putTar unpacks a tar archive into a directory of a container, which need not run. What it holds goes before what is
// there, also a file before a directory.
func (d *docker) putTar(ctx context.Context, id, dir string, tar io.Reader) error {
	leave, err := d.reach.into(id)
	if err != nil {
		return err
	}
	err = d.api.CopyToContainer(ctx, id, dir, tar, container.CopyToContainerOptions{AllowOverwriteDirWithFile: true})
	leave(err)
	return meaning(err)
}

// getTar streams a path of a container, which need not run, as a tar archive. cke.ErrNotFound: it is not there.
func (d *docker) getTar(ctx context.Context, id, path string) (io.ReadCloser, error) {
	leave, err := d.reach.look(ctx, id)
	if err != nil {
		return nil, err
	}
	r, _, err := d.api.CopyFromContainer(ctx, id, path)
	if err != nil {
		leave(err)
		return nil, meaning(err)
	}
	return &leaving{ReadCloser: r, leave: leave}, nil
}

// leaving is a stream out of a container.
type leaving struct {
	io.ReadCloser
	leave func(error)
	ended bool
	once  sync.Once
}

// Read implements io.Reader.
func (l *leaving) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	l.ended = l.ended || errors.Is(err, io.EOF)
	return n, err
}

// Close implements io.Closer.
func (l *leaving) Close() error {
	err := l.ReadCloser.Close()
	l.once.Do(func() {
		if l.ended {
			l.leave(nil)
		} else {
			l.leave(errLeft)
		}
	})
	return err
}

// stat tells of a file or directory of a container, which need not run. cke.ErrNotFound: it is not there.
func (d *docker) stat(ctx context.Context, id, path string) (container.PathStat, error) {
	leave, err := d.reach.look(ctx, id)
	if err != nil {
		return container.PathStat{}, err
	}
	s, err := d.api.ContainerStatPath(ctx, id, path)
	leave(err)
	return s, meaning(err)
}

// watched are the events that can change what an observation says.
func watched() filters.Args {
	f := filters.NewArgs(filters.Arg("type", "container"), filters.Arg("type", "volume"))
	for _, action := range []string{"create", "start", "die", "stop", "pause", "unpause", "update", "rename", "destroy"} {
		f.Add("event", action)
	}
	return f
}

// events calls heard for every event of a container or volume until ctx ends or the stream breaks; opened is called
// once it is certain that no event is missed any more.
func (d *docker) events(ctx context.Context, opened func(), heard func(cke.Container)) error {
	if err := d.agree(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	messages, failed := d.api.Events(ctx, events.ListOptions{Filters: watched()})
	opened()
	for {
		select {
		case err := <-failed:
			return err
		case m := <-messages:
			name := m.Actor.Attributes["name"]
			if m.Type == events.VolumeEventType {
				name = m.Actor.ID
			}
			heard(containerOf(m.Actor.ID, name, m.Actor.Attributes["image"], "", m.Actor.Attributes))
		}
	}
}

// answered reports whether an error is an engine's answer: what was asked has been done, or refused. All else leaves that open.
func answered(err error) bool {
	return cerrdefs.IsNotFound(err) || cerrdefs.IsConflict(err) || cerrdefs.IsInvalidArgument(err) || cerrdefs.IsInternal(err) || cerrdefs.IsPermissionDenied(err)
}

// meaning adds the sentinel that an engine's answer stands for.
func meaning(err error) error {
	switch {
	case err == nil:
		return nil
	case cerrdefs.IsNotFound(err):
		return fmt.Errorf("%w: %w", cke.ErrNotFound, err)
	case cerrdefs.IsConflict(err):
		return fmt.Errorf("%w: %w", cke.ErrConflict, err)
	}
	return err
}
