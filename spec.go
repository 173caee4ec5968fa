package cke

import "time"

// Spec is one stored revision of a cluster file.
type Spec struct {
	// Cluster is the content of the file, without defaults.
	Cluster Cluster `json:"cluster"`
	// Etcd is what the revision meant by version and image when it was stored, whatever the defaults of a later cke.
	// Zero: an older cke stored it, see Resolved.
	Etcd Release `json:"etcd,omitzero"`
	// Source is the text of the file.
	Source string `json:"source,omitempty"`
	// Generation counts up from 1; a file with the same meaning makes no new one.
	Generation int64     `json:"generation"`
	SetAt      time.Time `json:"setAt"`
	SetBy      string    `json:"setBy,omitempty"` // user@host
	// Cause is why an inventory led to the revision; empty: none did.
	Cause InventoryCause `json:"cause,omitempty"`
	// DeleteRequestedAt is set once the deletion of the cluster was requested, until the request is canceled.
	DeleteRequestedAt time.Time `json:"deleteRequestedAt,omitzero"`
	DeleteRequestedBy string    `json:"deleteRequestedBy,omitempty"`
	// Destroyed names nodes whose machines are gone for good, as the operator confirmed with the deletion, which does
	// not wait for them.
	Destroyed []string `json:"destroyed,omitempty"`
	// DestroyedIDs are the ids of the members that these names meant by the member lists when the deletion was requested, or they were named: another
	// one may have got such a name since. Empty: they meant none, or an earlier ckecli asked.
	DestroyedIDs []string `json:"destroyedIDs,omitempty"`
	// DeleteSealedAt is set once no member that could serve is left: the request can no longer be canceled.
	DeleteSealedAt time.Time `json:"deleteSealedAt,omitzero"`
}

// Destroyed is a node or a member that a deletion does not wait for, and the ids of the members that its name meant when it was given.
type Destroyed struct {
	Name string
	IDs  []string
}

// DeletionID names the request to delete the cluster, see Sighting; empty: there is none.
func (s Spec) DeletionID() string {
	if !s.Deleting() {
		return ""
	}
	return "deletion " + s.DeleteRequestedAt.UTC().Format(time.RFC3339Nano)
}

// Deleting reports whether the cluster must be deleted.
func (s Spec) Deleting() bool { return !s.DeleteRequestedAt.IsZero() }
