package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/docker/docker/client"
)

// Lab is a set of nodes under one name. Its methods may be called from several goroutines and processes.
type Lab struct {
	// Progress narrates the long steps; nil is silent.
	Progress *Progress

	name string
	dir  string // absolute: the directory of this lab's state

	mu     sync.Mutex
	docker *client.Client // connected at first use
	owner  *os.File       // holds the lock that binds the lab to this process; nil: it is a person's
}

// Sentinel errors, to be asked for with errors.Is.
var (
	ErrNoLab      = errors.New("no such lab")
	errNoNode     = errors.New("no such node")
	ErrNotRunning = errors.New("node is not running")
	errNameTaken  = errors.New("name is taken by another lab")
	errUnbounded  = errors.New("node's disk has no bound of its own")
)

// DefaultName and DefaultDir are what cke-lab uses unless another one is given.
const (
	DefaultName = "lab"
	DefaultDir  = ".lab"
)

var labName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`)

// Open returns the lab of that name whose state is kept below dir. It touches neither Docker nor the disk, and the lab
// need not exist: Up makes it. Close releases what the lab holds in this process.
func Open(dir, name string) (*Lab, error) {
	if !labName.MatchString(name) {
		return nil, fmt.Errorf("lab name %q: want up to 40 lower-case letters, digits and inner hyphens", name)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	return &Lab{name: name, dir: filepath.Join(abs, name)}, nil
}

// Name returns the lab's name.
func (l *Lab) Name() string { return l.name }

// Dir returns the directory that holds the lab's state.
func (l *Lab) Dir() string { return l.dir }

// Close drops the connection to Docker. Nodes are left as they are.
func (l *Lab) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owner != nil {
		l.owner.Close()
		l.owner = nil
	}
	if l.docker == nil {
		return nil
	}
	err := l.docker.Close()
	l.docker = nil
	return err
}

// engine returns a client of the local Docker engine.
func (l *Lab) engine(ctx context.Context) (*client.Client, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.docker == nil {
		c, err := connect(ctx)
		if err != nil {
			return nil, err
		}
		l.docker = c
	}
	return l.docker, nil
}

// state is what cannot be asked of Docker, kept in lab.json.
type state struct {
	Subnet string      `json:"subnet"`
	Nodes  []nodeState `json:"nodes"`
}

// nodeState is one node as it was made; Wipe makes it again from this.
type nodeState struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	HostKey string `json:"host_key"` // public part, in the form of authorized_keys
	Image   string `json:"image"`
	Disk    int64  `json:"disk"` // bytes; 0: without a bound of its own
	Cuts    []Cut  `json:"cuts,omitempty"`
}

func (l *Lab) path(elem ...string) string {
	return filepath.Join(append([]string{l.dir}, elem...)...)
}

// load reads the state. ErrNoLab: there is none.
func (l *Lab) load() (state, error) {
	data, err := os.ReadFile(l.path("lab.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return state{}, fmt.Errorf("%w: %s in %s: make it with cke-lab up", ErrNoLab, l.name, filepath.Dir(l.dir))
	}
	if err != nil {
		return state{}, err
	}
	var s state
	if err := json.Unmarshal(data, &s); err != nil {
		return state{}, fmt.Errorf("read %s: %w", l.path("lab.json"), err)
	}
	return s, nil
}

// update changes the state as one step, also against other processes. A lab without state starts from the zero state.
func (l *Lab) update(ctx context.Context, change func(*state) error) error {
	release, err := lockFile(ctx, l.path("state.lock"))
	if err != nil {
		return err
	}
	defer release()
	s, err := l.load()
	if err != nil && !errors.Is(err, ErrNoLab) {
		return err
	}
	if err := change(&s); err != nil {
		return err
	}
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if err := writeFile(l.path("lab.json"), append(data, '\n'), 0o644); err != nil {
		return err
	}
	return writeFile(l.path("known_hosts"), []byte(knownHosts(s)), 0o644)
}

// node finds a node by its full name, its short name or its address.
func (l *Lab) node(name string) (nodeState, error) {
	s, err := l.load()
	if err != nil {
		return nodeState{}, err
	}
	n := s.find(l.name, name)
	if n == nil {
		var known []string
		for _, n := range s.Nodes {
			known = append(known, n.Name)
		}
		return nodeState{}, fmt.Errorf("%w: %s: lab %s has %s", errNoNode, name, l.name, strings.Join(known, ", "))
	}
	return *n, nil
}

// find returns nil if no node of that name or address is there.
func (s *state) find(lab, name string) *nodeState {
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Name == name || n.Name == lab+"-"+name || n.Address == name {
			return n
		}
	}
	return nil
}
