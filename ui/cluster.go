package ui

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"cke"
	"cke/internal/term"
	"cke/internal/words"
)

func (p *Page) clusterPage(ctx context.Context, r *http.Request) (view, error) {
	q := query{cluster: r.PathValue("name")}
	return p.liveView(ctx, q, view{Title: q.cluster, Crumbs: []crumb{{"/", "All clusters"}}, Kind: "cluster"})
}

// member is one member on the page.
type member struct {
	cke.MemberStatus
	clock
	quota int64
	calm  bool // its cluster needs no attention
	// unseen: what is known of it is not of the present.
	unseen bool
	// Zone is that of its node; empty: none is declared.
	Zone string
}

// Members are the members in the order of the status.
func (f facts) Members() (all []member) {
	wanted, zones := f.Spec.Wanted(), map[string]string{}
	for _, n := range wanted.Nodes {
		zones[n.Address] = n.Zone
	}
	for _, m := range f.S.Members {
		all = append(all, member{MemberStatus: m, clock: f.clock, quota: wanted.Options.Etcd.Quota(), calm: f.row().healthy(), Zone: zones[m.Address]})
	}
	return all
}

// group are the members of a zone.
type group struct {
	// Zone is empty for members without one.
	Zone    string
	Members []member
}

// Groups are the members by zone, those without one last; one group if there are no zones. In a group the order is that
// of the status.
func (f facts) Groups() []group { return groups(f.Members()) }

// Zoned reports whether a declared node has a zone.
func (f facts) Zoned() bool { wanted := f.Spec.Wanted(); return wanted.HasZones() }

func groups(all []member) (by []group) {
	slices.SortStableFunc(all, func(a, b member) int {
		if a.Zone == "" || b.Zone == "" {
			return strings.Compare(b.Zone, a.Zone)
		}
		return strings.Compare(a.Zone, b.Zone)
	})
	for _, m := range all {
		if len(by) == 0 || by[len(by)-1].Zone != m.Zone {
			by = append(by, group{Zone: m.Zone})
		}
		last := &by[len(by)-1]
		last.Members = append(last.Members, m)
	}
	return by
}

// Cards is how many cards the group is wide where there is room.
func (g group) Cards() int { return min(len(g.Members), 4) }

// Mark is the shape of a member.
func (m member) Mark() string {
	switch {
	case m.unseen:
		return "unknown"
	case m.Join == "" && !m.Ready:
		return "missing"
	case m.Role == "learner":
		return "learner"
	case m.Ready && m.Role == "leader":
		return "leader"
	case m.Ready:
		return "voter"
	case m.State == "unreachable", m.State == "unknown":
		return "unknown"
	}
	return "off"
}

// Class is the class of a member's state, without color where the cluster needs no attention.
func (m member) Class() string {
	if m.unseen {
		return "calm"
	}
	if c := class(words.StateStyle(m.MemberStatus)); c != "warn" || !m.calm {
		return c
	}
	return "calm"
}

// Lags is the lag in words; empty: it is that of the leader, or unknown.
func (m member) Lags() string {
	if m.Lag <= 0 {
		return ""
	}
	return "lag " + words.Lag(m.MemberStatus)
}

// Certificate is the class of the certificate's time.
func (m member) Certificate() string { return class(words.CertificateStyle(m.Now, m.CertNotAfter)) }

// Database describes the database against its quota.
func (m member) Database() string {
	if m.DBSize <= 0 {
		return ""
	}
	text := fmt.Sprintf("%s in use of %s", words.DBSize(m.used()), words.DBSize(m.quota))
	if free := m.DBSize - m.used(); free > 0 {
		text += fmt.Sprintf(", %s free inside", words.DBSize(free))
	}
	return text
}

func (m member) used() int64 { return cmp.Or(m.DBSizeInUse, m.DBSize) }

// Used and Free are the parts of the quota, of a thousand.
func (m member) Used() int { return share(m.used(), m.quota) }

// Free is what the database file holds without using it.
func (m member) Free() int { return share(m.DBSize-m.used(), m.quota) }

// Filling reports whether the database nears its quota.
func (m member) Filling() bool { return m.Used() >= 800 }

// share is a part of a whole, of a thousand; what is there is never invisible.
func share(part, whole int64) int {
	if part <= 0 || whole <= 0 {
		return 0
	}
	return min(max(int(float64(part)/float64(whole)*1000), 4), 1000)
}

// Marks are the members of a row by zone, in a list of clusters. Of a zone the status knows those that vote.
func (r row) Marks() []group {
	zones := map[string]string{}
	if r.S.Spread != nil {
		for _, v := range r.S.Spread.Voters {
			zones[v.Name] = v.Zone
		}
	}
	var all []member
	for _, m := range r.S.Members[:min(len(r.S.Members), 15)] {
		all = append(all, member{MemberStatus: m, clock: r.clock, calm: r.healthy(), unseen: r.Stale(), Zone: zones[m.Name]})
	}
	return groups(all)
}

// step is one step of an operation on a time axis.
type step struct {
	cke.StepRecord
	After, Took   string
	Result, Class string
	// At and Width are its place on the axis, of a thousand.
	At, Width int
}

// shownOp is an operation with its steps.
type shownOp struct {
	clock
	cke.Record
	Running bool
	Steps   []step
	Total   string
}

// Op is the operation under way, or else the last one; nil: there is none on record.
func (f facts) Op() *shownOp {
	o := f.S.Operation
	if o == nil || o.State != cke.RecordRunning {
		o = f.S.LastOperation
	}
	if o == nil {
		return nil
	}
	for _, r := range f.Records {
		if r.ID == o.ID {
			op := showOp(f.clock, r)
			return &op
		}
	}
	return nil
}

// showOp lays the steps of an operation out on a time axis.
func showOp(c clock, r cke.Record) shownOp {
	o := shownOp{clock: c, Record: r, Running: r.State == cke.RecordRunning, Total: term.Took(r.Took(c.Now))}
	whole := max(r.Took(c.Now), time.Millisecond)
	for _, s := range r.Steps {
		end, style, text := words.StepResult(c.Now, r, s)
		after, took := s.StartedAt.Sub(r.StartedAt), max(end.Sub(s.StartedAt), 0)
		if s.Error == "" && s.EndedAt.IsZero() && o.Running {
			style = term.Plain
		}
		at := min(max(int(float64(after)/float64(whole)*1000), 0), 992)
		width := min(max(int(float64(took)/float64(whole)*1000), 8), 1000-at)
		o.Steps = append(o.Steps, step{StepRecord: s, After: term.Took(after), Took: term.Took(took), Result: text, Class: class(style), At: at, Width: width})
	}
	return o
}

// Heading names the operation.
func (o shownOp) Heading() string { return words.Heading(o.Record) }

// Class is the class of the outcome; what is under way has none yet.
func (o shownOp) Class() string {
	if o.Running {
		return "plain"
	}
	return class(words.OutcomeStyle(o.State, o.Refused))
}

// Why is the reason, with the error that was met.
func (o shownOp) Why() string { return words.Why(o.Record) }

// Share is how long it took, of a thousand of the longest.
type shared struct {
	shownOp
	Share int
}

// History are the newest operations.
func (f facts) History() []shared { return history(f.clock, f.Records) }

func history(c clock, records []cke.Record) (all []shared) {
	longest := time.Second
	for _, r := range records {
		longest = max(longest, r.Took(c.Now))
	}
	for _, r := range records {
		o := shownOp{clock: c, Record: r, Running: r.State == cke.RecordRunning, Total: term.Took(r.Took(c.Now))}
		all = append(all, shared{o, share(int64(max(r.Took(c.Now), 0)), int64(longest))})
	}
	return all
}

// expiry is a certificate, or an authority, on the scale of days.
type expiry struct {
	Name, Text, Class string
	End               time.Time
	Share             int // of the scale
}

// certificates are all that expire, on one scale that ends at Most days.
type certificates struct {
	clock
	All  []expiry
	Days int
	Soon int // where the warning starts, of the scale
}

// Certificates are the certificates of members, and the authorities whose end is on record. Of a member that does not
// answer the certificate is not seen.
func (f facts) Certificates() certificates {
	c := certificates{clock: f.clock}
	add := func(name, text string, end time.Time) {
		c.All = append(c.All, expiry{Name: name, Text: text, End: end, Class: class(words.CertificateStyle(f.Now, end))})
		if !end.IsZero() {
			c.Days = max(c.Days, int(end.Sub(f.Now).Hours()/24)+1)
		}
	}
	for _, m := range f.S.Members {
		if m.Join != "" || !m.CertNotAfter.IsZero() {
			add(m.Name, "certificate of the member", m.CertNotAfter)
		}
	}
	for _, name := range cke.AuthorityNames() {
		if end := f.Identity.Authorities.Of(name).Current.NotAfter; !end.IsZero() {
			add(string(name), "authority", end)
		}
	}
	if c.Days == 0 {
		return certificates{}
	}
	for i, e := range c.All {
		if e.End.IsZero() {
			continue
		}
		c.All[i].Share = share(int64(e.End.Sub(f.Now)), int64(c.Days)*int64(24*time.Hour))
	}
	c.Soon = share(int64(words.CertificateSoon), int64(max(c.Days, 1))*int64(24*time.Hour))
	return c
}

// Replaced are the authorities that are being replaced, with what they wait for.
func (f facts) Replaced() []cke.AuthorityStatus { return f.S.Authorities }

// Backup is the line of `ckecli status` about backups, Drill the one about the restore drill.
func (f facts) Backup() string {
	text, _ := words.Backup(f.Now, f.S)
	return text
}

// Drill describes the last restore drill.
func (f facts) Drill() string {
	if f.S.Backup == nil || !f.S.Backup.Known {
		return ""
	}
	text, _ := words.Drill(f.Now, f.S.Backup)
	return text
}

// BackupBad reports whether the backups are not as they should be.
func (f facts) BackupBad() bool {
	_, bad := words.Backup(f.Now, f.S)
	c, _ := f.S.Condition(cke.CondBackupReady)
	return bad && c.Reason != "NotConfigured"
}
