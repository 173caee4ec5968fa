package main

import (
	"context"
	"fmt"
	"io"
	"path"
	"time"

	"github.com/spf13/cobra"

	"cke"
	"cke/backup"
	"cke/internal/term"
	"cke/internal/words"
)

func newBackupShowCommand(a *app) *cobra.Command {
	var o backupOptions
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show one backup: its full, its deltas, and the files beside them", Args: arguments(1, 1),
		Long: "Show one backup. ID is as `ckecli backup list` shows it, or the revision of the full alone. With -o wide its deltas are listed.",
		RunE: a.onBackups(&o, func(ctx context.Context, b *backups, args []string) error {
			return runBackupShow(ctx, a, b, args[0])
		}),
		ValidArgsFunction: first(a.completeBackups(&o)),
	}
	o.addTarget(cmd)
	return cmd
}

// backupDetails is one chain in full.
type backupDetails struct {
	backupRow
	Object string `json:"object"`
	// Leases, Compacted and AuthRevision are of the full; compacted 0: never.
	Leases       int64  `json:"leases"`
	Compacted    int64  `json:"compacted"`
	AuthRevision uint64 `json:"authRevision"`
	Writer       string `json:"writer,omitempty"`
	Term         int64  `json:"term,omitempty"`
	// Hashes are etcd's own, recorded when the full was taken.
	Hashes []backup.Hash  `json:"hashes,omitempty"`
	Each   []deltaDetails `json:"eachDelta,omitempty"`
	// Files are beside the backups of the incarnation.
	Files []string `json:"files,omitempty"`
}

type deltaDetails struct {
	Object        string    `json:"object"`
	FirstRevision int64     `json:"firstRevision"`
	LastRevision  int64     `json:"lastRevision,omitempty"`
	Changes       int64     `json:"changes,omitempty"`
	Size          int64     `json:"size"`
	Begin         time.Time `json:"begin,omitzero"`
	End           time.Time `json:"end,omitzero"`
	Problem       string    `json:"problem,omitempty"`
}

func runBackupShow(ctx context.Context, a *app, b *backups, id string) error {
	s, full, l, err := b.full(ctx, id)
	if err != nil {
		return err
	}
	d, err := describeBackup(ctx, s, l, full, a.structured() || a.output == formatWide)
	if err != nil {
		return b.fail(ctx, "show "+full.ID(), err)
	}
	return a.show(view{data: d, names: []string{d.ID}, table: func(w io.Writer, colour, wide bool) error {
		return a.renderBackup(w, d, colour, wide)
	}})
}

func describeBackup(ctx context.Context, s *backup.Store, l *backup.Lineage, full backup.Entry, deltas bool) (backupDetails, error) {
	rows, err := lineageRows(ctx, s, l)
	if err != nil {
		return backupDetails{}, err
	}
	h, err := backup.ReadHeader(ctx, s.Bucket, full.Place)
	if err != nil && !backup.IsDamage(err) {
		return backupDetails{}, err
	}
	d := backupDetails{Object: full.Name(), Leases: h.Leases, Compacted: h.Compacted, AuthRevision: h.AuthRevision, Writer: h.Writer, Term: h.Term, Hashes: h.Hashes}
	for _, r := range rows {
		if r.ID == full.ID() {
			d.backupRow = r
		}
	}
	for _, f := range l.Files {
		d.Files = append(d.Files, f.Name)
	}
	for _, c := range l.Chains() {
		if c.Full.Name() != full.Name() || !deltas {
			continue
		}
		for _, e := range c.Deltas {
			one, err := describeDelta(ctx, s, e)
			if err != nil {
				return d, err
			}
			d.Each = append(d.Each, one)
		}
	}
	return d, nil
}

func describeDelta(ctx context.Context, s *backup.Store, e backup.Entry) (deltaDetails, error) {
	d := deltaDetails{Object: e.Name(), FirstRevision: e.Revision, Size: e.Size}
	h, err := backup.ReadHeader(ctx, s.Bucket, e.Place)
	if backup.IsDamage(err) {
		d.Problem = err.Error()
		return d, nil
	}
	d.LastRevision, d.Changes, d.Begin, d.End = h.Last, h.Records, h.Begin, h.End
	return d, err
}

func (a *app) renderBackup(w io.Writer, d backupDetails, colour, wide bool) error {
	var l term.Labels
	l.Add("Backup", term.Text(d.ID))
	l.Add("Cluster", term.Text(d.Cluster))
	taken := d.Taken.UTC().Format(time.RFC3339) + " (" + a.ago(d.Taken) + " ago)"
	if d.Writer != "" {
		taken += fmt.Sprintf(" by %s, term %d", d.Writer, d.Term)
	}
	l.Add("Taken", term.Text(taken))
	if d.FirstRevision == 0 {
		l.Add("Restorable", term.Styled(term.Red, "nothing"))
	} else {
		l.Add("Restorable", term.Text(fmt.Sprintf("revision %s, changes until %s (%s ago)", d.revisions().Text, d.Until.UTC().Format(time.RFC3339), a.ago(d.Until))))
	}
	l.Add("Full", term.Text(fmt.Sprintf("%s stored, %s of snapshot, etcd %s, %s", term.Size(d.Size), term.Size(d.Content), orDash(d.EtcdVersion), cke.Count(d.Leases, "lease"))))
	l.Add("Deltas", term.Text(fmt.Sprintf("%d, %s stored", d.Deltas, term.Size(d.DeltaSize))))
	l.Add("Encrypted", term.Text(orDash(d.Encryption)))
	for _, h := range d.Hashes {
		l.Add("HashKV", term.Text(fmt.Sprintf("%d at revision %d", h.Hash, h.Revision)))
	}
	l.Add("Verified", term.Text(a.verifiedText(d.Verified)))
	if beside := besideText(d.Files); beside != "" {
		l.Add("Beside it", term.Text(beside))
	}
	if d.Problem != "" {
		l.Add("Problem", term.Styled(term.Red, d.Problem))
	}
	if err := l.Write(w, colour); err != nil || !wide || len(d.Each) == 0 {
		return err
	}
	fmt.Fprintln(w)
	t := term.NewTable("DELTA", "REVISIONS", "CHANGES", "SIZE", "START", "END", "PROBLEM")
	for _, e := range d.Each {
		r := backupRow{FirstRevision: e.FirstRevision, LastRevision: e.LastRevision}
		t.Add(term.Text(path.Base(e.Object)), r.revisions(), term.Textf("%d", e.Changes), term.Text(term.Size(e.Size)),
			exactTime(e.Begin), exactTime(e.End), term.Styled(term.Red, e.Problem))
	}
	return t.Write(w, colour)
}

// besideText counts the files of each kind, as "spec 2, verified 7".
func besideText(files []string) string {
	var kinds []string
	count := map[string]int{}
	for _, f := range files {
		kind := path.Base(path.Dir(f))
		if count[kind] == 0 {
			kinds = append(kinds, kind)
		}
		count[kind]++
	}
	return commaList(kinds, func(kind string) string { return fmt.Sprintf("%s %d", kind, count[kind]) })
}

// verifiedText describes the last drill.
func (a *app) verifiedText(v *backup.Verified) string {
	if v == nil {
		return "never"
	}
	text := fmt.Sprintf("%s ago: restored at revision %d", a.ago(v.At), v.Revision)
	if v.HashChecked {
		text += ", HashKV equal" + words.AtOlder(v.HashRevision, v.Revision)
	}
	if v.Booted != "" {
		text += ", etcd " + v.Booted + " started on it"
	}
	return text
}
