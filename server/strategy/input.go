package strategy

import "cke"

// NewInput makes an Input from what is stored and what was observed. Only this makes one of a real cluster, so the loop,
// plans and the command line decide on the same facts. backup is nil if none are taken.
func NewInput(spec cke.Spec, id cke.Identity, asked cke.Requests, seen cke.Observation, backup *cke.BackupStatus, before cke.Status) Input {
	in := Input{Spec: id.Incarnation.Importing().Wants(spec.Wanted()), Generation: spec.Generation, SetAt: spec.SetAt, Deleting: spec.Deleting(), DeletionAt: spec.DeleteRequestedAt, Deletion: spec.DeletionID(), Sealed: !spec.DeleteSealedAt.IsZero(), Destroyed: spec.Destroyed, DestroyedIDs: spec.DestroyedIDs, Identity: id,
		Seen: seen, Requests: asked, Backup: backup, Before: before}
	if old := id.Incarnation.Importing(); old != nil && old.Reverting {
		whole := spec.Wanted()
		in.whole = &whole
	}
	in.hold()
	return in
}

// toRestore is what a restore decides by: it ends an import under way, also one that is being reverted.
func (in *Input) toRestore() *Input {
	if in.whole == nil {
		return in
	}
	restoring := *in
	restoring.Spec = *in.whole
	return &restoring
}

// InputFrom is NewInput with the status that a leader reported last in place of an observation.
func InputFrom(spec cke.Spec, id cke.Identity, asked cke.Requests, reported cke.Status) Input {
	seen := cke.Observation{ObservedAt: reported.ObservedAt, Nodes: reported.Nodes, Etcd: reported.Etcd}
	in := NewInput(spec, id, asked, seen, reported.Backup, reported)
	in.Inventory = reported.Inventory
	return in
}
