package cke

import (
	"encoding/json"
	"fmt"
	"slices"
)

// EscrowFormat is the version of the format of an Escrow; readers refuse a higher one.
const EscrowFormat = 1

// Escrow is the file "identity" beside a cluster's backups. Together with the file "spec", the text of the cluster
// file, and the key file of the management hosts it is all that a new cke needs to restore the cluster: its identity,
// the access to its nodes, and its certificate authorities.
//
// Secrets are sealed as in the store. Nothing else in it is secret.
type Escrow struct {
	Format  int    `json:"format"`
	Cluster string `json:"cluster"`
	// Identity has no freezes or comparisons: they refer to members that no longer exist after a restore.
	Identity Identity `json:"identity"`
	// SealedWith is the public part of the key file that opens the secrets, "age1…".
	SealedWith string         `json:"sealedWith"`
	Secrets    []SealedSecret `json:"secrets"`
	// HostKeys are the pinned host keys by node address, each a line "TYPE BASE64".
	HostKeys map[string]string `json:"hostKeys,omitempty"`
}

// SealedSecret is a secret as the store keeps it.
type SealedSecret struct {
	// Name is "pki/peer-ca" and the like for values of Secrets, "ssh-key" for the SSH key of the cluster or of all
	// clusters, "ssh-key/NODE" for that of one node.
	Name string `json:"name"`
	// Key is its key in the store: it is part of what is sealed, so that a moved value does not open.
	Key string `json:"key"`
	// Age is an age file.
	Age []byte `json:"age"`
}

// ParseEscrow reads what lies beside backups. A format that this cke does not know is an error.
func ParseEscrow(data []byte) (e Escrow, err error) {
	if err = json.Unmarshal(data, &e); err != nil || e.Format > EscrowFormat {
		return e, &Error{Code: CodeCannot, What: "what lies beside the backups is of a format that this program does not know", Unchanged: true, Err: err}
	}
	return e, nil
}

// Lacking is something that the identity beside the backups has and the store does not: the store is older.
type Lacking struct {
	// ID is that of a membership or of an incarnation, or names a generation of an authority as AuthoritySecret does.
	ID string `json:"id"`
	// What describes it.
	What string `json:"what"`
	// Ended: a membership ended that is a current one in the store.
	Ended bool `json:"ended,omitempty"`
	// Restored: a restore made an incarnation that the store does not have.
	Restored bool `json:"restored,omitempty"`
}

// StillLacking returns what the identity beside the backups has and this one does not, now or when the cluster was frozen for it.
func (i Identity) StillLacking(b *BackupStatus) (all []Lacking) {
	if b != nil && i.BackedUp().Incarnation.Life(b.Lineage) { // the backups of the incarnation before may still be reported
		all = slices.Clone(b.Lacks)
	}
	if i.Freeze.Active() {
		for _, l := range i.Freeze.Lacks {
			if !slices.ContainsFunc(all, func(o Lacking) bool { return o.ID == l.ID }) {
				all = append(all, l)
			}
		}
	}
	return slices.DeleteFunc(all, func(l Lacking) bool { return !i.stillLacks(l) })
}

// Ends reports whether a membership on record ended according to the identity beside the backups.
func Ends(lacks []Lacking, id JoinID) bool {
	return slices.ContainsFunc(lacks, func(l Lacking) bool { return l.Ended && l.ID == string(id) })
}

func (i Identity) stillLacks(l Lacking) bool {
	for _, name := range AuthorityNames() {
		for g := range i.Authorities.Of(name).Signs().Generation + 1 {
			if l.ID == AuthoritySecret(name, g) {
				return false
			}
		}
	}
	if l.Restored {
		return !i.Incarnation.knows(l.ID) || i.restoresTo(l.ID)
	}
	if l.Ended {
		_, current := i.BackedUp().Join(JoinID(l.ID))
		return current
	}
	return !i.Has(JoinID(l.ID))
}

// Lacks returns what an identity beside the backups of an incarnation has and this one does not, neither as current nor as
// ended: members that were started, their ends, and newer authorities. That identity must have been read first.
func (i Identity) Lacks(beside Identity, incarnation string) (all []Lacking) {
	for _, j := range beside.BackedUp().Joins {
		if j.Incarnation == incarnation && !j.StartedAt.IsZero() && !i.Has(j.ID) && !i.mayHaveForgotten(j) {
			all = append(all, Lacking{ID: string(j.ID), What: "the member of " + j.Node.Name()})
		}
	}
	if was, now := beside.BackedUp(), i.BackedUp(); was.Incarnation.Life(incarnation) && now.Incarnation.Life(incarnation) {
		for _, j := range was.Ended {
			if _, current := now.Join(j.ID); current && j.Incarnation == incarnation && !j.StartedAt.IsZero() {
				all = append(all, Lacking{ID: string(j.ID), What: "the end of the membership of " + j.Node.Name(), Ended: true})
			}
		}
	}
	for _, name := range AuthorityNames() {
		if later := beside.Authorities.Of(name).Signs().Generation; later > i.Authorities.Of(name).Signs().Generation {
			all = append(all, Lacking{ID: AuthoritySecret(name, later), What: fmt.Sprintf("generation %d of the %s authority", later, name)})
		}
	}
	return all
}
