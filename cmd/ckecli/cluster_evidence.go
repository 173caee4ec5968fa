package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"cke"
	"cke/internal/term"
	"cke/internal/words"
)

func newClusterEvidenceCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "evidence [NAME]", Short: "Show why a cluster was frozen: what was found, and what each member answered",
		Long: `Show the record of the last finding that froze a cluster, lifted or not: what was found, when, what each member answered
then, and the members' hashes where their data was compared. With -o json or -o yaml the record is complete.`,
		Args: arguments(0, 1), ValidArgsFunction: first(a.completeClusters()),
		RunE: a.onCluster(func(ctx context.Context, s store, _ []string) error {
			return runEvidence(ctx, a, s)
		}),
	}
}

// evidence is what `cluster evidence` writes for programs.
type evidence struct {
	Cluster string `json:"cluster"`
	Frozen  bool   `json:"frozen"`
	// Freeze is the last finding; absent: there never was one.
	Freeze *cke.Freeze `json:"freeze,omitempty"`
}

func runEvidence(ctx context.Context, a *app, s store) error {
	cluster, id, err := a.theIdentity(ctx, s)
	if err != nil {
		return err
	}
	names := []string{}
	if id.Freeze != nil {
		names = append(names, id.Freeze.ID)
	}
	e := evidence{Cluster: cluster, Frozen: id.Freeze.Active(), Freeze: id.Freeze}
	return a.show(view{data: e, names: names, table: func(w io.Writer, colour, _ bool) error {
		if id.Freeze == nil {
			_, err := fmt.Fprintf(w, "%s was never frozen.\n", cluster)
			return err
		}
		return a.writeEvidence(w, cluster, id, colour)
	}})
}

// writeEvidence describes a finding for users.
func (a *app) writeEvidence(w io.Writer, cluster string, id cke.Identity, colour bool) error {
	f, l := id.Freeze, &term.Labels{}
	state := term.Styled(term.Alarm, "frozen")
	if !f.Active() {
		state = term.Textf("lifted by %s at %s: %s", f.LiftedBy, words.Moment(f.LiftedAt), f.LiftReason)
	}
	l.Add("Cluster", term.Text(cluster))
	l.Add("State", state)
	if f.Wrong != nil {
		l.Add("Put aside", term.Text(strings.Join(f.Wrong, ", ")))
	}
	l.Add("Found", term.Text(words.Problem(f.Problem)))
	l.Add("Kind", term.Text(string(f.Kind)))
	if f.Former != nil {
		l.Add("Before it", term.Textf("%s; active again once this one is lifted", words.Problem(f.Former.Problem)))
	}
	l.Add("At", term.Textf("%s, by %s, term %d", words.Moment(f.At), f.Leader.Host, f.Leader.Term))
	l.Add("Record", term.Text(f.ID))
	if f.Active() {
		how := "ckecli cluster unfreeze " + cluster + " --reason TEXT"
		if f.Kind.NamesWrong() {
			how += " --wrong NODE"
		}
		l.Add("Lift it", term.Text(how))
	}
	if err := l.Write(w, colour); err != nil {
		return err
	}
	fmt.Fprintln(w)
	t := term.NewTable("MEMBER", "MEMBER ID", "CLUSTER ID", "LEADER", "REVISION", "RAFT INDEX", "HASH", "COMPACTED", "PROBLEM")
	for _, e := range f.Etcd.Endpoints {
		hash, compacted := "", ""
		if f.Compared != nil {
			if i := slices.IndexFunc(f.Compared.Hashes, func(h cke.MemberHash) bool { return h.Join == e.Join }); i >= 0 {
				hash, compacted = fmt.Sprintf("%08x", f.Compared.Hashes[i].Hash), fmt.Sprint(f.Compared.Hashes[i].Compacted)
			}
		}
		t.Add(term.Text(memberName(id, e)), term.Text(e.MemberID), term.Text(e.ClusterID), term.Text(e.LeaderID), term.Textf("%d", e.Revision), term.Textf("%d", e.RaftIndex),
			term.Text(hash), term.Text(compacted), term.Text(e.Problem))
	}
	return t.Write(w, colour)
}

// memberName is the node of an endpoint's membership, or its URL.
func memberName(id cke.Identity, e cke.EndpointStatus) string {
	for _, j := range slices.Concat(id.Joins, id.Ended) {
		if j.ID == e.Join {
			return j.Node.Name()
		}
	}
	return e.URL
}
