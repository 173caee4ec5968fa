package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"cke"
	"cke/monitoring"
)

// scrapeOptions are the options of `monitoring scrape-config`.
type scrapeOptions struct {
	certs   string
	daemons []string
	tls     monitoring.TLS // of the daemons' HTTPS
	ttl     time.Duration
}

// scrapeName is the name of the client certificates of Prometheus.
const scrapeName = "prometheus"

func newScrapeCommand(a *app) *cobra.Command {
	var o scrapeOptions
	cmd := &cobra.Command{
		Use: "scrape-config --certs DIR", Short: "Write which metrics Prometheus collects, and issue the certificates that it needs", Args: arguments(0, 0),
		Long: `Write the scrape configuration of Prometheus for the daemons and for the members of all clusters that are formed, or of the
one of --cluster. For each cluster a client certificate is kept in DIR/CLUSTER, and issued again when it is missing,
expires within 7 days, or is not of the certificate authorities that the cluster has now. It needs the secret key file of
the management host. Repeat the command after a change of members, and weekly for the certificates:

  ckecli monitoring scrape-config --certs /etc/prometheus/cke > /etc/prometheus/scrape/cke.yml`,
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if o.certs == "" {
				return usageError{errors.New("--certs is missing: name a directory for the certificates"), cmd.CommandPath()}
			}
			if o.ttl <= envRenew {
				return usageError{errors.New("--ttl must be longer than a week"), cmd.CommandPath()}
			}
			if (o.tls.CertFile == "") != (o.tls.KeyFile == "") {
				return usageError{errors.New("--daemon-cert and --daemon-key go together"), cmd.CommandPath()}
			}
			for _, d := range o.daemons {
				if _, _, err := net.SplitHostPort(d); err != nil {
					return usageError{fmt.Errorf("--daemon %s: want HOST:PORT", d), cmd.CommandPath()}
				}
			}
			return nil
		},
		RunE: a.onStore(func(ctx context.Context, s store, _ []string) error {
			return runScrape(ctx, a, s, o)
		}),
	}
	cmd.Flags().StringVar(&o.certs, "certs", "", "`directory` for the certificates, as Prometheus sees it, too")
	cmd.Flags().StringSliceVar(&o.daemons, "daemon", nil, "`HOST:PORT` of a daemon's HTTP; repeat for each management host (default: that of this host)")
	cmd.Flags().StringVar(&o.tls.CAFile, "daemon-ca", "", "`file` with the CA of the daemons' HTTPS, as Prometheus sees it (default: the system's CAs)")
	cmd.Flags().StringVar(&o.tls.CertFile, "daemon-cert", "", "`file` with the client certificate that daemons require, as Prometheus sees it")
	cmd.Flags().StringVar(&o.tls.KeyFile, "daemon-key", "", "`file` with its key, as Prometheus sees it")
	cmd.Flags().DurationVar(&o.ttl, "ttl", defaultClientTTL, "how long a new certificate is valid")
	must(cmd.MarkFlagDirname("certs"))
	return cmd
}

func runScrape(ctx context.Context, a *app, s store, o scrapeOptions) error {
	c, err := a.loadConfig()
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(o.certs)
	if err != nil {
		return err
	}
	clusters := []string{a.cluster}
	if a.cluster == "" {
		if clusters, err = s.Clusters(ctx); err != nil {
			return err
		}
	}
	scrape := monitoring.Scrape{Configs: []monitoring.ScrapeConfig{a.daemonJob(c.HTTP, o)}}
	for _, cluster := range clusters {
		id, err := s.Identity(ctx, cluster)
		if err != nil {
			return err
		}
		if !isFormed(id) {
			fmt.Fprintf(a.stderr, "%s is not formed yet and is left out.\n", cluster)
			continue
		}
		b := filesOf(filepath.Join(dir, cluster), scrapeName)
		kept, err := a.usable(ctx, s, cluster, b, envRenew)
		if err == nil && kept.IsZero() {
			err = a.issue(ctx, s, cluster, &b, o.ttl)
		}
		if err != nil {
			return err
		}
		job, err := membersJob(cluster, id, b)
		if err != nil {
			return err
		}
		scrape.Configs = append(scrape.Configs, job)
	}
	var names []string
	for _, job := range scrape.Configs {
		names = append(names, job.Job)
	}
	return a.showAs(scrape, names, writeYAML)
}

// daemonJob collects the metrics of daemons, which all serve HTTP as this host's configuration says.
func (a *app) daemonJob(http cke.HTTPConfig, o scrapeOptions) monitoring.ScrapeConfig {
	if len(o.daemons) == 0 {
		o.daemons = []string{http.Listen}
		if http.Loopback() {
			fmt.Fprintf(a.stderr, "The daemon listens on %s only: Prometheus has to run on this host.\n", http.Listen)
		}
	}
	job := monitoring.ScrapeConfig{Job: monitoring.DaemonJob, Scheme: "http", Static: []monitoring.Targets{{Targets: o.daemons}}}
	named := o.tls != monitoring.TLS{}
	switch {
	case http.TLS.CertFile != "":
		job.Scheme = "https"
		if named {
			job.TLS = &o.tls
		}
		if o.tls.CAFile == "" {
			fmt.Fprintln(a.stderr, "The daemon serves HTTPS: name the CA of its certificate with --daemon-ca, unless the system trusts it.")
		}
	case named:
		fmt.Fprintln(a.stderr, "The daemon serves HTTP without TLS: --daemon-ca, --daemon-cert and --daemon-key are not used.")
	}
	if http.TLS.ClientCAFile != "" && o.tls.CertFile == "" {
		fmt.Fprintln(a.stderr, "The daemon requires client certificates: name that of Prometheus with --daemon-cert and --daemon-key.")
	}
	if auth := http.BasicAuth; auth.Username != "" {
		job.Auth = &monitoring.BasicAuth{Username: auth.Username, PasswordFile: auth.PasswordFile}
	}
	return job
}

// membersJob collects the metrics of the members of a cluster.
func membersJob(cluster string, id cke.Identity, b issued) (monitoring.ScrapeConfig, error) {
	job := monitoring.ScrapeConfig{Job: monitoring.MembersJob(cluster), Scheme: "https", TLS: &monitoring.TLS{CAFile: b.CAFile, CertFile: b.CertFile, KeyFile: b.KeyFile}}
	for _, j := range cke.Chosen(id.Joins) {
		u, err := url.Parse(j.ClientURL())
		if err != nil {
			return job, fmt.Errorf("client URL of %s: %w", j.Node.Name(), err)
		}
		job.Static = append(job.Static, monitoring.Targets{Targets: []string{u.Host}, Labels: map[string]string{"cluster": cluster, "member": j.Node.Name()}})
	}
	return job, nil
}
