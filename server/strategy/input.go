package strategy

import "cke"

// NewInput makes what Decide may know out of what is stored and what was seen. Nothing else makes one of a real cluster:
// the loop, plans and the command line decide on the same facts. backup: nil if none are taken.
func NewInput(spec cke.Spec, id cke.Identity, asked cke.Requests, seen cke.Observation, backup *cke.BackupStatus, before cke.Status) Input {
	in := Input{Spec: spec.Wanted(), Generation: spec.Generation, SetAt: spec.SetAt, Deleting: spec.Deleting(), DeletionAt: spec.DeleteRequestedAt, Sealed: !spec.DeleteSealedAt.IsZero(), Destroyed: spec.Destroyed, Identity: id,
		Seen: seen, Requests: asked, Backup: backup, Before: before}
	in.hold()
	return in
}

// InputFrom is NewInput with what a leader reported last in the place of an observation.
func InputFrom(spec cke.Spec, id cke.Identity, asked cke.Requests, reported cke.Status) Input {
	seen := cke.Observation{ObservedAt: reported.ObservedAt, Nodes: reported.Nodes, Etcd: reported.Etcd}
	return NewInput(spec, id, asked, seen, reported.Backup, reported)
}
