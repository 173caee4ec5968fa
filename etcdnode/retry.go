package etcdnode

// Retry makes every node that is not connected try at once instead of pausing: a key or a host key that it waited for
// may be there now.
func (f *Fleet) Retry() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.nodes {
		if s, _, _ := a.link.now(); s == nil {
			a.link.poke()
		}
	}
}
