package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"cke/backup"
	"cke/internal/term"
)

func newBackupListCommand(a *app) *cobra.Command {
	var o backupOptions
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List backups and what can be restored", Args: arguments(0, 0),
		Long: `List every chain: a full backup and the deltas that follow it without a gap, oldest first. REVISIONS is what can be restored,
UNTIL the time of the newest change in it. Damaged and missing objects have rows, too.`,
		RunE: a.onBackups(&o, func(ctx context.Context, b *backups, _ []string) error {
			return runBackupList(ctx, a, b)
		}),
	}
	o.addTarget(cmd)
	return cmd
}

// backupRow is one chain, or something that is in no chain.
type backupRow struct {
	Cluster string `json:"cluster"`
	Lineage string `json:"lineage"`
	// ID is that of the full; empty: there is none.
	ID string `json:"id,omitempty"`
	// Taken is when the full was started.
	Taken time.Time `json:"taken,omitzero"`
	// FirstRevision and LastRevision are what can be restored; 0: nothing.
	FirstRevision int64 `json:"firstRevision,omitempty"`
	LastRevision  int64 `json:"lastRevision,omitempty"`
	// Until is when the change of LastRevision was received.
	Until time.Time `json:"until,omitzero"`
	// Size of the full and of the deltas, as they are stored, in bytes. Chains may share deltas.
	Size      int64 `json:"size"`
	Deltas    int   `json:"deltas"`
	DeltaSize int64 `json:"deltaSize"`
	// Content is the size of the snapshot in the full.
	Content     int64  `json:"content,omitempty"`
	Encryption  string `json:"encryption,omitempty"` // "age"; empty: none, or unknown
	EtcdVersion string `json:"etcdVersion,omitempty"`
	// Merged: made from an older full and deltas.
	Merged   bool             `json:"merged,omitempty"`
	Verified *backup.Verified `json:"verified,omitempty"`
	Problem  string           `json:"problem,omitempty"`

	place backup.Place
}

func runBackupList(ctx context.Context, a *app, b *backups) error {
	defer a.telling("Listing", b.bucket)()
	rows, err := listBackups(ctx, b)
	if err != nil {
		return err
	}
	names := []string{}
	for _, r := range rows {
		if r.ID != "" {
			names = append(names, r.ID)
		}
	}
	return a.show(view{data: rows, names: names, table: func(w io.Writer, colour, wide bool) error {
		return a.backupTable(rows, wide).Write(w, colour)
	}})
}

// listBackups returns the rows of the cluster that is chosen, or of all. There is at least one.
func listBackups(ctx context.Context, b *backups) ([]backupRow, error) {
	names, err := b.clusters(ctx)
	if err != nil {
		return nil, err
	}
	rows := []backupRow{}
	for _, name := range names {
		s := b.of(name)
		lineages, err := s.Lineages(ctx)
		if err != nil {
			return nil, b.fail(ctx, "list the backups of "+name, err)
		}
		for i := range lineages {
			of, err := lineageRows(ctx, s, &lineages[i])
			if err != nil {
				return nil, b.fail(ctx, "list the backups of "+name, err)
			}
			rows = append(rows, of...)
		}
	}
	if len(rows) == 0 {
		return nil, b.fail(ctx, "list the backups", fmt.Errorf("%w of cluster %s", backup.ErrEmpty, b.cluster))
	}
	return rows, nil
}

func lineageRows(ctx context.Context, s *backup.Store, l *backup.Lineage) ([]backupRow, error) {
	verified, err := s.LastVerified(ctx, l.Name)
	if err != nil && !backup.IsDamage(err) {
		return nil, err
	}
	chains := l.Chains()
	rows := make([]backupRow, len(chains))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for i, c := range chains {
		g.Go(func() error {
			h, err := s.Header(ctx, c.Full)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			rows[i] = chainRow(c, h, err)
			if verified != nil && verified.Full == c.Full.ID() {
				rows[i].Verified = verified
			}
			if verified != nil && slices.Contains(verified.Wrong, c.Full.ID()) {
				rows[i].Problem = cmp.Or(rows[i].Problem, "a restore drill found that it is damaged, or holds other data than the cluster held")
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if err != nil {
		rows = append(rows, backupRow{Cluster: s.Cluster, Lineage: l.Name, Problem: err.Error()})
	}
	return append(rows, strayRows(s.Cluster, l, chains)...), nil
}

// chainRow describes one chain; err is what reading the full's header gave.
func chainRow(c backup.Chain, h backup.Header, err error) backupRow {
	r := backupRow{Cluster: c.Full.Cluster, Lineage: c.Full.Lineage, ID: c.Full.ID(), Taken: c.Full.Time, Size: c.Full.Size, place: c.Full.Place,
		Deltas: len(c.Deltas), Content: h.Content, Encryption: h.Encryption, EtcdVersion: h.EtcdVersion, Merged: h.Merged}
	for _, d := range c.Deltas {
		r.DeltaSize += d.Size
	}
	switch {
	case errors.Is(err, backup.ErrNotFound):
		r.Problem = "removed meanwhile"
		return r
	case err != nil:
		r.Problem = strings.TrimPrefix(err.Error(), c.Full.Name()+": ")
		return r
	case c.Damage != nil:
		r.Problem = fmt.Sprintf("nothing after revision %d: %s: %s", c.Last, path.Base(c.Damage.Object), damageText(c.Damage))
	}
	r.FirstRevision, r.LastRevision, r.Until = c.Full.Revision, c.Last, c.End
	return r
}

// strayRows are the deltas that nothing leads to although it should, and other damage that no chain shows.
func strayRows(cluster string, l *backup.Lineage, chains []backup.Chain) (rows []backupRow) {
	shown := map[string]bool{}
	for _, c := range chains {
		if c.Damage != nil {
			shown[c.Damage.Object] = true
		}
	}
	for _, s := range l.Strays {
		shown[s.Damage.Object] = true
		r := backupRow{Cluster: cluster, Lineage: l.Name, Deltas: len(s.Deltas),
			Problem: path.Base(s.Damage.Object) + ": " + damageText(s.Damage)}
		for _, d := range s.Deltas {
			r.DeltaSize += d.Size
		}
		rows = append(rows, r)
	}
	for _, st := range l.Streams {
		if st.Damage != nil && !shown[st.Damage.Object] {
			shown[st.Damage.Object] = true
			rows = append(rows, backupRow{Cluster: cluster, Lineage: l.Name, Problem: path.Base(st.Damage.Object) + ": " + damageText(st.Damage)})
		}
	}
	if n := len(l.Untrusted); n > 0 {
		problem := path.Base(l.Untrusted[0].Name()) + ": not signed by a trusted key, ignored"
		if n > 1 {
			problem += fmt.Sprintf(", like %d more", n-1)
		}
		rows = append(rows, backupRow{Cluster: cluster, Lineage: l.Name, Problem: problem})
	}
	if len(l.Fulls) == 0 && len(l.Strays) == 0 && len(l.Streams) > 0 {
		rows = append(rows, backupRow{Cluster: cluster, Lineage: l.Name, Problem: "there are only deltas, which need a full to start from"})
	}
	return rows
}

func (a *app) backupTable(rows []backupRow, wide bool) *term.Table {
	header := []string{"CLUSTER", "ID", "TAKEN", "REVISIONS", "UNTIL", "SIZE", "DELTAS", "ENCRYPTED", "VERIFIED", "PROBLEM"}
	if wide {
		header = append(header, "CONTENT", "DELTA SIZE", "ETCD", "MERGED", "FROM", "TO")
	}
	t := term.NewTable(header...)
	for _, r := range rows {
		t.Add(term.Text(r.Cluster), term.Text(r.shownID(rows, wide)), a.whenCell(r.Taken), r.revisions(), a.whenCell(r.Until), sizeCell(r.Size), term.Textf("%d", r.Deltas),
			term.Text(r.Encryption), a.verifiedCell(r), term.Styled(term.Red, r.Problem),
			sizeCell(r.Content), sizeCell(r.DeltaSize), term.Text(r.EtcdVersion), term.Text(mark(r.Merged)), exactTime(r.Taken), exactTime(r.Until))
	}
	return t
}

// shownID is short where that is unmistakable; commands take both forms.
func (r backupRow) shownID(rows []backupRow, wide bool) string {
	if r.ID == "" {
		return r.Lineage + "/-"
	}
	same := 0
	for _, o := range rows {
		if o.ID != "" && o.Cluster == r.Cluster && shortID(o.place) == shortID(r.place) {
			same++
		}
	}
	if wide || same > 1 {
		return r.ID
	}
	return shortID(r.place)
}

func (r backupRow) revisions() term.Cell {
	switch {
	case r.FirstRevision == 0:
		return term.Styled(term.Red, "none")
	case r.FirstRevision == r.LastRevision:
		return term.Textf("%d", r.FirstRevision)
	}
	return term.Textf("%d to %d", r.FirstRevision, r.LastRevision)
}

func (a *app) whenCell(t time.Time) term.Cell {
	if t.IsZero() {
		return term.Cell{}
	}
	return term.Text(a.ago(t) + " ago")
}

func (a *app) verifiedCell(r backupRow) term.Cell {
	if r.Verified == nil {
		return term.Cell{}
	}
	return term.Styled(term.Green, a.ago(r.Verified.At)+" ago")
}

func sizeCell(bytes int64) term.Cell {
	if bytes == 0 {
		return term.Cell{}
	}
	return term.Text(term.Size(bytes))
}

func exactTime(t time.Time) term.Cell {
	if t.IsZero() {
		return term.Cell{}
	}
	return term.Text(t.UTC().Format(time.RFC3339))
}

func mark(yes bool) string {
	if yes {
		return "yes"
	}
	return ""
}
