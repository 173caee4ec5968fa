package clusterfile

import "cke"

// Check checks a cluster that does not come from a file by the rules of ParseCluster. Faults have paths and no lines.
func Check(c cke.Cluster) ([]Warning, error) {
	f := newFindings("")
	checkCluster(f, c)
	return f.sortedWarnings(), f.err()
}
