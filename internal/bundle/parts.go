package bundle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"time"

	"gopkg.in/yaml.v3"

	"cke"
	"cke/clusterfile"
	"cke/etcdnode"
	"cke/internal/scrub"
	"cke/internal/words"
)

// Bounds of a bundle.
const (
	bundledRecords = 500
	bundledLog     = 1 << 20 // bytes of the log of one member
	bundledMetrics = 4 << 20 // bytes
)

// Store is what a bundle reads of the store. Its contract is that of storage.Store.
type Store interface {
	Status(ctx context.Context, cluster string) (cke.Status, error)
	Records(ctx context.Context, cluster string, n int) ([]cke.Record, error)
	Leader(ctx context.Context, cluster string) (cke.Leader, error)
	RequestsOf(ctx context.Context, cluster string) (cke.Requests, error)
}

// Source is where the parts of a bundle come from.
type Source struct {
	Cluster string // empty: not known
	Store   Store  // nil: it does not answer, for the reason of Away
	Away    error
	// Spec is the newest of Log, which has all revisions, newest first.
	Spec cke.Spec
	Log  []cke.Spec
	// Scrub takes the secrets out of every part.
	Scrub scrub.Scrubber
	// Fleet asks nodes, and Observe all of them at once, the same each time.
	Fleet   *etcdnode.Fleet
	Observe func() cke.Observation
	// Version is that of the program; Config reads the configuration file, Plan makes a plan, and Changes compares two files.
	Version any
	Config  func() (cke.Config, error)
	Plan    func(context.Context) (any, error)
	Changes func(before, after cke.Cluster) []string
}

// Close closes the connections to the nodes.
func (w *Source) Close() {
	if w.Fleet != nil {
		w.Fleet.Close()
	}
}

// Parts returns all parts of a bundle.
func (w *Source) Parts() []Part {
	all := []Part{
		w.one("version.json", func(context.Context) (any, error) { return w.Version, nil }),
		w.file("config.yml", w.config),
		w.file("daemon/metrics.txt", func(ctx context.Context) ([]byte, error) { return w.daemon(ctx, "/metrics") }),
		w.file("daemon/health.json", func(ctx context.Context) ([]byte, error) { return w.daemon(ctx, "/health") }),
	}
	stored := []Part{
		w.file("cluster.yml", func(context.Context) ([]byte, error) { return w.Scrub.Cluster(w.Spec.Cluster) }),
		w.one("revisions.json", func(context.Context) (any, error) { return w.revisions(), nil }),
		w.one("status.json", func(ctx context.Context) (any, error) { return w.Store.Status(ctx, w.Cluster) }),
		w.one("plan.json", w.Plan),
		w.one("history.json", func(ctx context.Context) (any, error) { return w.Store.Records(ctx, w.Cluster, bundledRecords) }),
		w.one("leader.json", func(ctx context.Context) (any, error) { return w.Store.Leader(ctx, w.Cluster) }),
		w.one("requests.json", func(ctx context.Context) (any, error) { return w.Store.RequestsOf(ctx, w.Cluster) }),
		w.one("members.json", func(context.Context) (any, error) { return w.Observe().Etcd, nil }),
	}
	for _, n := range w.Spec.Wanted().Nodes {
		stored = append(stored, Part{path.Join("nodes", n.Name()), func(ctx context.Context) ([]Entry, error) { return w.node(ctx, n) }})
	}
	if w.Store == nil {
		for i := range stored {
			stored[i].Gather = func(context.Context) ([]Entry, error) { return nil, w.Away }
		}
	}
	return append(all, stored...)
}

// file is a part that is one text.
func (w *Source) file(name string, read func(context.Context) ([]byte, error)) Part {
	return Part{name, func(ctx context.Context) ([]Entry, error) {
		data, err := read(ctx)
		if err != nil {
			return nil, err
		}
		return []Entry{{Name: name, Data: w.Scrub.Text(data)}}, nil
	}}
}

// one is a part that is one document in JSON.
func (w *Source) one(name string, read func(context.Context) (any, error)) Part {
	return Part{name, func(ctx context.Context) ([]Entry, error) {
		v, err := read(ctx)
		if err != nil {
			return nil, err
		}
		data, err := w.Scrub.JSON(v)
		return []Entry{{Name: name, Data: data}}, err
	}}
}

// revision is one revision of a cluster file, described by what it changed.
type revision struct {
	Revision int64     `json:"revision"`
	SetAt    time.Time `json:"setAt"`
	SetBy    string    `json:"setBy"`
	Changes  []string  `json:"changes,omitempty"`
}

// revisions returns them newest first, as the log has them.
func (w *Source) revisions() []revision {
	all := []revision{}
	for i, spec := range w.Log {
		r := revision{Revision: spec.Generation, SetAt: spec.SetAt, SetBy: spec.SetBy}
		if i+1 < len(w.Log) {
			before, after := scrub.Values(w.Log[i+1].Wanted()), scrub.Values(spec.Wanted())
			r.Changes = w.Changes(before, after)
		}
		all = append(all, r)
	}
	return all
}

func (w *Source) config(context.Context) ([]byte, error) {
	c, err := w.Config()
	if err != nil {
		return nil, err
	}
	for name, words := range c.Commands { // arguments may be passwords
		if len(words) > 1 {
			c.Commands[name] = []string{words[0], fmt.Sprintf("(%s)", cke.Plural(len(words)-1, "argument", "arguments"))}
		}
	}
	return yaml.Marshal(c)
}

// daemon asks the daemon of this host.
func (w *Source) daemon(ctx context.Context, what string) ([]byte, error) {
	c, err := w.Config()
	if err != nil {
		return nil, err
	}
	h := c.HTTP
	if h.TLS.CertFile != "" {
		return nil, errors.New("the daemon's HTTP asks for TLS; it is not asked by this command")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+h.Listen+what, nil)
	if err != nil {
		return nil, err
	}
	if h.BasicAuth.Username != "" {
		password, err := clusterfile.ReadPassword(h.BasicAuth.PasswordFile)
		if err != nil {
			return nil, err
		}
		req.SetBasicAuth(h.BasicAuth.Username, password)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden {
		return nil, fmt.Errorf("the daemon answers %s", resp.Status)
	}
	return io.ReadAll(io.LimitReader(resp.Body, bundledMetrics))
}

// node is what a node says now, with the logs of the members that it carries.
func (w *Source) node(ctx context.Context, n cke.Node) ([]Entry, error) {
	dir := path.Join("nodes", n.Name())
	for _, st := range w.Observe().Nodes {
		if st.Node.Address != n.Address {
			continue
		}
		data, err := w.Scrub.JSON(st)
		if err != nil {
			return nil, err
		}
		all := []Entry{{Name: path.Join(dir, "observation.json"), Data: data}}
		if p := st.Problem; p != nil {
			return append(all, Entry{Name: path.Join(dir, "logs"), Problem: words.Problem(*p)}), nil
		}
		for _, c := range st.Containers {
			if c.Cluster == w.Cluster {
				all = append(all, w.memberLog(ctx, n, path.Join(dir, c.Name+".log"), c.Name))
			}
		}
		return all, nil
	}
	return nil, errors.New("it was not checked")
}

func (w *Source) memberLog(ctx context.Context, n cke.Node, name, container string) Entry {
	log, err := w.Fleet.Log(ctx, n, container, bundledLog)
	if err != nil {
		return Entry{Name: name, Problem: oneLine(err)}
	}
	return Entry{Name: name, Data: w.Scrub.Text(log)}
}
