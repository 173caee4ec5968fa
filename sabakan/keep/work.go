package keep

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"cke"
	"cke/internal/contain"
	"cke/sabakan"
)

const (
	// askedFor is for how long it counts that the inventory did not know a machine that it was asked for.
	askedFor = 10 * time.Minute
	// orderFor is how long an order may wait: what was confirmed then is not what is known now.
	orderFor = 10 * time.Minute
	// storeEvery is how old the stored past may be while no machine changes.
	storeEvery = 10 * time.Minute
	// othersEvery is how old it may be what is known of other clusters: a machine that is theirs since is found by its check.
	othersEvery = time.Minute
	// daytime is for how long changes are shown.
	daytime = 24 * time.Hour
)

// taken is a read with where it is from: the source may be another one by now.
type taken struct {
	sabakan.Read
	source sabakan.Source
}

// work is what one run knows. Only its own goroutine uses it.
type work struct {
	*Keeper
	running sync.WaitGroup // what was started beside
	reads   chan taken
	found   chan findings

	settings *cke.InventorySettings // that are followed; nil: none are
	template cke.Template
	source   sabakan.Source
	stop     context.CancelFunc // ends the reading
	unusable string             // why the settings are not followed; empty: they are
	code     cke.Code           // of unusable, where that is a fault

	loaded   bool         // the past was read from the store
	past     sabakan.Past // before the last read
	read     sabakan.Read
	after    sabakan.Past // with the last good read
	accepted sabakan.Acceptance
	stored   string // the machines of the past in the store, as shape writes them
	storedAt time.Time
	log      cke.InventoryLog // as it is in the store

	others       map[string]string // clusters of nodes, by address, at othersAt
	othersAt     time.Time
	checks       map[string]sabakan.Check
	unregistered map[string]time.Time
	asked        map[string]bool // for which machines the inventory was asked since the last read, whatever it answered
	looking      bool            // findings are awaited
	chosenFor    int64

	choice   sabakan.Choice
	override *sabakan.Choice
}

// look follows what operators and the loop say now. What the last read leads to is chosen anew only if something else is asked.
func (w *work) look(ctx context.Context) {
	k := w.now()
	if s := w.c.Settings(); !reflect.DeepEqual(s, w.settings) {
		w.follow(ctx, s)
	}
	switch {
	case w.settings == nil:
		w.publish(nil)
	case !w.usable():
		w.refuseOrder(ctx, w.unusable)
		w.publish(&cke.InventoryStatus{Reason: w.unusable, Code: w.code, Stop: string(sabakan.StopOff), Log: w.shownLog()})
	case w.c.Order() != nil || k.Spec.Generation != w.chosenFor:
		w.choose(ctx)
	}
}

// now is what the loop said last.
func (w *work) now() cke.InventoryWanted {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wanted
}

// usable reports whether there is an inventory to work with.
func (w *work) usable() bool { return w.settings != nil && w.unusable == "" }

// follow starts to read another inventory, or the same one for another template.
func (w *work) follow(ctx context.Context, s *cke.InventorySettings) {
	if w.stop != nil {
		w.stop()
		w.stop = nil
	}
	before, from := w.template, w.settings
	w.settings, w.template, w.source, w.unusable, w.code, w.chosenFor = s, cke.Template{}, nil, "", "", 0
	var err error
	switch {
	case s == nil:
		return
	case !s.Enabled:
		w.unusable = "the inventory is not used: `ckecli sabakan enable`"
	case s.Template == "":
		w.unusable = "no template is set: `ckecli sabakan set-template`"
	case s.URL == "":
		w.unusable = "it is not known where the inventory is: `ckecli sabakan set-url`"
	default:
		if w.template, err = w.c.Template(*s); err == nil {
			w.source, err = w.c.Open(w.template.Inventory.Source, s.URL)
		}
		if err != nil {
			w.unusable, w.code = err.Error(), cke.CodeInventory
		}
	}
	if !w.usable() || !w.load(ctx) {
		return
	}
	if from == nil || from.URL != s.URL || before.Inventory.Source != w.template.Inventory.Source { // what another one said is not of this one
		w.read = sabakan.Read{}
	}
	w.past = w.after
	w.start(ctx)
}

// load reads the past, once; a write whose outcome is unknown asks for it again.
func (w *work) load(ctx context.Context) bool {
	if w.loaded {
		return true
	}
	past, err := w.c.Past(ctx)
	if err != nil {
		w.c.Log.Warn("the past of the inventory is not read yet", "error", err)
		w.settings, w.code, w.unusable = &cke.InventorySettings{}, cke.CodeInventory, "what is known of earlier reads cannot be read from the store" // tried again
		return false
	}
	w.log = past.InventoryLog
	if w.after.ReadAt.IsZero() {
		w.after, w.stored = sabakan.Past(past), shape(past)
	}
	w.after.InventoryLog = w.log
	w.past.InventoryLog = w.log
	w.loaded = true
	return true
}

// start reads the inventory at its interval, beside.
func (w *work) start(ctx context.Context) {
	ctx, w.stop = context.WithCancel(ctx)
	if f, counts := w.source.(*sabakan.File); counts {
		f.Continue(w.after.ReadAt, w.after.Hosts)
	}
	source := w.source
	r := &sabakan.Reader{Source: source, Interval: time.Duration(w.template.Inventory.Interval)}
	w.beside(func() {
		r.Run(ctx, func(read sabakan.Read) {
			select {
			case w.reads <- taken{read, source}:
			case <-ctx.Done():
			}
		})
	})
}

// beside does something in a goroutine of its own.
func (w *work) beside(f func()) {
	w.running.Go(contain.Work(f, func(err error) {
		w.c.Log.Error("a panic while working with the inventory of one cluster; all else continues", "panic", err, "stack", contain.Of(err).Stack)
	}))
}

// took goes on with one more read.
func (w *work) took(ctx context.Context, t taken) {
	if !w.usable() || t.source != w.source {
		return
	}
	r := t.Read
	if r.Good.ReadAt.IsZero() { // it is read for another template now, and was read well before
		r.Good = w.read.Good
	}
	good := r.Err == nil && !r.Good.ReadAt.Equal(w.read.Good.ReadAt)
	if good {
		w.past, w.accepted = w.after, ""
		for _, h := range r.Good.Hosts {
			delete(w.unregistered, h.ID)
		}
	}
	w.asked = map[string]bool{}
	if r.Err != nil && w.read.Err == nil {
		w.c.Log.Warn("the inventory cannot be read; nothing follows from it meanwhile", "error", r.Err)
	}
	w.read = r
	w.choose(ctx)
}

// input is what is chosen from.
func (w *work) input(ctx context.Context, k cke.InventoryWanted) sabakan.Input {
	in := sabakan.Input{Template: w.template, Read: w.read.Good, Spec: k.Spec, Status: k.Status, Past: w.past, Now: w.c.Now(), Checks: w.checks,
		Simulate: w.c.Simulate(ctx, k)}
	if w.read.Err != nil {
		in.Problem = w.read.Err.Error()
	}
	for serial, at := range w.unregistered {
		if in.Now.Sub(at) < askedFor {
			in.Unregistered = append(in.Unregistered, serial)
		}
	}
	slices.Sort(in.Unregistered)
	if in.Now.Sub(w.othersAt) > othersEvery {
		if others, err := w.c.Others(ctx); err != nil {
			in.TakenProblem = err.Error()
		} else {
			w.others, w.othersAt = others, in.Now
		}
	}
	in.Taken = w.others
	return in
}

// choose finds what follows from the last read, and does it where that is allowed.
func (w *work) choose(ctx context.Context) {
	k := w.now()
	if k.Spec.Generation == 0 || !w.load(ctx) {
		return
	}
	w.noteRolledBack(k)
	in := w.input(ctx, k)
	w.chosenFor, w.override = k.Spec.Generation, nil
	if w.choice = w.c.Choose(in); w.choice.Overridable {
		of := in
		of.Override = true
		c := w.c.Choose(of)
		w.override = &c
	}
	if w.accepted == "" && w.choice.Acceptance != "" {
		w.accept(k, w.choice.Acceptance)
	}
	w.search(ctx, in)
	w.act(ctx, k)
	w.save(ctx)
	w.publish(w.report(in))
}

// accept notes the last read for later ones.
func (w *work) accept(k cke.InventoryWanted, a sabakan.Acceptance) {
	w.accepted = a
	w.after = w.past.Next(w.read.Good, k.Spec, k.Status, time.Duration(w.template.Inventory.Interval), a)
}

// act does what was ordered, or what needs no order.
func (w *work) act(ctx context.Context, k cke.InventoryWanted) {
	log := w.after.InventoryLog
	switch o := w.c.Order(); {
	case o != nil && log.Answer != nil && o.ID == log.Answer.Order.ID: // the store may not know yet
	case o != nil && w.c.Now().Sub(o.At) > orderFor:
		w.refuseOrder(ctx, "it was ordered more than "+cke.Duration(orderFor).Short()+" ago")
	case o != nil && w.choice.Change != nil && w.choice.Change.Hash == o.Hash:
		w.apply(ctx, k, *w.choice.Change, o)
	case o != nil && w.override != nil && w.override.Change != nil && w.override.Change.Hash == o.Hash:
		if w.apply(ctx, k, *w.override.Change, o) && w.override.Acceptance == sabakan.Overridden {
			log := w.after.InventoryLog
			w.accept(k, sabakan.Overridden)
			w.after.InventoryLog = log
		}
	case o != nil && w.looking: // what is found may lead to it again
	case o != nil:
		w.refuseOrder(ctx, "it is no longer what follows from the inventory: "+w.choice.Reason)
	case w.choice.Change != nil && w.choice.Change.Auto:
		w.apply(ctx, k, *w.choice.Change, nil)
	case w.choice.Template != "":
		w.after.Template = w.choice.Template
	}
}

// apply stores a change as a revision of the cluster file.
func (w *work) apply(ctx context.Context, k cke.InventoryWanted, c sabakan.Change, o *cke.InventoryOrder) bool {
	text, err := cke.MarshalCluster(c.Cluster)
	if err == nil {
		err = w.c.Verify(text)
	}
	e := cke.InventoryEdit{Generation: k.Spec.Generation, Cluster: c.Cluster, Source: text, By: "inventory", Cause: c.Cause, Forget: c.Forget, Order: o,
		Log: w.after.InventoryLog, Change: cke.InventoryChange{Cause: c.Cause, Old: c.Old, New: c.New, Before: replaced(k.Spec.Cluster, c.Cluster)}}
	if o != nil && o.By != "" {
		e.By += ", confirmed by " + o.By
	}
	if c.Cause == cke.CauseTemplate {
		e.Log.Template = sabakan.TemplateHash(w.template)
	}
	var spec cke.Spec
	if err == nil {
		spec, e.Log, err = w.c.Ledger.EditSpec(ctx, e)
	}
	switch {
	case errors.Is(err, cke.ErrConflict):
		w.c.Log.Info("a change that follows from the inventory is dropped: the cluster file, or that of another cluster, was changed meanwhile", "cause", c.Cause, "error", err)
		w.chosenFor, w.othersAt = 0, time.Time{}
		w.refuseOrder(ctx, "the cluster file, or that of another cluster, was changed meanwhile")
	case err != nil:
		w.c.Log.Warn("a change that follows from the inventory may not be stored", "cause", c.Cause, "error", err)
		w.loaded = false // what is stored is unknown
	default:
		w.c.Log.Info("the cluster file follows the inventory", "revision", spec.Generation, "cause", c.Cause, "reason", w.choice.Reason, "by", e.By)
		w.after.InventoryLog, w.past.InventoryLog, w.log = e.Log, e.Log, e.Log
		w.c.Applied(c.Cause)
		return true
	}
	return false
}

// refuseOrder answers an order that is not carried out.
func (w *work) refuseOrder(ctx context.Context, why string) {
	o := w.c.Order()
	if o == nil || !w.load(ctx) || w.log.Answer != nil && w.log.Answer.Order.ID == o.ID {
		return
	}
	log := w.after.InventoryLog
	log.Answer = &cke.InventoryAnswer{Order: *o, At: w.c.Now().UTC(), Refused: why, Code: cke.CodeConflict}
	if err := w.c.Ledger.PutInventoryLog(ctx, log, true); err != nil {
		w.c.Log.Warn("the answer to an order is not stored yet", "error", err)
		return
	}
	w.after.InventoryLog, w.past.InventoryLog, w.log = log, log, log
}

// save stores what a later leader has to know.
func (w *work) save(ctx context.Context) {
	if !w.loaded {
		return
	}
	if log := w.after.InventoryLog; !reflect.DeepEqual(log, w.log) {
		if err := w.c.Ledger.PutInventoryLog(ctx, log, false); err != nil {
			w.c.Log.Warn("what the inventory changed is not stored yet", "error", err)
			return
		}
		w.log = log
	}
	past := cke.InventoryPast(w.after)
	is := shape(past)
	if now := w.c.Now(); is != w.stored || now.Sub(w.storedAt) > storeEvery {
		if err := w.c.Ledger.PutInventoryPast(ctx, past); err != nil {
			w.c.Log.Warn("what the inventory said is not stored yet", "error", err)
			return
		}
		w.stored, w.storedAt = is, now
	}
}

// shape is what is worth storing at once.
func shape(p cke.InventoryPast) string {
	var b strings.Builder
	fmt.Fprint(&b, p.Serials)
	for _, serial := range slices.Sorted(maps.Keys(p.Hosts)) {
		h := p.Hosts[serial]
		fmt.Fprintln(&b, serial, h.State, h.Address, h.Accepted, len(h.Turned), min(h.Reads, 2))
	}
	return b.String()
}
