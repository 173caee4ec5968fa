package cke

import (
	_ "embed"
	"slices"
)

//go:embed docs/cluster.schema.json
var clusterSchema []byte

//go:embed docs/template.schema.json
var templateSchema []byte

// TemplateSchema returns the JSON schema of templates, as ClusterSchema does of cluster files.
func TemplateSchema() []byte { return slices.Clone(templateSchema) }

// ClusterSchema returns the JSON schema of cluster.yml, for editors. It covers keys, types and allowed words, but not
// what only ParseCluster checks, as quorum and versions.
func ClusterSchema() []byte { return slices.Clone(clusterSchema) }
