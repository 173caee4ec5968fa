package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"cke"
	"cke/backup"
	"cke/internal/term"
	"cke/op"
	"cke/server/strategy"
)

// restorePlan is what a restore would do, as `restore --plan` writes it for programs.
type restorePlan struct {
	Cluster string `json:"cluster"`
	// Declared: the cluster is not in the store yet.
	Declared bool   `json:"declared,omitempty"`
	Target   string `json:"target,omitempty"`
	Source   string `json:"source,omitempty"`
	// Import is the data that is stored in the target first, and restored from there.
	Import   *importPlan `json:"import,omitempty"`
	Survivor string      `json:"survivor,omitempty"`
	Lineage  string      `json:"lineage,omitempty"`
	// Revision is the one that is restored; 0: the leader finds out. Time is the one that was asked for, or else when the newest
	// change in it had been received; zero: not known.
	Revision int64     `json:"revision,omitempty"`
	Time     time.Time `json:"time,omitzero"`
	// Present is the newest revision that a member reported; 0: none did.
	Present int64 `json:"present,omitempty"`
	// Stored: what clients write until the members stop is stored in the backups first, or the restore is called off.
	Stored bool     `json:"stored,omitempty"`
	Notes  []string `json:"notes,omitempty"`
	// Refusal is why the leader would refuse the restore as the cluster is.
	Refusal *restoreRefusal `json:"refusal,omitempty"`
	Nodes   []restoreNode   `json:"nodes"`
}

// restoreRefusal is why a restore is refused.
type restoreRefusal struct {
	Code    cke.Code `json:"code"`
	Message string   `json:"message"`
	Facts   []string `json:"facts,omitempty"`
}

// restoreNode is what happens on one node.
type restoreNode struct {
	Node    string `json:"node"`
	Address string `json:"address"`
	Now     string `json:"now"`
	Then    string `json:"then"`
}

func (p restorePlan) nodeNames() []string {
	var names []string
	for _, n := range p.Nodes {
		names = append(names, n.Node)
	}
	return names
}

// look reads from the target what can be restored. The leader reads it again, all of it, before it changes anything; so
// a target that cannot be reached from here is no obstacle.
func (r *restoring) look(ctx context.Context, o backupOptions, at backup.At) error {
	r.plan.Target, r.plan.Source, r.plan.Lineage, r.plan.Revision, r.plan.Time = shownURL(r.order.Target), r.order.Source, at.Lineage, at.Revision, at.Time
	o.target, o.cluster = r.order.Target, r.order.Source
	note := func(err error) error {
		if ctx.Err() != nil {
			return err
		}
		r.plan.Notes = append(r.plan.Notes, fmt.Sprintf("the target cannot be read from here, so only the leader knows what is in it: %v", err))
		return nil
	}
	b, err := r.app.openBackups(ctx, o)
	if err != nil {
		return cmp.Or(r.unreadable(ctx, err), note(err))
	}
	defer b.Close()
	b.past = backup.OnRecord(ctx, r.store, r.order.Source, r.order.Target)
	if r.asked.Declare != nil && r.order.Source == r.cluster {
		b.past = backup.OfDeclared(r.asked.Declare.Identity, r.app.now())
	}
	if err := r.compare(ctx, b.of(r.cluster), note); err != nil {
		return err
	}
	if err := r.compareOwn(ctx, o); err != nil {
		return err
	}
	if err := r.noSecond(ctx, o, b); err != nil {
		return err
	}
	found, err := b.of(r.order.Source).FindFor(ctx, at, backup.ExtractOptions{IgnoreHash: r.order.IgnoreHash})
	switch {
	case err == nil:
	case errors.Is(err, backup.ErrKey):
		r.plan.Notes = append(r.plan.Notes, "only the leader can determine which revision that is: no given key opens the backups")
		return nil
	case errors.Is(err, backup.ErrNotCovered), errors.Is(err, backup.ErrAmbiguousTime), errors.Is(err, backup.ErrEmpty), backup.IsDamage(err):
		return r.notThere(b.fail(ctx, "restore from "+r.order.Describe(), err), err)
	case errors.Is(err, backup.ErrLost), errors.Is(err, backup.ErrUnread):
		return refused(b.fail(ctx, "restore from "+r.order.Describe(), err))
	default:
		return note(err)
	}
	p := &r.plan
	p.Lineage, p.Revision, p.Notes = found.Lineage, found.Revision, append(p.Notes, found.Notes...)
	if newer := new(cke.Error); errors.As(op.NewerData(r.spec, found.EtcdVersion), &newer) {
		p.Notes = append(p.Notes, fmt.Sprintf("the backup was made by etcd %s: if its data is of that minor version, the restore is refused before anything changes, because etcd %s cannot read it; %s",
			found.EtcdVersion, r.spec.Options.Etcd.NamedVersion(), newer.Try))
	}
	if len(b.trusted) > 0 {
		r.order.ShownLineage, r.order.ShownRevision = found.Lineage, found.Revision
	} else { // the leader, which has the key file, may leave out what is not signed
		p.Notes = append(p.Notes, "no key file can be read here, so only the leader knows which backups are signed by a trusted key: it may restore another state")
	}
	if at.Time.IsZero() {
		p.Time = found.Received
	}
	return nil
}

// compare refuses what the leader would refuse by the identities beside the backups. Without the key file only the leader knows which of them to
// trust. A cluster that is declared has its identity from there.
func (r *restoring) compare(ctx context.Context, s *backup.Store, note func(error) error) error {
	if r.asked.Declare != nil || len(s.Trusted) == 0 {
		return nil
	}
	status, _ := r.store.Status(ctx, r.cluster) // where it cannot be read, no digest is known
	refusal, notes, err := s.CompareBeside(ctx, r.order, status.Beside(r.order.Target), func(ctx context.Context) (cke.Identity, error) { return r.store.Identity(ctx, r.cluster) })
	switch {
	case err != nil:
		return note(err)
	case refusal != nil:
		return refused(refusal)
	}
	r.plan.Notes = append(r.plan.Notes, notes...)
	return nil
}

// compareOwn refuses what the leader would refuse by the identities in the target of the cluster file, where a cluster is, or was, declared to be
// restored from another target.
func (r *restoring) compareOwn(ctx context.Context, o backupOptions) error {
	identity := func(ctx context.Context) (cke.Identity, error) { return r.store.Identity(ctx, r.cluster) }
	own := r.spec.Backup.Target
	if own == "" || own == r.order.Target {
		return nil
	}
	o.cluster = r.cluster
	if d := r.asked.Declare; d != nil {
		declared := d.Identity.Awaiting(r.app.now())
		identity = func(context.Context) (cke.Identity, error) { return declared, nil }
		o.target = own
	} else {
		o.target = "" // with the credentials in the store
	}
	id, err := identity(ctx)
	if err != nil || !id.OnlyDeclared() {
		return ctx.Err() // that it cannot be read was noted
	}
	status, _ := r.store.Status(ctx, r.cluster)
	b, err := r.app.openBackups(ctx, o)
	if err == nil {
		defer b.Close()
		s := b.of(r.cluster)
		if len(s.Trusted) == 0 {
			return nil
		}
		var refusal *cke.Error
		var notes []string
		if refusal, notes, err = s.CompareBeside(ctx, r.order, status.Beside(own), identity); refusal != nil {
			return refused(refusal)
		}
		r.plan.Notes = append(r.plan.Notes, notes...)
	}
	if err != nil && ctx.Err() == nil {
		r.plan.Notes = append(r.plan.Notes, fmt.Sprintf("the target that the cluster file names cannot be read from here, so only the leader knows whether a newer identity is there: %v", err))
		return nil
	}
	return err
}

// notThere is the refusal of a state that cannot be restored; to damage it adds how to restore what is sound.
func (r *restoring) notThere(told, err error) error {
	var damage *backup.DamagedError
	if coded := new(cke.Error); errors.As(err, &damage) && damage.LastGood > 0 && errors.As(told, &coded) {
		coded.Try = r.order.Again(damage.Lineage(), damage.LastGood)
	}
	return told
}

// planNodes shows what happens on each node.
func (r *restoring) planNodes(ctx context.Context) {
	p := &r.plan
	p.Cluster, p.Declared, p.Survivor = r.cluster, r.asked.Declare != nil, r.order.Survivor
	st, unseen := r.store.Status(ctx, r.cluster)
	if unseen != nil {
		st = cke.Status{}
	}
	id, err := r.store.Identity(ctx, r.cluster)
	if err != nil {
		id = cke.Identity{}
	}
	if p.Declared {
		id = r.asked.Declare.Identity.Awaiting(r.app.now())
	} else if id.Incarnation != nil {
		r.order.ShownIncarnation = id.Incarnation.ID
	}
	in := strategy.InputFrom(cke.Spec{Cluster: r.spec}, id, cke.Requests{}, st)
	r.order.DestroyedIDs = strategy.DestroyedIDs(in, r.order.Destroyed)
	if !p.Declared && unseen == nil && err == nil {
		r.judge(in)
	}
	for _, e := range st.Etcd.Endpoints {
		p.Present = max(p.Present, e.Revision)
	}
	if st.Reached != nil {
		p.Present = max(p.Present, st.Reached.Revision)
	}
	for _, n := range r.spec.ControlPlane() {
		p.Nodes = append(p.Nodes, r.planNode(n, st, id, true))
	}
	for _, j := range id.MayRun() {
		if !slices.Contains(p.nodeNames(), j.Node.Name()) {
			p.Nodes = append(p.Nodes, r.planNode(j.Node, st, id, false))
		}
	}
}

// judge says what the leader would say of the order, and what becomes of the last changes.
func (r *restoring) judge(in strategy.Input) {
	p := &r.plan
	if r.order.Survivor == "" {
		why := strategy.NotStorable(&in, r.order)
		if r.order.Stored = why == ""; !r.order.Stored {
			p.Notes = append(p.Notes, "what is in no backup when the members stop is left in their volumes only: "+why)
		}
		p.Stored = r.order.Stored
	}
	if why := strategy.RestoreRefusal(in, r.order); why != nil {
		p.Refusal = &restoreRefusal{Code: why.Code, Message: why.What, Facts: why.Facts}
	}
}

func (r *restoring) planNode(n cke.Node, st cke.Status, id cke.Identity, founder bool) restoreNode {
	row := restoreNode{Node: n.Name(), Address: n.Address, Now: "no member"}
	has, reached := "", "answers"
	for _, j := range id.MayRun() {
		if j.Node.Address == n.Address {
			has = j.Volume
		}
	}
	for _, m := range st.Members {
		if m.Address == n.Address && m.Join != "" {
			row.Now = "member " + m.State
		}
	}
	switch {
	case row.Now != "no member":
	case has != "":
		row.Now = "member"
	case r.plan.Declared: // the leader observes it first
		row.Now = "not observed"
	}
	for _, s := range st.Nodes {
		if s.Node.Address == n.Address && !s.Answered() {
			reached = "does not answer"
			row.Now = "does not answer"
		}
	}
	switch {
	case r.order.Excuses(n.Name()):
		row.Then = "left out; its member is stopped when it answers again"
	case reached != "answers":
		row.Then = "REFUSED: it has to answer, or be left out with --without"
	case has == "" && founder:
		row.Then = "new member from the snapshot"
	case founder:
		row.Then = "stop the member, keep " + has + ", new member from the snapshot"
	default:
		row.Then = "stop the member, keep " + has
	}
	return row
}

// write shows the plan to a user.
func (p restorePlan) write(w io.Writer, colour bool) error {
	from := "the data of " + p.Survivor
	if p.Import != nil {
		from = fmt.Sprintf("%s %s", p.Import.Kind, p.Import.File)
	} else if p.Survivor == "" {
		from = fmt.Sprintf("the backups of %s in %s", p.Source, p.Target)
		if p.Lineage != "" {
			from += ", incarnation " + p.Lineage
		}
	}
	state := ""
	switch {
	case p.Survivor != "":
	case p.Revision > 0:
		state = fmt.Sprintf(", revision %d", p.Revision)
		if !p.Time.IsZero() {
			state += " as of " + p.Time.UTC().Format(time.RFC3339)
		}
	case !p.Time.IsZero():
		state = ", as of " + p.Time.UTC().Format(time.RFC3339)
	default:
		state = ", the newest state"
	}
	fmt.Fprintln(w, term.Clean(fmt.Sprintf("%s continues from %s%s", p.Cluster, from, state)))
	if err := p.Import.write(w, p, colour); err != nil {
		return err
	}
	if p.Declared {
		fmt.Fprintln(w, term.Clean(fmt.Sprintf("%s is not in the store yet and is declared", p.Cluster)))
	}
	switch {
	case p.Survivor != "":
	case p.Import == nil:
		text := lostText(p.Present, p.Revision, p.Time)
		if p.Present > 0 {
			text = fmt.Sprintf("The cluster is at revision %d; %s", p.Present, text)
		}
		fmt.Fprintln(w, text)
	case p.Present > 0:
		fmt.Fprintf(w, "The cluster is at revision %d; all its data is replaced by the other cluster's\n", p.Present)
	}
	if p.Stored {
		fmt.Fprintln(w, "What clients write until the members stop is stored in the backups first")
	}
	for _, n := range p.Notes {
		fmt.Fprintln(w, term.Clean("Note: "+n))
	}
	fmt.Fprintln(w)
	t := term.NewTable("NODE", "ADDRESS", "NOW", "THEN")
	for _, n := range p.Nodes {
		t.Add(term.Text(n.Node), term.Text(n.Address), term.Text(n.Now), term.Text(n.Then))
	}
	if err := t.Write(w, colour); err != nil || p.Refusal == nil {
		return err
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, term.Clean(fmt.Sprintf("As the cluster is now, this is refused: %s (%s)", p.Refusal.Message, p.Refusal.Code)))
	for _, f := range p.Refusal.Facts {
		fmt.Fprintln(w, term.Clean("  "+f))
	}
	return nil
}
