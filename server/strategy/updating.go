package strategy

import (
	"fmt"
	"slices"
	"time"

	"cke"
	"cke/op"
)

// betweenUpdates is how long the next member may wait for the one before to settle, and the cluster still counts as being updated.
const betweenUpdates = time.Minute

// updated returns the membership whose member does not serve for a time because of an operation that asked the gate before:
// false if there is none.
func updated(o op.Operation) (cke.JoinID, bool) {
	switch o := o.(type) {
	case op.RestartMember:
		return o.Join.ID, true
	case op.ChangeAddress:
		return o.Join.ID, true
	}
	return "", false
}

// planned reports whether a member does not serve because cke restarts it now. One whose node is silent, or whose data is
// gone, is another matter.
func planned(in *Input, d Decision, j cke.Join) bool {
	id, updates := updated(d.Operation)
	if !updates || id != j.ID || !in.Seen.Etcd.Quorate || in.silent(j) || dataProblem(in, j) != nil {
		return false
	}
	p := memberProblem(in, j)
	return p != nil && (p.Code == cke.CodeEtcdExited || p.Code == cke.CodeMemberSilent)
}

// updating reports whether what the file asks for is being applied member by member, and nothing else is wrong.
func updating(in *Input, d Decision, s cke.Status) bool {
	// An authority that ends in months is nothing that an update waits for; its replacement is one.
	wrong := func(p cke.Problem) bool { return p.Code != cke.CodeAuthority }
	if slices.ContainsFunc(s.Problems, wrong) || !in.Seen.Etcd.Quorate {
		return false
	}
	if _, updates := updated(d.Operation); updates {
		return true
	}
	return d.Operation == nil && s.Ready == s.Declared && settling(in)
}

// settling reports whether a member was restarted a moment ago: the next one waits for it to be level with the others.
func settling(in *Input) bool {
	last := in.Before.LastOperation
	return last != nil && last.Type == (op.RestartMember{}).Name() && last.State == cke.RecordCompleted && in.Seen.ObservedAt.Sub(last.Time).Abs() < betweenUpdates
}

// progress is the sentence that says how far an update has come.
func progress(d Decision, s cke.Status) string {
	if d.Operation == nil {
		return fmt.Sprintf("being updated, %s, can lose %s", allServe(s.Declared), canLose(s))
	}
	return fmt.Sprintf("being updated: %s of %s, quorum held, can lose %s", d.Operation.Name(), and(d.Operation.Targets()), canLose(s))
}
