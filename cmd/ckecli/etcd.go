package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"cke"
	"cke/internal/term"
	"cke/internal/words"
)

// identities is who clusters are, and what is sealed of them.
type identities interface {
	Identity(ctx context.Context, cluster string) (cke.Identity, error)
	Secrets(cluster string) cke.Secrets
}

func newEtcdCommand(a *app) *cobra.Command {
	return newGroup("etcd", groupEtcd, "Reach and maintain etcd",
		newMembersCommand(a), newEndpointsCommand(a), newEnvCommand(a), newIssueCommand(a), newCtlCommand(a),
		newCanStopCommand(a), newMoveLeaderCommand(a), newDefragCommand(a), newAlarmCommand(a), newCompareCommand(a), newAdoptCommand(a), newAuthCommand(a), newUserCommand(a))
}

func newMembersCommand(a *app) *cobra.Command {
	return a.watched("members", "List the members and their states", runMembers)
}

func runMembers(ctx context.Context, a *app, s store, watch bool) error {
	name, err := a.theCluster(ctx, s)
	if err != nil {
		return err
	}
	id, err := s.Identity(ctx, name)
	if err != nil {
		return err
	}
	if watch {
		return a.watchStatus(ctx, s, name, func(sc screen) view { return a.membersView(id, sc.status) })
	}
	sc, err := readScreen(ctx, s, name)
	if err != nil {
		return err
	}
	if warning := a.staleness(sc); warning != "" {
		fmt.Fprintln(a.stderr, warning)
	}
	return a.show(a.membersView(id, sc.status))
}

func (a *app) membersView(id cke.Identity, st cke.Status) view {
	all, names := []cke.MemberStatus{}, []string{}
	for _, m := range st.Members {
		if j, ok := id.Join(m.Join); ok { // the record knows of a change of address first
			m.ClientURL, m.PeerURL = j.ClientURL(), j.PeerURL()
		}
		all, names = append(all, m), append(names, m.Name)
	}
	return view{data: all, names: names, table: func(w io.Writer, colour, wide bool) error {
		header := []string{"MEMBER", "ID", "ROLE", "HEALTH", "LAG", "DB", "VERSION", "CLIENT URL", "PEER URL"}
		if wide {
			header = append(header, "JOIN", "CERT", "SINCE", "REASON")
		}
		t := term.NewTable(header...)
		for _, m := range all {
			t.Add(term.Text(m.Name), term.Text(m.ID), term.Text(m.Role), term.Styled(words.StateStyle(m), m.State),
				term.Text(words.Lag(m)), term.Text(words.DBSize(m.DBSize)), term.Text(m.Version), term.Text(m.ClientURL), term.Text(m.PeerURL),
				term.Text(string(m.Join)), a.certificate(m.CertNotAfter), term.Text(a.ago(m.Since)), term.Text(m.Reason))
		}
		return t.Write(w, colour)
	}}
}

func newEndpointsCommand(a *app) *cobra.Command {
	var join bool
	cmd := &cobra.Command{
		Use: "endpoints", Short: "List the URLs for clients", Args: arguments(0, 0),
		Long: "List the URLs at which clients reach the members. Before the cluster is formed they are those of the declared members.",
		RunE: a.onStore(func(ctx context.Context, s store, _ []string) error {
			return runEndpoints(ctx, a, s, join)
		}),
	}
	cmd.Flags().BoolVar(&join, "join", false, "on one line, with commas, as etcdctl takes them")
	return cmd
}

func runEndpoints(ctx context.Context, a *app, s store, join bool) error {
	name, err := a.theCluster(ctx, s)
	if err != nil {
		return err
	}
	urls, formed, err := endpoints(ctx, s, name)
	if err != nil {
		return err
	}
	if !formed {
		fmt.Fprintf(a.stderr, "%s is not formed yet; these will answer once it is.\n", name)
	}
	return a.show(view{data: urls, names: urls, table: func(w io.Writer, _, _ bool) error {
		if join {
			_, err := fmt.Fprintln(w, strings.Join(urls, ","))
			return err
		}
		_, err := io.WriteString(w, lines(urls))
		return err
	}})
}

// endpoints returns the client URLs of the cluster's members, learners left out, or of those that it is to have.
func endpoints(ctx context.Context, s store, name string) (urls []string, formed bool, err error) {
	spec, err := s.Spec(ctx, name)
	if err != nil {
		return nil, false, err
	}
	id, err := s.Identity(ctx, name)
	if err != nil {
		return nil, false, err
	}
	if isFormed(id) {
		learners, err := learners(ctx, s, name)
		if err != nil {
			return nil, false, err
		}
		for _, j := range cke.Chosen(id.Joins) {
			if !learners[j.ID] {
				urls = append(urls, j.ClientURL())
			}
		}
		return urls, true, nil
	}
	c := spec.Wanted()
	for _, n := range c.ControlPlane() {
		urls = append(urls, c.Options.Etcd.ClientURL(n))
	}
	return urls, false, nil
}

// learners do not serve linearizable reads, so clients do not want them.
func learners(ctx context.Context, s tellings, name string) (map[cke.JoinID]bool, error) {
	st, err := s.Status(ctx, name)
	if err != nil && !errors.Is(err, cke.ErrNotFound) {
		return nil, err
	}
	all := map[cke.JoinID]bool{}
	for _, m := range st.Members {
		all[m.Join] = m.Role == "learner"
	}
	return all, nil
}

func isFormed(id cke.Identity) bool {
	return id.Incarnation != nil && id.Incarnation.State == cke.Formed
}
