package strategy

import (
	"fmt"
	"time"

	"cke"
	"cke/op"
)

// brokenCertificates: what a member has to prove who it is does not hold. It is judged by the files on its node, not by
// whether it answers: members whose certificates have ended answer nobody, and if all have, there is no quorum. Writing
// new files stops nobody, so it goes before everything that needs a member that serves, and before members are started.
func brokenCertificates(in *Input) verdict {
	if !in.Formed() {
		return pass()
	}
	return in.renewal(0, func(j cke.Join) string {
		if p := certificateProblem(in, j); p != nil {
			return p.Node + ": " + p.Message
		}
		return ""
	})
}

// renewCertificates: less than a third of a member's certificates' life is left. It is done in spite of members that are
// away: they may stay away for longer than certificates last.
func renewCertificates(in *Input) verdict {
	return in.renewal(renewAgain, func(j cke.Join) string {
		worth, ok := in.certificates(j)
		if _, listed := in.listed(j); !ok || !listed || !worth.Hold(in.Seen.ObservedAt) || !worth.EndSoon(in.Seen.ObservedAt) {
			return ""
		}
		return fmt.Sprintf("the certificate of %s expires at %s", j.Node.Name(), worth.NotAfter.Format(time.RFC3339))
	}).unnoticed()
}

// renewal renews the certificates of the first member, the leader last, for which there is a reason and for which it has
// not failed. Those for which it failed come after them, the one first that has waited longest, and one at a time: while
// the last failure is held back, so are all, and the rules below have their turn.
func (in *Input) renewal(patience time.Duration, why func(cke.Join) string) verdict {
	var first, last verdict
	var firstAt, lastAt time.Time
	for j := range inTurn(in) {
		reason := ""
		if in.writable(j) {
			reason = why(j)
		}
		if reason == "" {
			continue
		}
		next := act(op.RenewCertificates{Join: in.reached(j)}, reason).patient(patience)
		f, failed := in.Failures[FailureKey(next.Operation)]
		if !failed {
			return next
		}
		if first.Operation == nil || f.At.Before(firstAt) {
			first, firstAt = next, f.At
		}
		if last.Operation == nil || f.At.After(lastAt) {
			last, lastAt = next, f.At
		}
	}
	if last.Operation == nil {
		return pass()
	}
	if _, wait := holdBack(in, last.Operation, patience); wait > 0 {
		return last
	}
	return first
}

// writable reports whether files can be put into the volume of a member that was started: its node answers, and its
// container and its data are there. Nothing is done to one that was stopped for maintenance of its node.
func (in *Input) writable(j cke.Join) bool {
	n := in.node(j.Node)
	_, there := n.Of(j.ID)
	return n.Answered() && there && !j.StartedAt.IsZero() && !in.keptOut(j) && in.drained(j.Node) == nil && dataProblem(in, j) == nil
}

// certificates is what those of a member are worth: by its files, or, where nobody has observed them, by what it showed.
func (in *Input) certificates(j cke.Join) (cke.CertificateFiles, bool) {
	n := in.node(j.Node)
	if c, there := n.Of(j.ID); there && c.Certificates != nil {
		return *c.Certificates, true
	}
	e, _ := in.Seen.Etcd.Endpoint(j.ID)
	return cke.CertificateFiles{NotBefore: e.CertNotBefore, NotAfter: e.CertNotAfter}, !e.CertNotBefore.IsZero() && !e.CertNotAfter.IsZero()
}

// certificateProblem is set when a member has nothing that proves who it is.
func certificateProblem(in *Input, j cke.Join) *cke.Problem {
	n := in.node(j.Node)
	worth, ok := in.certificates(j)
	if !ok || !n.Answered() || j.StartedAt.IsZero() || !in.Formed() || dataProblem(in, j) != nil {
		return nil
	}
	trouble := worth.Trouble(in.Seen.ObservedAt)
	if trouble == "" {
		return nil
	}
	return &cke.Problem{Code: cke.CodeCertificates, Node: j.Node.Name(), Message: trouble, Remedy: "cke renews them as soon as it can"}
}

// certificatesValid reports the certificates that expire first, or those that do not hold.
func certificatesValid(in *Input, s cke.Status) cke.Condition {
	for _, j := range memberships(in) {
		p := certificateProblem(in, j)
		if p == nil {
			continue
		}
		reason := "NotYet"
		switch worth, _ := in.certificates(j); {
		case worth.Damage != "":
			reason = "Damaged"
		case !in.Seen.ObservedAt.Before(worth.NotAfter):
			reason = "Ended"
		}
		return condition(cke.CondCertificatesValid, cke.False, reason, "%s: %s", p.Node, p.Message)
	}
	unknown := len(memberships(in)) == 0
	var first cke.MemberStatus
	for _, m := range s.Members {
		switch {
		case m.Join == "":
		case m.CertNotAfter.IsZero():
			unknown = true
		case first.Join == "" || m.CertNotAfter.Before(first.CertNotAfter):
			first = m
		}
	}
	end := first.CertNotAfter.Format(time.RFC3339)
	switch {
	case first.Join != "" && first.CertNotAfter.Before(in.Seen.ObservedAt.Add(certificateWarning)):
		return condition(cke.CondCertificatesValid, cke.False, "Expiring", "the certificate of %s expires at %s", first.Name, end)
	case unknown:
		return condition(cke.CondCertificatesValid, cke.Unknown, "NotSeen", "the certificates of some members were not read yet")
	}
	return condition(cke.CondCertificatesValid, cke.True, "Valid", "the first one expires at %s, that of %s", end, first.Name)
}

// authorityProblems name the authorities that end soon, as far as members' files show.
func authorityProblems(in *Input) (all []cke.Problem) {
	for _, name := range cke.AuthorityNames() {
		var first time.Time
		for _, j := range memberships(in) {
			worth, _ := in.certificates(j)
			if end := worth.AuthorityEnds[name]; first.IsZero() || !end.IsZero() && end.Before(first) {
				first = end
			}
		}
		if first.IsZero() || !first.Before(in.Seen.ObservedAt.Add(authorityWarning)) {
			continue
		}
		p := cke.Problem{Code: cke.CodeAuthority, Message: fmt.Sprintf("the %s authority expires at %s", name, first.Format(time.RFC3339)), Remedy: fmt.Sprintf("ckecli ca rotate %s", name)}
		if in.Identity.Authorities.Of(name).Next != nil {
			p.Message, p.Remedy = p.Message+", and is being replaced", "`ckecli ca list` shows what that waits for"
		}
		all = append(all, p)
	}
	return all
}
