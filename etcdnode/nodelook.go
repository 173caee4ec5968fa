package etcdnode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"cke"
)

// nodeFacts is what an observation of a node found. With a problem, the rest is what was last seen.
type nodeFacts struct {
	status cke.NodeStatus
	words  map[string]string // last words by container and end, so that a log is read once
	// foreign is what the containers that cke did not make were configured as, by id.
	foreign  map[string]foreignFacts
	surveyed time.Time // when the last look at everything began; zero: none succeeded
	quiet    bool      // the last look was not at everything
}

// sameNews reports whether n tells nothing that f did not tell.
func (f nodeFacts) sameNews(n nodeFacts) bool {
	a, b := f.status, n.status
	if jump := ahead(a) - ahead(b); jump.Abs() > clockNews {
		return false
	}
	a.SeenAt, b.SeenAt, a.Clock, b.Clock = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	if a.Problem != nil && b.Problem != nil {
		p := *b.Problem
		p.Message = a.Problem.Message
		b.Problem = &p
	}
	return reflect.DeepEqual(a, b)
}

// clockNews is by how much a node's clock may wander before it is told at once.
const clockNews = time.Minute

// ahead is how far a node's clock was ahead of ours; 0: nobody knows.
func ahead(s cke.NodeStatus) time.Duration {
	if s.Clock.IsZero() {
		return 0
	}
	return s.Clock.Sub(s.SeenAt)
}

// failed is what is known of a node after a look that failed. A problem of the same kind lasts since it started.
func (f nodeFacts) failed(n cke.Node, err error, since time.Time) nodeFacts {
	if p := f.status.Problem; p != nil && p.Code == cke.CodeOf(err) {
		since = p.Since
	}
	f.status.Node, f.status.Problem = n, problemOf(n, err, since)
	f.status.ClientPort, f.status.PeerPort = cke.PortUnknown, cke.PortUnknown
	f.quiet = false
	return f
}

// look looks at the node once. It does not wait for a node that is known to be down, nor for an engine that is known
// to hang: link and ping tell when that ends.
func (a *nodeAccess) look(ctx context.Context, old nodeFacts, begun time.Time, whole bool) nodeFacts {
	s, err := a.link.first(ctx)
	if err != nil {
		if a.keyAccepted() {
			a.link.poke()
		}
		return old.failed(a.node, err, begun)
	}
	var facts nodeFacts
	err = s.call(ctx, allowed(lookLimit), "list containers and volumes", func(ctx context.Context) (err error) {
		if !whole {
			if facts, whole = a.glance(ctx, s, old, begun); !whole {
				return nil
			}
		}
		facts, err = a.survey(ctx, s, old)
		facts.surveyed = begun
		return err
	})
	if err != nil {
		return old.failed(a.node, err, begun)
	}
	return facts
}

// survey asks the engine what concerns etcd on the node.
func (a *nodeAccess) survey(ctx context.Context, s *session, old nodeFacts) (nodeFacts, error) {
	sc := a.fleet.currentScope()
	facts := nodeFacts{status: cke.NodeStatus{Node: a.node}, words: map[string]string{}}
	all, err := s.engine.containers(ctx)
	if err != nil {
		return facts, err
	}
	all, facts.status.Neighbors = cke.SplitNeighbors(sc.cluster, all)
	running := false
	var foreign []cke.Container
	for _, c := range all {
		if !sc.carriesEtcd(c) {
			continue
		}
		if c.Cluster == sc.cluster {
			c, err = a.fleet.complete(ctx, s, c, old.words)
			if errors.Is(err, cke.ErrNotFound) {
				continue // gone meanwhile
			}
			if err != nil {
				return facts, err
			}
			if !c.FinishedAt.IsZero() {
				if _, known := old.words[wordsKey(c)]; !known && a.fleet.config.Guard != nil && noRoom(ctx, s, c) {
					c.LastWords = strings.TrimPrefix(c.LastWords+"; the engine: "+noSpaceText, "; ")
				}
				facts.words[wordsKey(c)] = c.LastWords
			}
			running = running || c.Running() && sc.declares(c)
		}
		if c.Cluster == "" {
			foreign = append(foreign, c)
			continue
		}
		facts.status.Containers = append(facts.status.Containers, c)
	}
	if foreign, facts.foreign, err = inspectForeigns(ctx, s, foreign, old.foreign); err != nil {
		return facts, err
	}
	facts.status.Containers = append(facts.status.Containers, sc.fewer(foreign)...)
	volumes, err := s.engine.volumes(ctx)
	if err != nil {
		return facts, err
	}
	facts.status.Over = overBy(marksOf(volumes, sc.cluster))
	for _, v := range volumes {
		if len(v.Over) == 0 && sc.holdsEtcd(v.Volume) {
			facts.status.Volumes = append(facts.status.Volumes, v.Volume)
		}
	}
	slices.SortFunc(facts.status.Containers, func(a, b cke.Container) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(facts.status.Volumes, func(a, b cke.Volume) int { return strings.Compare(a.Name, b.Name) })
	if !running {
		facts.status.ClientPort, facts.status.PeerPort = portsOf(ctx, a.node.Address, sc.clientPort, sc.peerPort)
	}
	facts.status.EngineVersion = s.engine.engineVersion()
	facts.status.SeenAt, facts.status.Clock = time.Now().UTC(), s.engine.time()
	return facts, nil
}

func wordsKey(c cke.Container) string { return c.ID + c.FinishedAt.String() }

// complete looks closer at a container of ours: dates, certificates, data, and, unless it runs, its exit code and last words.
// known holds last words read before.
func (f *Fleet) complete(ctx context.Context, s *session, c cke.Container, known map[string]string) (cke.Container, error) {
	e, err := s.engine.container(ctx, c.ID)
	if err != nil {
		return c, err
	}
	c = e.Container
	c.Certificates = f.certificates(ctx, s, c)
	if !c.Running() && !c.FinishedAt.IsZero() {
		words, ok := known[wordsKey(c)]
		if !ok {
			log, err := s.engine.lastLog(ctx, c.ID, lastWordsLines)
			if err != nil && ctx.Err() != nil {
				return c, err
			}
			words = lastWords(log)
		}
		if c.LastWords == "" {
			c.LastWords = words
		}
	}
	limit := allowed(dataLookLimit)
	if c.Running() { // it is seldom gone, and searched for again soon
		limit = allowed(runningDataLimit)
	}
	brief, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if c.Data, err = f.observedData(brief, s, c); err != nil && ctx.Err() != nil {
		return c, err
	}
	return c, nil // data that could not be searched for in time is unknown, which is no reason to doubt the node
}

// carriesEtcd reports whether a container belongs into an observation: one of the cluster's, of an etcd image, or named as
// ours would be.
func (sc scope) carriesEtcd(c cke.Container) bool {
	if c.Cluster == "" && (strings.HasPrefix(c.Name, visitPrefix) || sc.ourName(c.Name) && strings.HasSuffix(c.Name, onceSuffix)) {
		return false // it runs etcd's tool, or ours, not etcd
	}
	return c.Cluster != "" || sc.ourName(c.Name) || etcdImage(c.Image, sc.image)
}

// declares reports whether a container was made for the declared ports, or does not tell for which.
func (sc scope) declares(c cke.Container) bool {
	ports := fmt.Sprintf(":%d ", sc.clientPort)
	return c.Place == "" || strings.Contains(c.Place, ports) && strings.HasSuffix(c.Place, fmt.Sprintf(":%d", sc.peerPort))
}

func (sc scope) holdsEtcd(v cke.Volume) bool {
	return v.Cluster == sc.cluster || v.Cluster == "" && sc.ourName(v.Name)
}

func (sc scope) ourName(name string) bool {
	return sc.volumeName != "" && strings.HasPrefix(name, sc.volumeName)
}

// etcdImage reports whether an image is the cluster's, or one whose repository is called etcd.
func etcdImage(image, clusters string) bool {
	repository := func(ref string) string {
		ref, _, _ = strings.Cut(ref, "@")
		if i := strings.LastIndex(ref, ":"); i > strings.LastIndex(ref, "/") {
			ref = ref[:i]
		}
		return ref
	}
	r := repository(image)
	return r != "" && (r == repository(clusters) || r[strings.LastIndex(r, "/")+1:] == "etcd")
}

// portsOf reports whether something listens on the two ports.
func portsOf(ctx context.Context, address string, client, peer int) (c, p cke.PortState) {
	var wg sync.WaitGroup
	wg.Go(func() { c = portState(ctx, address, client) })
	wg.Go(func() { p = portState(ctx, address, peer) })
	wg.Wait()
	return c, p
}

func portState(ctx context.Context, address string, port int) cke.PortState {
	ctx, cancel := context.WithTimeout(ctx, allowed(portLimit))
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(address, strconv.Itoa(port)))
	switch {
	case err == nil:
		conn.Close()
		return cke.PortOpen
	case errors.Is(err, syscall.ECONNREFUSED):
		return cke.PortClosed
	}
	return cke.PortUnknown
}
