package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"time"

	"cke"
	"cke/clusterfile"
	"cke/etcdnode"
	"cke/preflight"
	"cke/sabakan"
	"cke/sabakan/keep"
	"cke/server"
	"cke/storage"
)

// inventoryOf returns what works with the inventory of a cluster during one term.
func inventoryOf(store *storage.Store, metrics *server.Metrics, log *slog.Logger) func(*term) server.Inventory {
	return func(lead *term) server.Inventory {
		cluster := lead.Cluster()
		return keep.New(keep.Config{
			Cluster:  cluster,
			Ledger:   lead,
			Past:     func(ctx context.Context) (cke.InventoryPast, error) { return store.InventoryPast(ctx, cluster) },
			Settings: func() *cke.InventorySettings { return lead.state.Load().Inventory },
			Order:    func() *cke.InventoryOrder { return lead.state.Load().Order() },
			Others:   func(ctx context.Context) (map[string]string, error) { return store.NodesOfOthers(ctx, cluster) },
			Template: clusterfile.InventoryTemplate,
			Open: func(source cke.InventorySource, url string) (sabakan.Source, error) {
				return sabakan.Open(source, url, clusterfile.ParseHosts)
			},
			Check: func(ctx context.Context, spec cke.Spec, id cke.Identity, nodes []cke.Node, forgotten []string) (map[string]string, error) {
				known := maps.Clone(lead.state.Load().HostKeys)
				for _, address := range forgotten {
					delete(known, address)
				}
				return preflight.Fit(ctx, spec, id, nodes, etcdnode.Config{
					Keys:        func(ctx context.Context, n cke.Node) ([]byte, error) { return store.SSHKey(ctx, cluster, n.Name()) },
					AgentSocket: os.Getenv("SSH_AUTH_SOCK"), Guard: lead.Check, Log: log.With("cluster", cluster),
				}, known)
			},
			Choose:   sabakan.Choose,
			Simulate: keep.Simulate,
			Verify: func(text []byte) error {
				_, _, err := clusterfile.ParseCluster(fmt.Sprintf("the file of %s that follows from the inventory", cluster), text)
				return err
			},
			Applied: func(cause cke.InventoryCause) { metrics.InventoryChange(cluster, cause) },
			Now:     time.Now,
			Log:     log.With("cluster", cluster),
		})
	}
}
