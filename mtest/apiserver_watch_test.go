package mtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// kubeWatch follows the objects of a load as a controller does: it lists once and watches from there. It resumes a watch that ended from the
// last revision that it saw, and lists again only where that is too old.
type kubeWatch struct {
	load *kubeLoad

	mu      sync.Mutex
	seen    map[string]kubeObject // by name
	last    int64                 // the last revision
	events  map[int64]bool        // revisions of which an event was seen
	skipped []revisions           // revisions whose events a list took the place of
	// since the last call of take
	resumed, relisted int
}

// follow watches until ctx ends.
func (w *kubeWatch) follow(ctx context.Context) {
	for listed := false; ctx.Err() == nil; {
		if !listed {
			if err := w.list(ctx); err != nil {
				w.load.fails(ctx, "list for the watch", err)
				continue
			}
			listed = true
		}
		w.mu.Lock()
		from := strconv.FormatInt(w.last, 10)
		w.mu.Unlock()
		err := w.load.client.watch(ctx, w.load.at(configMaps), from, w.see)
		failed := &kubeError{}
		w.mu.Lock()
		switch errors.As(err, &failed); {
		case failed.Code == http.StatusGone:
			listed = false
			w.relisted++
		default:
			w.resumed++
		}
		w.mu.Unlock()
		if listed && failed.Code != 0 {
			w.load.fails(ctx, "watch", err)
		}
	}
}

// list takes what there is now for what was seen.
func (w *kubeWatch) list(ctx context.Context) error {
	var list kubeList
	if err := w.load.call(ctx, http.MethodGet, configMaps, nil, &list); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.skipped = append(w.skipped, revisions{w.last, list.revision()})
	w.last, w.seen = list.revision(), list.byName()
	maps.DeleteFunc(w.seen, func(name string, _ kubeObject) bool { return !strings.HasPrefix(name, w.load.prefix) })
	return nil
}

// see takes note of an event.
func (w *kubeWatch) see(e kubeEvent) error {
	var o kubeObject
	if err := json.Unmarshal(e.Object, &o); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if o.revision() < w.last || o.revision() == w.last && e.Type != "BOOKMARK" {
		w.load.report(fmt.Errorf("the watch went from revision %d back to %s of %s at %d", w.last, e.Type, o.Metadata.Name, o.revision()))
	}
	w.last = o.revision()
	if e.Type == "BOOKMARK" || !strings.HasPrefix(o.Metadata.Name, w.load.prefix) {
		return nil
	}
	w.events[o.revision()] = true
	if e.Type == "DELETED" {
		delete(w.seen, o.Metadata.Name)
		return nil
	}
	w.seen[o.Metadata.Name] = o
	return nil
}

// saw reports whether the watch had an event of a revision, or a list in place of it.
func (w *kubeWatch) saw(revision int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.events[revision] || slices.ContainsFunc(w.skipped, func(s revisions) bool { return s.has(revision) })
}

// take returns how often the watch was resumed, and how often it listed again, since the last call.
func (w *kubeWatch) take() (resumed, relisted int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	resumed, relisted = w.resumed, w.relisted
	w.resumed, w.relisted = 0, 0
	return resumed, relisted
}

// current waits until the watch has seen each object as it is, while nothing is written, and returns them.
func (w *kubeWatch) current(ctx context.Context) (map[string]kubeObject, error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		exist, err := w.load.all(ctx)
		w.mu.Lock()
		var differ []string
		for name := range w.seen {
			if _, is := exist[name]; !is {
				differ = append(differ, name+" does not exist")
			}
		}
		for name, o := range exist {
			if s := w.seen[name]; s.revision() != o.revision() || s.Data["n"] != o.Data["n"] {
				differ = append(differ, fmt.Sprintf("%s is %q at %d, and was seen as %q at %d", name, o.Data["n"], o.revision(), s.Data["n"], s.revision()))
			}
		}
		w.mu.Unlock()
		if err == nil && len(differ) == 0 {
			return exist, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("the watch does not see what is there: %w, %v: %s", ctx.Err(), err, strings.Join(differ, "\n"))
		case <-tick.C:
		}
	}
}
