package cke

// EtcdUser is the common name of the certificate that cke itself shows to members, and so its user where etcd's
// authentication is on. It needs the role root: only that may change members, hash, and take snapshots.
const EtcdUser = "cke"

// Subjects of TaskAuth.
const (
	AuthOn  = "enable"
	AuthOff = "disable"
)

// AuthState is how etcd's authentication is.
type AuthState struct {
	Enabled bool `json:"enabled"`
	// Admitted: EtcdUser has the role root. While authentication is on it was proved by a call that needs the role.
	Admitted bool `json:"admitted"`
}
