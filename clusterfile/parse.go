package clusterfile

import (
	"reflect"

	"cke"
)

// ParseCluster reads one cluster file and checks it in full. file is the name that faults show.
// The Cluster is as it was written: defaults are not filled in, see WithDefaults. Warnings come in the order
// of the file. The error is an *Error with CodeConfig that wraps a *FaultList: all errors together.
func ParseCluster(file string, data []byte) (cke.Cluster, []Warning, error) {
	var c cke.Cluster
	f := newFindings(file)
	if parse(f, data, &c, unknownClusterKey, "`ckecli cluster init ADDRESS…` writes one to start from.") {
		checkCluster(f, c)
	}
	if err := f.err(); err != nil {
		return cke.Cluster{}, f.sortedWarnings(), err
	}
	return c, f.sortedWarnings(), nil
}

// parse reads one YAML file into the struct that to points to. remedy is for a file without content.
// It reports whether the whole file was read; single values may have faults then.
func parse(f *findings, data []byte, to any, unknown unknownFunc, remedy string) bool {
	if n := readYAML(f, data, remedy); n != nil {
		f.places[""] = place{line: n.Line, column: n.Column}
		newDecoder(f, unknown).value(n, reflect.ValueOf(to).Elem(), "")
	}
	return !f.isFaulty("")
}
