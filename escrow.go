package cke

// EscrowFormat is the version of the format of an Escrow; readers refuse a higher one.
const EscrowFormat = 1

// Escrow is the file "identity" that lies beside a cluster's backups. With the file "spec" next to it, the text of the
// cluster file, and with the key file of the management hosts it is all that a blank cke needs to bring the cluster back:
// who it was, how its nodes are reached, and its certificate authorities.
//
// Secrets stand in it as they are sealed in the store. Nothing else in it is secret.
type Escrow struct {
	Format  int    `json:"format"`
	Cluster string `json:"cluster"`
	// Identity is without freezes and comparisons: those speak of members that are no more after a restore.
	Identity Identity `json:"identity"`
	// SealedWith is the public part of the key file that opens the secrets, "age1…".
	SealedWith string         `json:"sealedWith"`
	Secrets    []SealedSecret `json:"secrets"`
	// HostKeys are the pinned host keys by node address, each a line "TYPE BASE64".
	HostKeys map[string]string `json:"hostKeys,omitempty"`
}

// SealedSecret is a secret as the store keeps it.
type SealedSecret struct {
	// Name is "pki/peer-ca" and the like for what Secrets holds, "ssh-key" for the SSH key of the cluster or of all
	// clusters, "ssh-key/NODE" for that of one node.
	Name string `json:"name"`
	// Key is where it stood in the store: it is part of what is sealed, so that a value that was moved does not open.
	Key string `json:"key"`
	// Age is an age file.
	Age []byte `json:"age"`
}
