package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"sync"
	"time"

	"gopkg.in/yaml.v3"

	"cke"
	"cke/clusterfile"
	"cke/etcdnode"
	"cke/internal/follow"
	"cke/pki"
	"cke/preflight"
)

// Bounds of a bundle.
const (
	bundledRecords = 500
	bundledLog     = 1 << 20 // bytes of the log of one member
	bundledMetrics = 4 << 20 // bytes
)

// witness is who parts of a bundle are asked of.
type witness struct {
	app     *app
	cluster string // empty: nobody knows
	store   store  // nil: it does not answer, for the reason of away
	away    error

	spec     cke.Spec
	log      []cke.Spec
	identity cke.Identity
	scrub    scrubber
	fleet    *etcdnode.Fleet
	observe  func() cke.Observation // once
}

// witness finds out who can be asked. A store that does not answer is no error.
func (a *app) witness(ctx context.Context) (*witness, error) {
	w := &witness{app: a, cluster: a.cluster, scrub: newScrubber(nil)}
	s, err := a.connect(ctx)
	if err == nil {
		_, err = s.Clusters(ctx)
	}
	if err != nil {
		w.away = err
		return w, ctx.Err()
	}
	if w.cluster, err = a.theCluster(ctx, s); err != nil {
		return nil, err
	}
	if w.log, err = s.SpecLog(ctx, w.cluster); err != nil {
		return nil, err
	}
	w.store, w.spec, w.scrub = s, w.log[0], newScrubber(w.log)
	if w.identity, err = s.Identity(ctx, w.cluster); err != nil {
		return nil, err
	}
	keys, err := a.preflightKeys(ctx, s, w.cluster, preflightOptions{})
	if err != nil {
		return nil, err
	}
	authority := pki.New(s.Secrets(w.cluster), w.cluster, a.now)
	w.fleet = etcdnode.New(etcdnode.Config{
		Keys: keys.login, AgentSocket: a.getenv("SSH_AUTH_SOCK"), HostKeys: &preflight.HostKeys{Known: keys.pinned, Strict: true}, Beside: true,
		ClientTLS: func(ctx context.Context) (*tls.Config, error) {
			return authority.ClientTLS(ctx, w.identity.Authorities)
		},
	})
	w.fleet.Update(w.spec.Cluster, w.identity)
	w.observe = sync.OnceValue(func() cke.Observation { return preflight.Observe(ctx, w.fleet) })
	return w, nil
}

func (w *witness) close() {
	if w.fleet != nil {
		w.fleet.Close()
	}
}

// parts are all that a bundle is made of.
func (w *witness) parts() []part {
	all := []part{
		w.one("version.json", func(context.Context) (any, error) { return buildVersion(), nil }),
		w.file("config.yml", w.config),
		w.file("daemon/metrics.txt", func(ctx context.Context) ([]byte, error) { return w.daemon(ctx, "/metrics") }),
		w.file("daemon/health.json", func(ctx context.Context) ([]byte, error) { return w.daemon(ctx, "/health") }),
	}
	stored := []part{
		w.file("cluster.yml", func(context.Context) ([]byte, error) { return w.scrub.cluster(w.spec.Cluster) }),
		w.one("revisions.json", func(context.Context) (any, error) { return revisions(w.log), nil }),
		w.one("status.json", func(ctx context.Context) (any, error) { return w.store.Status(ctx, w.cluster) }),
		w.one("plan.json", func(ctx context.Context) (any, error) {
			p, err := w.app.makePlan(ctx, w.store, &edition{cluster: w.spec.Cluster})
			return p, err
		}),
		w.one("history.json", func(ctx context.Context) (any, error) { return w.store.Records(ctx, w.cluster, bundledRecords) }),
		w.one("leader.json", func(ctx context.Context) (any, error) { return w.store.Leader(ctx, w.cluster) }),
		w.one("requests.json", func(ctx context.Context) (any, error) { return w.store.RequestsOf(ctx, w.cluster) }),
		w.one("members.json", func(context.Context) (any, error) { return w.observe().Etcd, nil }),
	}
	for _, n := range w.spec.Wanted().Nodes {
		stored = append(stored, part{path.Join("nodes", n.Name()), func(ctx context.Context) ([]entry, error) { return w.node(ctx, n) }})
	}
	if w.store == nil {
		for i := range stored {
			stored[i].gather = func(context.Context) ([]entry, error) { return nil, w.away }
		}
	}
	return append(all, stored...)
}

// file is a part that is one text.
func (w *witness) file(name string, read func(context.Context) ([]byte, error)) part {
	return part{name, func(ctx context.Context) ([]entry, error) {
		data, err := read(ctx)
		if err != nil {
			return nil, err
		}
		return []entry{{Name: name, data: w.scrub.text(data)}}, nil
	}}
}

// one is a part that is one document in JSON.
func (w *witness) one(name string, read func(context.Context) (any, error)) part {
	return part{name, func(ctx context.Context) ([]entry, error) {
		v, err := read(ctx)
		if err != nil {
			return nil, err
		}
		data, err := w.scrub.json(v)
		return []entry{{Name: name, data: data}}, err
	}}
}

// revision is one revision of a cluster file, told by what it changed.
type revision struct {
	Revision int64     `json:"revision"`
	SetAt    time.Time `json:"setAt"`
	SetBy    string    `json:"setBy"`
	Changes  []string  `json:"changes,omitempty"`
}

// revisions tells them newest first, as the log has them.
func revisions(log []cke.Spec) []revision {
	all := []revision{}
	for i, spec := range log {
		r := revision{Revision: spec.Generation, SetAt: spec.SetAt, SetBy: spec.SetBy}
		if i+1 < len(log) {
			before, after := withoutEnvValues(log[i+1].Wanted()), withoutEnvValues(spec.Wanted())
			r.Changes = changed(before, after)
		}
		all = append(all, r)
	}
	return all
}

// withoutEnvValues leaves out of a cluster file what etcd's environment is to hold.
func withoutEnvValues(c cke.Cluster) cke.Cluster {
	env := map[string]string{}
	for name := range c.Options.Etcd.ExtraEnv {
		env[name] = leftOut
	}
	if len(env) > 0 {
		c.Options.Etcd.ExtraEnv = env
	}
	return c
}

func (w *witness) config(context.Context) ([]byte, error) {
	c, err := w.app.loadConfig()
	if err != nil {
		return nil, err
	}
	return yaml.Marshal(c)
}

// daemon asks the daemon of this host.
func (w *witness) daemon(ctx context.Context, what string) ([]byte, error) {
	c, err := w.app.loadConfig()
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
func (w *witness) node(ctx context.Context, n cke.Node) ([]entry, error) {
	dir := path.Join("nodes", n.Name())
	for _, st := range w.observe().Nodes {
		if st.Node.Address != n.Address {
			continue
		}
		data, err := w.scrub.json(st)
		if err != nil {
			return nil, err
		}
		all := []entry{{Name: path.Join(dir, "observation.json"), data: data}}
		if p := st.Problem; p != nil {
			return append(all, entry{Name: path.Join(dir, "logs"), Problem: follow.ProblemText(*p)}), nil
		}
		for _, c := range st.Containers {
			if c.Cluster == w.cluster {
				all = append(all, w.memberLog(ctx, n, path.Join(dir, c.Name+".log"), c.Name))
			}
		}
		return all, nil
	}
	return nil, errors.New("it was not looked at")
}

func (w *witness) memberLog(ctx context.Context, n cke.Node, name, container string) entry {
	log, err := w.fleet.Log(ctx, n, container, bundledLog)
	if err != nil {
		return entry{Name: name, Problem: oneLine(err)}
	}
	return entry{Name: name, data: w.scrub.text(log)}
}
