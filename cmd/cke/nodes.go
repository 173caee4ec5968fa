package main

import (
	"context"
	"crypto/tls"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sync/semaphore"

	"cke"
	"cke/etcdnode"
	"cke/pki"
	"cke/server"
	"cke/storage"
)

// handshakes is how many SSH handshakes may be computed at once: all nodes come back at one moment after a network loss.
const handshakes = 32

// connector returns what gives a term access to its cluster's nodes.
func connector(store *storage.Store, config cke.Config, metrics *server.Metrics, log *slog.Logger) func(*term) (server.Nodes, cke.Authority, error) {
	archives := &etcdnode.Archives{Dir: config.Images.ArchiveDir}
	limit := semaphore.NewWeighted(handshakes)
	return func(lead *term) (server.Nodes, cke.Authority, error) {
		cluster := lead.Cluster()
		authority := pki.New(store.Secrets(cluster), cluster, time.Now)
		fleet := etcdnode.New(etcdnode.Config{
			Keys: func(ctx context.Context, n cke.Node) ([]byte, error) {
				return store.SSHKey(ctx, cluster, n.Name())
			},
			AgentSocket: os.Getenv("SSH_AUTH_SOCK"),
			HostKeys:    hostKeys{lead, log},
			Archives:    archives,
			Login:       login(config.Images),
			ClientTLS: func(ctx context.Context) (*tls.Config, error) {
				return authority.ClientTLS(ctx, lead.state.Load().Identity.Authorities)
			},
			OldTLS: func(ctx context.Context) (*tls.Config, error) {
				value, err := store.Secrets(cluster).Secret(ctx, cke.ImportSecret)
				if err != nil {
					return nil, err
				}
				return pki.OldClientTLS(value)
			},
			Guard:      lead.Check,
			Connected:  func(err error) { metrics.NodeConnection(cluster, err) },
			Probe:      time.Duration(config.ProbeInterval),
			Handshakes: limit,
			Log:        log.With("cluster", cluster),
		})
		return fleet, authority, nil
	}
}

// login reads the password for each pull: it may be replaced while the daemon runs.
func login(images cke.ImagesConfig) func(host string) (username, password string, err error) {
	return func(host string) (string, string, error) {
		r, ok := images.Registry(host)
		if !ok {
			return "", "", nil
		}
		password, err := readPassword(r.PasswordFile)
		return r.Username, password, err
	}
}

// hostKeys keeps pinned host keys in the store, in the name of a term.
type hostKeys struct {
	term *term
	log  *slog.Logger
}

var _ etcdnode.HostKeys = hostKeys{}

// Pinned implements etcdnode.HostKeys.
func (h hostKeys) Pinned(address string) (string, bool) {
	line, ok := h.term.state.Load().HostKeys[address]
	return line, ok
}

// Pin implements etcdnode.HostKeys.
func (h hostKeys) Pin(ctx context.Context, address, line string) error {
	return h.term.PinHostKey(ctx, address, line)
}

// Offered implements etcdnode.HostKeys.
func (h hostKeys) Offered(ctx context.Context, address, line string) {
	if err := h.term.OfferHostKey(ctx, address, line); err != nil {
		h.log.Warn("an offered host key was not stored", "address", address, "error", err)
	}
}
