package cke

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// RestoreOrder is the state that a cluster is restored to, and the nodes that cannot take part.
type RestoreOrder struct {
	// Target is the URL of the backups; empty: Survivor is set.
	Target string `json:"target,omitempty"`
	// Source is the cluster whose backups they are.
	Source string `json:"source,omitempty"`
	// Lineage, Revision and Time choose the state; empty: the newest incarnation, its newest revision.
	Lineage  string    `json:"lineage,omitempty"`
	Revision int64     `json:"revision,omitempty"`
	Time     time.Time `json:"time,omitzero"`
	// ShownLineage and ShownRevision are the state that the plan showed: another incarnation, or an older revision, was not
	// confirmed. Empty: the plan could not determine it.
	ShownLineage  string `json:"shownLineage,omitempty"`
	ShownRevision int64  `json:"shownRevision,omitempty"`
	// ShownIncarnation and ShownGeneration are the cluster's incarnation and the revision of its file when the plan was
	// shown: nothing else was confirmed to be replaced. Empty: an earlier ckecli asked, or the cluster was declared for it.
	ShownIncarnation string `json:"shownIncarnation,omitempty"`
	ShownGeneration  int64  `json:"shownGeneration,omitempty"`
	// Survivor is the node whose member's own data is used in place of a backup.
	Survivor string `json:"survivor,omitempty"`
	// Named: the operator named the survivor, even if it is put aside or answers as a member of another cluster.
	Named bool `json:"named,omitempty"`
	// ShownApplied is the index that the survivor had applied when it was chosen; 0: it was not known, or an earlier ckecli asked.
	ShownApplied uint64 `json:"shownApplied,omitempty"`
	// Without are nodes that do not answer and get no member now. Together they could not have a quorum of the former
	// cluster, so that they cannot serve.
	Without []string `json:"without,omitempty"`
	// Destroyed are nodes that the operator declared to be gone for good: switched off or wiped.
	Destroyed []string `json:"destroyed,omitempty"`
	// DestroyedIDs are the ids of the members that these names meant by the member lists when the plan was shown: another one may have got such a name
	// since. Empty: they meant none, or an earlier ckecli asked.
	DestroyedIDs []string `json:"destroyedIDs,omitempty"`
	// Stored: the operator was promised that all that is acknowledged until the members stop is stored in the cluster's
	// backups first. If that is not possible, the restore is called off. False: it is stored if possible.
	Stored bool `json:"stored,omitempty"`
	// Trust are additional keys that may have signed the backups, beside the one derived from the key file; TrustAny:
	// signatures are not required.
	Trust []string `json:"trust,omitempty"`
	// IgnoreHash: the state may have another hash than a member returned when it was backed up, if all fulls that lead
	// to it have the same one.
	IgnoreHash bool `json:"ignoreHash,omitempty"`
	// Accepted names what lies beside the backups that cannot be read, or is not in the store: no such member serves.
	Accepted []string `json:"accepted,omitempty"`
}

// Kind returns what the operator calls it: a restore or, from a member's own data, a recovery.
func (o RestoreOrder) Kind() string {
	if o.Survivor != "" {
		return "recovery"
	}
	return "restore"
}

// Command returns the command that gives such an order.
func (o RestoreOrder) Command() string {
	if o.Survivor != "" {
		return "ckecli recover"
	}
	return "ckecli restore"
}

// Excuses reports whether the restore does not wait for this node.
func (o RestoreOrder) Excuses(node string) bool {
	return slices.Contains(o.Without, node) || slices.Contains(o.Destroyed, node)
}

// Again returns the command that restores another state from the same backups. It omits a password in the target.
func (o RestoreOrder) Again(lineage string, revision int64) string {
	target := o.Target
	if u, err := url.Parse(target); err == nil {
		target = u.Redacted()
	}
	again := fmt.Sprintf("ckecli restore --from '%s' --source-cluster %s --lineage %s --revision %d", target, o.Source, cmp.Or(o.Lineage, lineage), revision)
	for _, id := range o.Accepted {
		again += " --accept " + id
	}
	return again
}

// Describe describes the order for messages.
func (o RestoreOrder) Describe() string {
	if o.Survivor != "" {
		return "the data of " + o.Survivor
	}
	var b strings.Builder
	fmt.Fprintf(&b, "the backups of %s", o.Source)
	switch {
	case o.Revision > 0:
		fmt.Fprintf(&b, " at revision %d", o.Revision)
	case !o.Time.IsZero():
		b.WriteString(" at " + o.Time.UTC().Format(time.RFC3339))
	}
	return b.String()
}
