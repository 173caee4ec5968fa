package cke

import "slices"

// Adoption is the subject of a task of that kind: a member that no membership names, and the container that runs it.
type Adoption struct {
	// Member is its entry in the member list when the task was requested.
	Member Member `json:"member"`
	// Container is the engine's id of the foreign container that runs it; empty: none is known.
	Container string `json:"container,omitempty"`
}

// Carriers returns the foreign containers on the node whose settings give their etcd one of these peer URLs; if any
// of them runs, only the running ones.
func (s NodeStatus) Carriers(peerURLs []string) []Container {
	var all []Container
	for _, c := range s.Containers {
		if c.Carries(peerURLs) {
			all = append(all, c)
		}
	}
	if slices.ContainsFunc(all, Container.active) {
		all = slices.DeleteFunc(all, func(c Container) bool { return !c.active() })
	}
	return all
}

// Carries reports whether the container is foreign and its settings give its etcd one of these peer URLs.
func (c Container) Carries(peerURLs []string) bool {
	return c.Cluster == "" && slices.ContainsFunc(c.PeerURLs, func(url string) bool { return slices.Contains(peerURLs, url) })
}

// Down reports whether a foreign container is known not to run, and not to be started by its engine.
func (c Container) Down() bool { return !c.active() && c.KeptDown }

// active reports whether the container runs, or is about to.
func (c Container) active() bool { return c.Running() || c.State == ContainerRestarting }
