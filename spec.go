package cke

import "time"

// Spec is one stored revision of what a person wants.
type Spec struct {
	// Cluster is as the person wrote it, without defaults.
	Cluster Cluster `json:"cluster"`
	// Etcd is what the revision meant by version and image when it was stored, whatever a cke takes for default later.
	// Zero: an older cke stored it, see Resolved.
	Etcd Release `json:"etcd,omitzero"`
	// Source is the text of the file.
	Source string `json:"source,omitempty"`
	// Generation counts up from 1; a file with the same meaning makes no new one.
	Generation int64     `json:"generation"`
	SetAt      time.Time `json:"setAt"`
	SetBy      string    `json:"setBy,omitempty"` // user@host
	// DeleteRequestedAt is set once a person asked for the cluster to be deleted, until the request is canceled.
	DeleteRequestedAt time.Time `json:"deleteRequestedAt,omitzero"`
	DeleteRequestedBy string    `json:"deleteRequestedBy,omitempty"`
	// Destroyed names nodes whose machines are gone for good, as the operator confirmed with the deletion: it does not wait for them.
	Destroyed []string `json:"destroyed,omitempty"`
	// DeleteSealedAt is set once no member is left that could serve: the request is not canceled any more.
	DeleteSealedAt time.Time `json:"deleteSealedAt,omitzero"`
}

// Deleting reports whether the cluster is to be deleted.
func (s Spec) Deleting() bool { return !s.DeleteRequestedAt.IsZero() }
