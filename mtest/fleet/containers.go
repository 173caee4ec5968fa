package fleet

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/storage"
	"github.com/docker/docker/api/types/volume"
)

// box is a container.
type box struct {
	engine   *engine
	id, name string
	config   *container.Config
	host     *container.HostConfig
	created  time.Time
	state    container.ContainerState
	started  time.Time
	finished time.Time
	exit     int
	log      []byte // frames, as Docker's API sends them
	mounts   []container.MountPoint
	trees    []*tree       // of the mounts
	own      *tree         // all else
	member   *member       // nil: no etcd runs
	begun    chan struct{} // closed once it was started
	stopped  chan struct{}
}

// place is the tree that a path of the container is in, and its name there.
func (b *box) place(full string) (*tree, string) {
	for i, m := range b.mounts {
		if full == m.Destination || strings.HasPrefix(full, m.Destination+"/") {
			return b.trees[i], path.Join(".", strings.TrimPrefix(full, m.Destination))
		}
	}
	return b.own, path.Join(".", full)
}

// say adds a line to the log.
func (b *box) say(stream byte, line string) {
	head := [8]byte{stream}
	binary.BigEndian.PutUint32(head[4:], uint32(len(line)+1))
	b.log = append(append(append(b.log, head[:]...), line...), '\n')
}

// end notes that the process has ended. The engine's mu is held.
func (b *box) end(code int, why string) {
	if b.state != container.StateRunning {
		return
	}
	if why != "" {
		b.say(2, why)
	}
	if b.member != nil {
		b.member.stop()
		b.member = nil
	}
	b.state, b.exit, b.finished = container.StateExited, code, time.Now().UTC()
	close(b.stopped)
	b.engine.event("die", b)
	if b.host.AutoRemove {
		b.engine.drop(b)
	}
}

func (e *engine) event(action string, b *box) {
	attributes := map[string]string{"image": b.config.Image, "name": b.name}
	for k, v := range b.config.Labels {
		attributes[k] = v
	}
	if action == "die" {
		attributes["exitCode"] = fmt.Sprint(b.exit)
	}
	e.tell("container", action, b.id, attributes)
}

// drop removes a container with its volumes that have no name of their own. e.mu is held.
func (e *engine) drop(b *box) {
	e.containers = slices.DeleteFunc(e.containers, func(c *box) bool { return c == b })
	for _, m := range b.mounts {
		if len(m.Name) == 64 && e.used(m.Name) == "" {
			delete(e.volumes, m.Name)
		}
	}
	e.event("destroy", b)
}

// find returns a container by its id or name. e.mu is held.
func (e *engine) find(name string) (*box, error) {
	name = strings.TrimPrefix(name, "/")
	for _, b := range e.containers {
		if b.id == name || b.name == name {
			return b, nil
		}
	}
	return nil, missing("container", name)
}

func (e *engine) create(_ http.ResponseWriter, r *http.Request) (any, error) {
	var ask struct {
		*container.Config
		HostConfig *container.HostConfig
	}
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
		return nil, refusal{http.StatusBadRequest, err.Error()}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !hasImage(ask.Image) {
		return nil, missing("image", ask.Image)
	}
	name := r.URL.Query().Get("name")
	if b, err := e.find(name); err == nil {
		return nil, refusal{http.StatusConflict, fmt.Sprintf("Conflict. The container name %q is already in use by container %q.", "/"+name, b.id)}
	}
	b := &box{engine: e, id: newID(), name: name, config: ask.Config, host: ask.HostConfig, created: time.Now().UTC(), state: container.StateCreated, own: newTree(), begun: make(chan struct{})}
	for _, bind := range b.host.Binds { // the engine makes a directory that is missing
		source, target, _ := strings.Cut(bind, ":")
		if strings.HasPrefix(source, "/") {
			if e.dirs[source] == nil {
				e.dirs[source] = newTree()
			}
			b.mount(container.MountPoint{Type: mount.TypeBind, Source: source, Destination: target, RW: true}, e.dirs[source])
			continue
		}
		b.mountVolume(volume.CreateOptions{Name: source}, target)
	}
	for _, m := range b.host.Mounts {
		if m.Type == mount.TypeBind {
			if e.dirs[m.Source] == nil {
				return nil, refusal{http.StatusBadRequest, `invalid mount config for type "bind": bind source path does not exist: ` + m.Source}
			}
			b.mount(container.MountPoint{Type: m.Type, Source: m.Source, Destination: m.Target, RW: !m.ReadOnly}, e.dirs[m.Source])
			continue
		}
		o := volume.CreateOptions{Name: m.Source}
		if m.VolumeOptions != nil {
			o.Labels = m.VolumeOptions.Labels
		}
		b.mountVolume(o, m.Target)
	}
	e.containers = append(e.containers, b)
	e.event("create", b)
	return container.CreateResponse{ID: b.id, Warnings: []string{}}, nil
}

func (b *box) mountVolume(o volume.CreateOptions, target string) {
	v := b.engine.makeVolume(o)
	b.mount(container.MountPoint{Type: mount.TypeVolume, Name: v.Name, Source: v.Mountpoint, Destination: target, Driver: "local", Mode: "z", RW: true}, v.tree)
}

func (b *box) mount(m container.MountPoint, t *tree) {
	b.mounts, b.trees = append(b.mounts, m), append(b.trees, t)
}

func (e *engine) list(_ http.ResponseWriter, r *http.Request) (any, error) {
	which, err := filters.FromJSON(r.URL.Query().Get("filters"))
	if err != nil {
		return nil, refusal{http.StatusBadRequest, err.Error()}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.listed = time.Now()
	list := []container.Summary{}
	for _, b := range slices.Backward(e.containers) { // the newest is first
		mounted := !which.Contains("volume") || slices.ContainsFunc(b.mounts, func(m container.MountPoint) bool {
			return which.ExactMatch("volume", m.Name) || which.ExactMatch("volume", m.Source)
		})
		if !mounted || which.Contains("label") && !which.MatchKVList("label", b.config.Labels) || which.Contains("name") && !which.Match("name", b.name) {
			continue
		}
		s := container.Summary{ID: b.id, Names: []string{"/" + b.name}, Image: b.config.Image, ImageID: imageID(b.config.Image), Command: strings.Join(b.words(), " "),
			Created: b.created.Unix(), Ports: []container.Port{}, Labels: b.config.Labels, State: b.state, Status: b.said(), Mounts: b.mounts,
			NetworkSettings: &container.NetworkSettingsSummary{Networks: b.networks()}}
		if len(s.Command) > 300 {
			s.Command = s.Command[:300]
		}
		s.HostConfig.NetworkMode = string(b.host.NetworkMode)
		list = append(list, s)
	}
	return list, nil
}

func (b *box) words() []string { return slices.Concat(b.config.Entrypoint, b.config.Cmd) }

// said is the state in words.
func (b *box) said() string {
	switch b.state {
	case container.StateRunning:
		return "Up " + time.Since(b.started).Round(time.Second).String()
	case container.StateExited:
		return fmt.Sprintf("Exited (%d) %s ago", b.exit, time.Since(b.finished).Round(time.Second))
	}
	return "Created"
}

func (b *box) networks() map[string]*network.EndpointSettings {
	return map[string]*network.EndpointSettings{string(b.host.NetworkMode): {NetworkID: b.id, EndpointID: b.id}}
}

func (e *engine) inspect(_ http.ResponseWriter, r *http.Request) (any, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	b, err := e.find(r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	words := b.words()
	at := "/var/lib/docker/containers/" + b.id
	layers := "/var/lib/docker/overlay2/" + b.id
	state := &container.State{Status: b.state, Running: b.state == container.StateRunning, ExitCode: b.exit,
		StartedAt: moment(b.started), FinishedAt: moment(b.finished)}
	if state.Running {
		state.Pid = 12345
	}
	return container.InspectResponse{
		ContainerJSONBase: &container.ContainerJSONBase{ID: b.id, Created: moment(b.created), Path: words[0], Args: words[1:], State: state, Image: imageID(b.config.Image),
			ResolvConfPath: at + "/resolv.conf", HostnamePath: at + "/hostname", HostsPath: at + "/hosts", LogPath: at + "/" + b.id + "-json.log",
			Name: "/" + b.name, Driver: "overlay2", Platform: "linux", AppArmorProfile: "docker-default", HostConfig: b.host,
			GraphDriver: storage.DriverData{Name: "overlay2", Data: map[string]string{"LowerDir": layers + "-init/diff:" + layers + "/diff:" + layers + "/lower",
				"MergedDir": layers + "/merged", "UpperDir": layers + "/diff", "WorkDir": layers + "/work"}}},
		Mounts: b.mounts, Config: b.config,
		NetworkSettings: &container.NetworkSettings{Networks: b.networks()},
	}, nil
}

func moment(t time.Time) string {
	if t.IsZero() {
		return "0001-01-01T00:00:00Z"
	}
	return t.Format(time.RFC3339Nano)
}

func (e *engine) start(w http.ResponseWriter, r *http.Request) (any, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	b, err := e.find(r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	if b.state == container.StateRunning {
		w.WriteHeader(http.StatusNotModified)
		return nil, nil
	}
	if b.started.IsZero() {
		close(b.begun)
	}
	b.state, b.started, b.stopped = container.StateRunning, time.Now().UTC(), make(chan struct{})
	e.event("start", b)
	b.run()
	w.WriteHeader(http.StatusNoContent)
	return nil, nil
}

func (e *engine) stop(w http.ResponseWriter, r *http.Request) (any, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	b, err := e.find(r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	status := http.StatusNotModified
	if b.state == container.StateRunning {
		status = http.StatusNoContent
		b.end(0, "")
		e.event("stop", b)
	}
	w.WriteHeader(status)
	return nil, nil
}

func (e *engine) update(_ http.ResponseWriter, r *http.Request) (any, error) {
	var ask container.UpdateConfig
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
		return nil, refusal{http.StatusBadRequest, err.Error()}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	b, err := e.find(r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	if ask.RestartPolicy.Name != "" {
		b.host.RestartPolicy = ask.RestartPolicy
	}
	e.event("update", b)
	return container.UpdateResponse{Warnings: []string{}}, nil
}

func (e *engine) wait(_ http.ResponseWriter, r *http.Request) (any, error) {
	b, err := e.untilEnded(r)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return container.WaitResponse{StatusCode: int64(b.exit)}, nil
}

// untilEnded returns the container once it does not run any more.
func (e *engine) untilEnded(r *http.Request) (*box, error) {
	e.mu.Lock()
	b, err := e.find(r.PathValue("id"))
	var stopped chan struct{}
	if err == nil && b.state == container.StateRunning {
		stopped = b.stopped
	}
	e.mu.Unlock()
	if stopped == nil {
		return b, err
	}
	return b, await(r, stopped)
}

// await waits for an event as long as the client does.
func await(r *http.Request, event <-chan struct{}) error {
	select {
	case <-event:
		return nil
	case <-r.Context().Done():
		return r.Context().Err()
	}
}

// attach answers before the container is started, and writes what that says once it has ended.
func (e *engine) attach(w http.ResponseWriter, r *http.Request) (any, error) {
	e.mu.Lock()
	b, err := e.find(r.PathValue("id"))
	e.mu.Unlock()
	if err != nil {
		return nil, err
	}
	_ = http.NewResponseController(w).Flush()
	if await(r, b.begun) != nil {
		return nil, nil
	}
	e.mu.Lock()
	stopped := b.stopped
	e.mu.Unlock()
	if await(r, stopped) != nil {
		return nil, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	_, _ = w.Write(b.log)
	return nil, nil
}

func (e *engine) logs(w http.ResponseWriter, r *http.Request) (any, error) {
	if r.URL.Query().Get("follow") == "1" {
		b, err := e.untilEnded(r)
		if err != nil {
			return nil, err
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		_, _ = w.Write(b.log)
		return nil, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	b, err := e.find(r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	_, _ = w.Write(b.log)
	return nil, nil
}

func (e *engine) remove(w http.ResponseWriter, r *http.Request) (any, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	b, err := e.find(r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	if b.state == container.StateRunning {
		if r.URL.Query().Get("force") != "1" {
			return nil, refusal{http.StatusConflict, fmt.Sprintf("You cannot remove a running container %s. Stop the container before attempting removal or force remove", b.id)}
		}
		b.end(137, "")
	}
	if slices.Contains(e.containers, b) {
		e.drop(b)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil, nil
}

// Rename gives a container another name.
func (n *Node) Rename(from, to string) error {
	n.engine.mu.Lock()
	defer n.engine.mu.Unlock()
	b, err := n.engine.find(from)
	if err != nil {
		return err
	}
	b.name = to
	n.engine.event("rename", b)
	return nil
}

// AddVolume makes a volume without labels.
func (n *Node) AddVolume(name string) {
	n.engine.mu.Lock()
	defer n.engine.mu.Unlock()
	n.engine.makeVolume(volume.CreateOptions{Name: name})
}
