package cke

// EtcdUser is the common name of the client certificate that cke presents to members, and so its user when etcd's
// authentication is on. It needs the role root: only that role may change members, hash, and take snapshots.
const EtcdUser = "cke"

// Subjects of TaskAuth.
const (
	AuthOn  = "enable"
	AuthOff = "disable"
)

// AuthState is the state of etcd's authentication.
type AuthState struct {
	Enabled bool `json:"enabled"`
	// Admitted: EtcdUser has the role root. While authentication is on, this is proved by a call that needs the role.
	Admitted bool `json:"admitted"`
}
