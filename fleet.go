package cke

import "time"

// Fleet is which daemons are alive, and which of them leads which cluster.
type Fleet struct {
	// Self is the daemon that observes; empty: none of them does.
	Self string `json:"self,omitempty"`
	// Schema is that of the store. A daemon that knows a lower one leads no cluster.
	Schema   int      `json:"schema"`
	Daemons  []Daemon `json:"daemons"`
	Clusters []Led    `json:"clusters"`
	// Asked is the last request to balance now; nil: there is none, or it has expired.
	Asked *BalanceRequest `json:"asked,omitempty"`
}

// Daemon is one live daemon.
type Daemon struct {
	// ID is that of its session with the store: another one after each start.
	ID   string `json:"id,omitempty"`
	Host string `json:"host"`
	// Version is that of its program; empty: it is too old to say so.
	Version string `json:"version,omitempty"`
	// Schema is the newest that it knows.
	Schema int       `json:"schema"`
	Since  time.Time `json:"since,omitzero"`
}

// Led is one cluster and the daemons that may lead it.
type Led struct {
	Cluster string `json:"cluster"`
	Leader  Leader `json:"leader,omitzero"`
	// By is the daemon that leads; empty: none does at the moment.
	By string `json:"by,omitempty"`
	// Prefer are the management hosts that its cluster file prefers, as its leader daemon read it.
	Prefer []string `json:"prefer,omitempty"`
	// Waiting are the daemons that wait to lead, the next one first.
	Waiting []string `json:"waiting,omitempty"`
}

// BalanceRequest asks all daemons to balance at once.
type BalanceRequest struct {
	At time.Time `json:"at"`
	By string    `json:"by,omitempty"`
}

// Daemon returns the daemon of an id.
func (f Fleet) Daemon(id string) (Daemon, bool) {
	for _, d := range f.Daemons {
		if d.ID == id {
			return d, true
		}
	}
	return Daemon{}, false
}
