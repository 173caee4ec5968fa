package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cke"
	"cke/internal/term"
	"cke/internal/words"
	"cke/pki"
)

func newCACommand(a *app) *cobra.Command {
	return newGroup("ca", groupEtcd, "List and replace certificate authorities",
		newCAListCommand(a), newCAGetCommand(a), newCACertsCommand(a), newCARotateCommand(a), newCAFinishCommand(a))
}

// listedCA is an authority as `ca list` writes it for programs.
type listedCA struct {
	pki.CAInfo
	// Phase, Since, By and Waits describe a replacement that is under way; both authorities in it have the same.
	Phase cke.AuthorityPhase `json:"phase,omitempty"`
	Since time.Time          `json:"since,omitzero"`
	By    string             `json:"by,omitempty"`
	Waits []string           `json:"waits,omitempty"`
}

func newCAListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the certificate authorities of a cluster", Args: arguments(0, 0),
		Long: `List the certificate authorities of a cluster: peer (what members show to each other), server (what they show to clients)
and client (what clients show to members), when they expire, and how far a replacement is and what it waits for. It needs
the secret key file of the management host.`,
		RunE: a.onStore(func(ctx context.Context, s store, _ []string) error { return runCAList(ctx, a, s) }),
	}
}

// authoritiesOf returns a cluster with its identity and its authorities, none while it was never bootstrapped.
func (a *app) authoritiesOf(ctx context.Context, s store) (string, cke.Identity, []pki.CAInfo, error) {
	cluster, id, err := a.theIdentity(ctx, s)
	if err != nil {
		return "", id, nil, err
	}
	all, err := pki.New(s.Secrets(cluster), cluster, a.now).CAs(ctx, id.Authorities)
	return cluster, id, all, err
}

func runCAList(ctx context.Context, a *app, s store) error {
	cluster, id, infos, err := a.authoritiesOf(ctx, s)
	if err != nil {
		return err
	}
	st, err := s.Status(ctx, cluster)
	if err != nil && !errors.Is(err, cke.ErrNotFound) { // what is on record is shown also while no daemon leads
		return err
	}
	all, names := []listedCA{}, []string{}
	for _, info := range infos {
		l := listedCA{CAInfo: info}
		if r := id.Authorities.Of(info.Name); r.Next != nil {
			l.Phase, l.Since, l.By = r.Phase, r.Since, r.By
			for _, told := range st.Authorities {
				if told.Name == info.Name && told.Phase == r.Phase {
					l.Waits = told.Waits
				}
			}
		}
		all, names = append(all, l), append(names, string(info.Name))
	}
	if len(all) == 0 {
		fmt.Fprintf(a.stderr, "%s was never bootstrapped: it has no certificate authorities yet.\n", cluster)
	}
	return a.show(view{data: all, names: slices.Compact(names), table: func(w io.Writer, colour, wide bool) error {
		if len(all) == 0 {
			return nil
		}
		t := term.NewTable("AUTHORITY", "STATE", "ENDS", "FINGERPRINT")
		for _, l := range all {
			print := l.Fingerprint
			if !wide {
				print = short(print)
			}
			t.Add(term.Text(string(l.Name)), term.Text(l.state()), a.certificate(l.NotAfter), term.Text(print))
		}
		if err := t.Write(w, colour); err != nil {
			return err
		}
		for i, l := range all {
			if l.Phase != cke.AuthoritySteady && (i == 0 || all[i-1].Name != l.Name) {
				fmt.Fprintf(w, "\n%s\n", l.replacement(a))
			}
		}
		return nil
	}})
}

// state is what an authority is for now.
func (l listedCA) state() string {
	switch {
	case l.Signs && l.Trusted:
		return "in use"
	case l.Trusted:
		return "trusted"
	}
	return "going"
}

// replacement shows in a line how far one has come.
func (l listedCA) replacement(a *app) string {
	text := fmt.Sprintf("%s: being replaced, phase %d of 3 for %s: %s", l.Name, l.Phase.Number(), a.ago(l.Since), words.Phase(l.Phase))
	if l.Waits != nil {
		text += "\n  waits: " + term.Clean(strings.Join(l.Waits, "\n  waits: "))
	}
	return text
}

// authorityFacts shows on the status screen the authorities that are being replaced.
func authorityFacts(l *term.Labels, s cke.Status) {
	for _, r := range s.Authorities {
		l.Add("Authority", term.Styled(term.Yellow, words.Authority(r)))
		for _, wait := range r.Waits {
			l.Add("", term.Text("waits: "+wait))
		}
	}
}

func newCAGetCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "get peer|server|client", Short: "Write the certificates of an authority", Args: arguments(1, 1), ValidArgsFunction: completeAuthorities,
		Long: `Write the certificates of an authority, in PEM: all that must be trusted now. While the server authority is being replaced,
there are two, and clients must trust both. It needs the secret key file of the management host.`,
		RunE: a.onStore(func(ctx context.Context, s store, args []string) error {
			name, err := authorityName(args[0])
			if err != nil {
				return err
			}
			cluster, _, infos, err := a.authoritiesOf(ctx, s)
			if err != nil {
				return err
			}
			type written struct {
				pki.CAInfo
				PEM string `json:"pem"`
			}
			all, text := []written{}, ""
			for _, info := range infos {
				if info.Name == name && info.Trusted {
					all, text = append(all, written{info, info.PEM}), text+info.PEM
				}
			}
			if text == "" {
				return &cke.Error{Code: cke.CodeUnformed, What: fmt.Sprintf("%s has no %s authority: it was never bootstrapped", cluster, name), Unchanged: true, Try: a.again(cluster, "status")}
			}
			return a.show(view{data: all, names: []string{string(name)}, table: func(w io.Writer, _, _ bool) error {
				_, err := io.WriteString(w, text)
				return err
			}})
		}),
	}
}

// listedCertificate is what `ca certs` writes of a member for programs.
type listedCertificate struct {
	Member string `json:"member"`
	cke.CertificateFiles
	// PeerAuthority and ServerAuthority are the generations that signed its certificates; -1: not known.
	PeerAuthority   int `json:"peerAuthority"`
	ServerAuthority int `json:"serverAuthority"`
}

func newCACertsCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "certs", Short: "List the certificates of members", Args: arguments(0, 0),
		Long: "List the certificates that members have: when the first of them expires, and by which authorities they were signed.",
		RunE: a.onStore(func(ctx context.Context, s store, _ []string) error { return runCACerts(ctx, a, s) }),
	}
}

func runCACerts(ctx context.Context, a *app, s store) error {
	cluster, sc, err := a.toldScreen(ctx, s)
	if err != nil {
		return err
	}
	id, err := s.Identity(ctx, cluster)
	if err != nil {
		return err
	}
	all, names := []listedCertificate{}, []string{}
	for _, m := range sc.status.Members {
		if m.Join == "" {
			continue
		}
		l := listedCertificate{Member: m.Name, CertificateFiles: cke.CertificateFiles{NotAfter: m.CertNotAfter}}
		for _, n := range sc.status.Nodes {
			if c, there := n.Of(m.Join); there && c.Certificates != nil {
				l.CertificateFiles = *c.Certificates
			}
		}
		l.PeerAuthority, l.ServerAuthority = generationOf(id.Authorities, cke.PeerAuthority, l.PeerSigner), generationOf(id.Authorities, cke.ServerAuthority, l.ServerSigner)
		all, names = append(all, l), append(names, m.Name)
	}
	return a.show(view{data: all, names: names, table: func(w io.Writer, colour, _ bool) error {
		t := term.NewTable("MEMBER", "ENDS", "PEER AUTHORITY", "SERVER AUTHORITY", "NOTE")
		for _, l := range all {
			t.Add(term.Text(l.Member), a.certificate(l.NotAfter), term.Text(orDash(short(l.PeerSigner))), term.Text(orDash(short(l.ServerSigner))), term.Styled(term.Red, l.Damage))
		}
		return t.Write(w, colour)
	}})
}

// generationOf is that of the authority with a fingerprint; -1: it is none of the present ones. While none was ever
// replaced there is only one.
func generationOf(all cke.Authorities, name cke.AuthorityName, fingerprint string) int {
	if fingerprint != "" && !all.Recorded() {
		return 0
	}
	for _, c := range all.Of(name).Kept() {
		if fingerprint != "" && c.Fingerprint == fingerprint {
			return c.Generation
		}
	}
	return -1
}

func authorityName(arg string) (cke.AuthorityName, error) {
	name := cke.AuthorityName(arg)
	if !slices.Contains(cke.AuthorityNames(), name) {
		return "", usageError{fmt.Errorf("unknown authority %q: want peer, server or client", arg), "ckecli ca"}
	}
	return name, nil
}

func completeAuthorities(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return []string{"peer", "server", "client"}, cobra.ShellCompDirectiveNoFileComp
}
