package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"cke"
	"cke/clusterfile"
)

func newClusterEditCommand(a *app) *cobra.Command {
	var o setOptions
	cmd := &cobra.Command{
		Use: "edit [NAME]", Short: "Edit the stored cluster file, and follow the work until the cluster is ready",
		Long: `Open the stored cluster file in your editor ($VISUAL, else $EDITOR, else vi), store what you saved as a new revision, and
follow the work until the cluster is ready for it, as ` + "`ckecli cluster set`" + ` does.

A text with errors is opened again, with the errors as comments at its top; save it again unchanged to give up.
A text that was not changed, or is empty, changes nothing. If another user stored a revision meanwhile, yours is refused.
A text that is not stored is kept in a file, whose name is shown.`,
		Example: "  ckecli cluster edit\n  EDITOR='code --wait' ckecli cluster edit prod --no-wait",
		Args:    arguments(0, 1), ValidArgsFunction: first(a.completeClusters()),
		RunE: a.onCluster(func(ctx context.Context, s store, _ []string) error {
			return runEdit(ctx, a, s, o)
		}),
	}
	o.storingFlags(cmd)
	return cmd
}

func runEdit(ctx context.Context, a *app, s store, o setOptions) error {
	cluster, spec, err := a.theSpec(ctx, s)
	if err != nil {
		return err
	}
	if spec.Deleting() {
		return &cke.Error{Code: cke.CodeConflict, What: "cluster " + cluster + " is being deleted", Unchanged: true}
	}
	was, err := textOf(spec)
	if err != nil {
		return err
	}
	d, err := a.newDraft(cluster, was)
	if err != nil {
		return err
	}
	e, err := d.edit(ctx)
	if err != nil {
		return d.keep(err)
	}
	if e == nil {
		d.remove()
		return a.showLine(setResult{Cluster: cluster, Revision: spec.Generation}, cluster, "Nothing changed.")
	}
	begun := a.now()
	o.ifRevision, o.ifSource = &spec.Generation, &spec.Source
	stored, err := a.storeEdition(ctx, s, *e, o)
	if err != nil {
		return d.keep(err)
	}
	d.remove()
	return a.followSet(ctx, s, stored, o, begun)
}

// draft is the text of a stored cluster file in an editor.
type draft struct {
	app     *app
	cluster string
	// was is the stored text, and text what was saved last, without notes.
	was, text []byte
	file      string
}

// newDraft writes the text to a file that only its owner reads.
func (a *app) newDraft(cluster string, was []byte) (*draft, error) {
	f, err := os.CreateTemp("", "ckecli-"+cluster+"-*.yml")
	if err != nil {
		return nil, fmt.Errorf("make a file to edit: %w", err)
	}
	d := &draft{app: a, cluster: cluster, was: was, text: was, file: f.Name()}
	if err := errors.Join(f.Close(), d.write(nil)); err != nil {
		d.remove()
		return nil, err
	}
	return d, nil
}

// edit has the text edited until it is in order. Nil: nothing is to be changed.
func (d *draft) edit(ctx context.Context) (*edition, error) {
	for {
		before := d.text
		if err := d.open(ctx); err != nil {
			return nil, err
		}
		if bytes.Equal(d.text, d.was) || len(bytes.TrimSpace(d.text)) == 0 {
			return nil, nil
		}
		c, err := d.check()
		if err == nil {
			e := fileEdition(d.file, c, d.text)
			return &e, nil
		}
		if bytes.Equal(d.text, before) {
			return nil, err
		}
		if err := d.write(err); err != nil {
			return nil, err
		}
	}
}

// check reads the text as a cluster file of this cluster.
func (d *draft) check() (cke.Cluster, error) {
	c, err := d.app.parseCluster(d.file, d.text)
	if err != nil || c.Name == d.cluster {
		return c, err
	}
	return c, &cke.Error{Code: cke.CodeConfig, What: fmt.Sprintf("the file is that of cluster %s, and its name cannot be changed to %s", d.cluster, c.Name),
		Facts: []string{"a file with another name declares another cluster"}, Unchanged: true}
}

// open has the text edited once, and reads what was saved. An interrupt is the editor's.
func (d *draft) open(ctx context.Context) error {
	a := d.app
	editor, err := a.editor()
	if err != nil {
		return err
	}
	cmd := exec.Command("sh", "-c", editor+` "$@"`, editor, d.file) // as git does: the variable may hold arguments
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.stdin, a.stdout, a.stderr
	if !a.terminal(a.stdout) {
		cmd.Stdout = a.stderr
	}
	a.editing.Store(true)
	failed := cmd.Run()
	a.editing.Store(false)
	saved, err := os.ReadFile(d.file)
	if err != nil {
		return fmt.Errorf("read what was saved: %w", err)
	}
	d.text = withoutNotes(saved)
	if failed != nil {
		return &cke.Error{What: "the editor failed: " + editor, Unchanged: true, Err: failed}
	}
	return ctx.Err()
}

// editor is the user's editor, as a shell takes it.
func (a *app) editor() (string, error) {
	for _, name := range []string{"VISUAL", "EDITOR"} {
		if editor := a.getenv(name); strings.TrimSpace(editor) != "" {
			return editor, nil
		}
	}
	if !a.interactive() {
		return "", refused(&cke.Error{What: "there is no terminal to edit on, and neither VISUAL nor EDITOR names an editor", Unchanged: true,
			Try: "ckecli cluster get > FILE, then ckecli cluster set FILE"})
	}
	return "vi", nil
}

// noteMark starts the lines that say what is wrong with the text; they are no part of it.
const noteMark = "#!"

// write writes the text to the file, below notes that say what is wrong with it.
func (d *draft) write(wrong error) error {
	var notes []string
	if wrong != nil {
		notes = notesOf(wrong)
	}
	if err := os.WriteFile(d.file, append([]byte(lines(notes)), d.text...), 0o600); err != nil {
		return fmt.Errorf("write the text to edit: %w", err)
	}
	return nil
}

// notesOf says what is wrong, with the line numbers that the text has below the notes.
func notesOf(wrong error) []string {
	head := []string{"Nothing is stored yet. Save the text again unchanged to give up. Lines that start with " + noteMark + " are left out."}
	body := strings.Split(wrong.Error(), "\n")
	var faults *clusterfile.FaultList
	if errors.As(wrong, &faults) {
		body = strings.Split(faults.Error(), "\n") // as many lines as below
		moved := &clusterfile.FaultList{}
		for _, f := range faults.Faults {
			f.File = ""
			if f.Line > 0 {
				f.Line += len(head) + len(body)
			}
			moved.Faults = append(moved.Faults, f)
		}
		body = strings.Split(moved.Error(), "\n")
	}
	notes := append(head, body...)
	for i, line := range notes {
		notes[i] = noteMark + " " + line
	}
	return notes
}

func withoutNotes(text []byte) []byte {
	var kept []byte
	for line := range bytes.Lines(text) {
		if !bytes.HasPrefix(line, []byte(noteMark)) {
			kept = append(kept, line...)
		}
	}
	return kept
}

// keep leaves the text in its file, and says so, when something was written that is not stored.
func (d *draft) keep(err error) error {
	if bytes.Equal(d.text, d.was) {
		d.remove()
		return err
	}
	if writeErr := d.write(nil); writeErr != nil {
		err = errors.Join(err, writeErr)
	}
	fmt.Fprintf(d.app.stderr, "What you wrote is kept in %s\n", d.file)
	return err
}

func (d *draft) remove() { os.Remove(d.file) }
