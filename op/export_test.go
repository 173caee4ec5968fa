package op

// Names are the names of all operations that no task names.
func Names() []string {
	var all []string
	for _, o := range kinds {
		all = append(all, o.Name())
	}
	return all
}
