package mtest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cke"
	"cke/mtest/rig"
)

// kubeLoad is what clients of kube-apiserver do to a cluster while something happens to it: each of some workers creates, updates, reads and
// lists ConfigMaps of its own, and a watch follows all of them. A worker never repeats a write whose outcome is not known: it reads.
type kubeLoad struct {
	*rig.Pulse
	*kubeHistory
	client *kubeClient
	url    atomic.Pointer[string] // of the kube-apiserver that requests go to from now on
	prefix string                 // of all objects
	watch  *kubeWatch
	// restores: a worker ends where a later incarnation answers, which may have other content.
	restores bool

	stop, stopWatch context.CancelFunc
	workers, wg     sync.WaitGroup // wg is the watch

	figures sync.Mutex
	failed  map[string]int // failures by request and cause
	wrong   []error        // what must not be answered
	calls   int
	taken   int // of the acknowledged writes
}

const (
	kubeWorkers = 5
	// kubeObjects is how many objects a worker has in the end.
	kubeObjects = 20
	// kubeEvery is the pause of a worker between two requests.
	kubeEvery = 50 * time.Millisecond
	// kubeLimit bounds each request of a worker: that of a controller's client, which has none of its own, is a minute.
	kubeLimit = 30 * time.Second
	// kubeAgain is the pause after a request that failed and does not say when to repeat it.
	kubeAgain = 100 * time.Millisecond
)

const configMaps = "/api/v1/namespaces/default/configmaps"

// startKubeLoad starts workers and a watch. End it with finish or end.
func startKubeLoad(client *kubeClient, url string, restores bool) *kubeLoad {
	l := &kubeLoad{Pulse: rig.StartPulse(), kubeHistory: newKubeHistory(), client: client, prefix: fmt.Sprintf("load-%08x-", rand.Uint32()), restores: restores, failed: map[string]int{}}
	l.url.Store(&url)
	l.watch = &kubeWatch{load: l, seen: map[string]kubeObject{}, events: map[int64]bool{}}
	var working, watching context.Context
	working, l.stop = context.WithCancel(context.Background())
	watching, l.stopWatch = context.WithCancel(context.Background())
	l.wg.Go(func() { l.watch.follow(watching) })
	for worker := range kubeWorkers {
		l.workers.Go(func() { l.work(working, worker) })
	}
	return l
}

func (l *kubeLoad) at(path string) string { return *l.url.Load() + path }

// end ends all clients.
func (l *kubeLoad) end() {
	l.stop()
	l.workers.Wait()
	l.stopWatch()
	l.wg.Wait()
}

// report notes what must not be.
func (l *kubeLoad) report(err error) {
	l.figures.Lock()
	defer l.figures.Unlock()
	l.wrong = append(l.wrong, err)
}

// fails notes why a request failed, and waits as its answer asks for.
func (l *kubeLoad) fails(ctx context.Context, request string, err error) {
	if ctx.Err() != nil {
		return
	}
	failed := &kubeError{}
	if !errors.As(err, &failed) {
		failed.Message = err.Error()
	}
	l.figures.Lock()
	l.failed[request+": "+cause(failed)]++
	l.figures.Unlock()
	select {
	case <-ctx.Done():
	case <-time.After(max(kubeAgain, failed.after)):
	}
}

// varying are the parts of a message that differ from failure to failure.
var varying = regexp.MustCompile(`load-[-0-9a-f]+|\d+\.\d+\.\d+\.\d+(:\d+)?(->)?|127\.0\.0\.1:\d+|\b\d{3,}\b|https://\S+`)

// cause is a failure without what differs from one to the next.
func cause(e *kubeError) string { return strings.TrimSpace(varying.ReplaceAllString(e.Error(), "…")) }

// call makes one request of a worker, which is not canceled when the load ends.
func (l *kubeLoad) call(ctx context.Context, method, path string, body, to any) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), kubeLimit)
	defer cancel()
	l.figures.Lock()
	l.calls++
	l.figures.Unlock()
	return l.client.do(ctx, method, l.at(path), body, to)
}

// work makes one request after the other, until ctx ends or another incarnation answers.
func (l *kubeLoad) work(ctx context.Context, worker int) {
	tick := time.NewTicker(kubeEvery)
	defer tick.Stop()
	w := kubeWorker{kubeLoad: l, label: fmt.Sprintf("%s%d", l.prefix, worker), objects: map[string]kubeObject{}, unsure: map[string]bool{}}
	for n := 0; !w.over; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		name := fmt.Sprintf("%s-%02d", w.label, rand.N(min(kubeObjects, 1+n/8)))
		switch o, exists := w.objects[name]; {
		case w.unsure[name], n%4 == 0:
			w.get(ctx, name)
		case n%16 == 1:
			w.list(ctx)
		case !exists:
			w.write(ctx, "create", configMaps, name, n, o)
		default:
			w.write(ctx, "update", configMaps+"/"+name, name, n, o)
		}
	}
}

// kubeWorker is the only one that writes its objects.
type kubeWorker struct {
	*kubeLoad
	label   string                // of all its objects, with which their names start
	objects map[string]kubeObject // as they were seen last; those that exist
	unsure  map[string]bool       // objects that have to be read before they are written
	over    bool                  // a later incarnation answered
}

// write creates an object, or updates the one of this revision.
func (w *kubeWorker) write(ctx context.Context, verb, path, name string, n int, old kubeObject) {
	o := kubeObject{APIVersion: "v1", Kind: "ConfigMap", Data: map[string]string{"n": fmt.Sprint(n)}}
	o.Metadata.Name, o.Metadata.ResourceVersion, o.Metadata.Labels = name, old.Metadata.ResourceVersion, map[string]string{"worker": w.label}
	method := http.MethodPut
	if verb == "create" {
		method = http.MethodPost
	}
	w.asked(name, o.Data["n"])
	var answer kubeObject
	err := w.call(ctx, method, path, o, &answer)
	if err == nil {
		w.acknowledged(name, answer.revision())
		w.Beat()
		w.objects[name] = answer
		return
	}
	w.unsure[name] = true
	switch code := codeOf(err); {
	case code != http.StatusConflict && code != http.StatusNotFound:
		w.fails(ctx, verb, err)
	case w.mayChange(name):
		w.refused(name) // the write before it took effect after all
	case w.restores && w.another(ctx):
		w.refused(name)
	default:
		w.report(fmt.Errorf("%s of %s, which nothing else writes: %w", verb, name, err))
	}
}

// codeOf is that of HTTP in an answer that reports a failure; 0: there was no answer.
func codeOf(err error) int {
	failed := &kubeError{}
	errors.As(err, &failed)
	return failed.Code
}

// get reads an object, which has to be what was written.
func (w *kubeWorker) get(ctx context.Context, name string) {
	var o kubeObject
	err := w.call(ctx, http.MethodGet, configMaps+"/"+name, nil, &o)
	switch code := codeOf(err); {
	case err != nil && code != http.StatusNotFound:
		w.fails(ctx, "get", err)
	case w.restores && w.another(ctx): // whose answer it is does not follow from the revision of an object
	default:
		w.found(name, o)
	}
}

// found compares what an object is with what was written.
func (w *kubeWorker) found(name string, o kubeObject) {
	if err := w.read(name, o.Data["n"], o.revision(), revisions{}); err != nil {
		w.report(err)
	}
	delete(w.objects, name)
	delete(w.unsure, name)
	if o.revision() > 0 {
		w.objects[name] = o
	}
}

// list reads all objects of the worker.
func (w *kubeWorker) list(ctx context.Context) {
	var all kubeList
	if err := w.call(ctx, http.MethodGet, configMaps+"?labelSelector=worker%3D"+w.label, nil, &all); err != nil {
		w.fails(ctx, "list", err)
		return
	}
	if w.over = w.restores && all.revision() >= cke.RevisionBump; w.over {
		return
	}
	exist := all.byName()
	for _, name := range w.names() {
		if strings.HasPrefix(name, w.label+"-") {
			w.found(name, exist[name])
		}
	}
}

// another reports whether etcd is of a later incarnation, or does not answer.
func (w *kubeWorker) another(ctx context.Context) bool {
	var all kubeList
	if err := w.call(ctx, http.MethodGet, configMaps+"?limit=1", nil, &all); err != nil {
		w.fails(ctx, "list", err)
		return true
	}
	w.over = all.revision() >= cke.RevisionBump
	return w.over
}

// all returns all objects of the load.
func (l *kubeLoad) all(ctx context.Context) (map[string]kubeObject, error) {
	var list kubeList
	if err := l.call(ctx, http.MethodGet, configMaps, nil, &list); err != nil {
		return nil, err
	}
	exist := list.byName()
	maps.DeleteFunc(exist, func(name string, _ kubeObject) bool { return !strings.HasPrefix(name, l.prefix) })
	return exist, nil
}

// kubeFigures are what the clients met since the last time.
type kubeFigures struct {
	calls, acked, resumed, relisted int
	gap                             time.Duration
	failed                          map[string]int
}

// take returns the figures since the last call.
func (l *kubeLoad) take() kubeFigures {
	f := kubeFigures{gap: l.TakeGap()}
	f.resumed, f.relisted = l.watch.take()
	l.figures.Lock()
	defer l.figures.Unlock()
	all := l.count()
	f.acked, l.taken = all-l.taken, all
	f.calls, f.failed = l.calls, l.failed
	l.calls, l.failed = 0, map[string]int{}
	return f
}

func (f kubeFigures) failures() (n int) {
	for _, m := range f.failed {
		n += m
	}
	return n
}

func (f kubeFigures) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d requests, %d writes acknowledged, %d failed, longest time without an acknowledged write %s, the watch resumed %d times and listed again %d times",
		f.calls, f.acked, f.failures(), f.gap.Round(time.Millisecond), f.resumed, f.relisted)
	for _, what := range slices.Sorted(maps.Keys(f.failed)) {
		fmt.Fprintf(&b, "\n\t%d × %s", f.failed[what], what)
	}
	return b.String()
}

// finish ends the clients, and fails unless every object is what was written, but for what was lost in a restore, every answer was right, and
// the watch saw it all.
func (l *kubeLoad) finish(ctx context.Context, lost revisions) error {
	defer l.end()
	l.stop()
	l.workers.Wait()
	exist, err := l.watch.current(ctx)
	if err != nil {
		return err
	}
	for _, name := range l.names() {
		if err := l.read(name, exist[name].Data["n"], exist[name].revision(), lost); err != nil {
			l.report(err)
		}
	}
	l.each(func(name string, w kubeWrite) {
		if !l.watch.saw(w.revision) {
			l.report(fmt.Errorf("the watch missed %s at revision %d, and did not list again", name, w.revision))
		}
	})
	l.figures.Lock()
	defer l.figures.Unlock()
	return errors.Join(l.wrong...)
}
