package cke

import (
	_ "embed"
	"slices"
)

//go:embed docs/cluster.schema.json
var clusterSchema []byte

// ClusterSchema returns the JSON schema of cluster.yml, for editors. It knows keys, types and words; what only
// ParseCluster knows, as quorum and versions, it does not say.
func ClusterSchema() []byte { return slices.Clone(clusterSchema) }
