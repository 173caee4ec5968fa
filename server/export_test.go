package server

// ErrResigned is what a loop ends with that a person asked to resign.
var ErrResigned = errResigned

// MetricNames are the names of all metrics in the table.
func MetricNames() (names []string) {
	for _, s := range sections() {
		for _, row := range s.rows {
			names = append(names, namespace+"_"+row.name)
		}
	}
	return names
}
