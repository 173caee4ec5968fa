package cke

import (
	"fmt"
	"slices"
	"time"
)

// Unrecorded is what has the labels of a cluster and of a membership that is not on record: a container, its volume,
// or both. cke never stops, removes or changes it.
type Unrecorded struct {
	Node        Node   `json:"node"`
	Name        string `json:"name"` // of the container and of the volume
	Incarnation string `json:"incarnation"`
	Join        JoinID `json:"join"`
	// Container is nil if there is only a volume.
	Container *Container `json:"container,omitempty"`
	Volume    bool       `json:"volume,omitempty"`
	// CreatedAt is when the volume was made, by the clock of its node; zero: there is none, or its engine does not say.
	CreatedAt time.Time `json:"createdAt,omitzero"`
}

// OnRecord reports whether what is labeled with a membership may be touched: the membership is or was one of the
// cluster, or belongs to an incarnation that was abandoned or that a restore replaced.
func (i Identity) OnRecord(incarnation string, id JoinID) bool {
	return i.Has(id) || i.Incarnation.WasAbandoned(incarnation) || i.Incarnation.WasReplaced(incarnation)
}

// Unrecorded returns what answering nodes carry with this cluster's name and without a record, by node and name.
func (i Identity) Unrecorded(cluster string, nodes []NodeStatus) []Unrecorded {
	var all []Unrecorded
	for _, n := range nodes {
		if !n.Answered() {
			continue
		}
		from := len(all)
		entry := func(owner, incarnation string, id JoinID, name string) *Unrecorded {
			if owner != cluster || i.OnRecord(incarnation, id) {
				return nil
			}
			k := slices.IndexFunc(all[from:], func(u Unrecorded) bool { return u.Join == id && u.Name == name })
			if k < 0 {
				all, k = append(all, Unrecorded{Node: n.Node, Name: name, Incarnation: incarnation, Join: id}), len(all)-from
			}
			return &all[from+k]
		}
		for _, c := range n.Containers {
			if u := entry(c.Cluster, c.Incarnation, c.Join, c.Name); u != nil {
				u.Container = &c
			}
		}
		for _, v := range n.Volumes {
			if u := entry(v.Cluster, v.Incarnation, v.Join, v.Name); u != nil {
				u.Volume, u.CreatedAt = true, v.CreatedAt
			}
		}
	}
	return all
}

// StartedOffRecord returns why a membership whose start is not on record is not created again: its container was
// started, so the store was restored from a copy that is older than its member. errors.Is: ErrConflict.
func StartedOffRecord(node string, c Container) *Error {
	return &Error{Code: CodeOlderStore, What: fmt.Sprintf("container %s on %s was started, but no start is on record", c.Name, node),
		Try: "bring back a newer copy of the store", Err: ErrConflict}
}

// since is when the membership was there at the latest. A volume is made once, and containers start again.
func (u Unrecorded) since() time.Time {
	at := u.CreatedAt
	if at.IsZero() && u.Container != nil {
		at = u.Container.StartedAt
	}
	if at.IsZero() {
		return time.Unix(0, 0)
	}
	return at
}

// StoreIsOlder reports whether u proves that the store was restored from a copy that is older than the cluster. Each
// membership is on record before anything is made for it, so one of the current incarnation was lost with its record,
// unless it may have been forgotten.
// A container of an unknown incarnation that may serve beside the volume of a current membership was made by a
// restore: nothing else adds a member on a node that carries a known one. One that is down was, if it was started since that
// volume was made and its container is gone, which a restore removes.
func (i Identity) StoreIsOlder(u Unrecorded, nodes []NodeStatus) bool {
	inc := i.Incarnation
	if inc == nil {
		return false
	}
	if inc.Life(u.Incarnation) {
		return !i.mayHaveForgotten(Join{ID: u.Join, StartedAt: u.since()})
	}
	j, carries := i.On(u.Node)
	if !carries || u.Container == nil {
		return false
	}
	return slices.ContainsFunc(nodes, func(n NodeStatus) bool {
		_, container := n.Of(j.ID)
		v, volume := n.VolumeOf(j)
		before := container || u.Container.StartedAt.Before(v.CreatedAt)
		return n.Node.Address == u.Node.Address && volume && !(before && u.Container.Down())
	})
}
