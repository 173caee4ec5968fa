package strategy

import (
	"fmt"
	"slices"
	"strings"

	"cke"
	"cke/op"
)

// reissueCertificates: a member has a certificate of an authority that is being replaced, and its successor issues them by
// now. Every member trusts both.
func reissueCertificates(in *Input) verdict {
	if !in.Formed() || !in.Identity.Authorities.Replacing() {
		return pass()
	}
	return in.renewal(0, func(j cke.Join) string {
		worth, ok := in.certificates(j)
		if _, listed := in.listed(j); !ok || !listed || worth.Bundle() == "" {
			return ""
		}
		for _, name := range cke.AuthorityNames() {
			r := in.Identity.Authorities.Of(name)
			if signer := worth.SignedBy(name); r.Next != nil && signer != "" && signer != r.Signs().Fingerprint {
				return fmt.Sprintf("%s has a certificate of the %s authority that is being replaced", j.Node.Name(), name)
			}
		}
		return ""
	}).unnoticed()
}

// advanceAuthority: all that the present phase of an authority's replacement asks for holds, with every member, and no
// operator has to say more.
func advanceAuthority(in *Input) verdict {
	if !in.Formed() {
		return pass()
	}
	all := in.Identity.Authorities
	for _, name := range cke.AuthorityNames() {
		if all.Of(name).Next == nil || all.WaitsForPerson(name) || in.authorityWaits(name) != nil {
			continue
		}
		return act(in.advance(name), fmt.Sprintf("the %s authority is being replaced: %s", name, doneIn(all.Of(name).Phase)))
	}
	return pass()
}

func (in *Input) advance(name cke.AuthorityName) op.AdvanceAuthority {
	a := op.AdvanceAuthority{Authority: name, From: in.Identity.Authorities.Of(name).Phase}
	for _, j := range in.Identity.Joins {
		a.Joins = append(a.Joins, in.reached(j))
	}
	return a
}

// doneIn is what holds at the end of a phase.
func doneIn(p cke.AuthorityPhase) string {
	switch p {
	case cke.AuthorityIntroduced:
		return "every member trusts the next one, too"
	case cke.AuthorityIssues:
		return "every certificate is issued by the next one"
	}
	return "no member trusts the former one any more"
}

// authorityWaits is what keeps the phase of an authority's replacement from being over, member by member; nil: nothing
// does, but perhaps an operator.
func (in *Input) authorityWaits(name cke.AuthorityName) []string {
	var waits []string
	for _, m := range in.Seen.Etcd.Members {
		if !slices.ContainsFunc(in.Identity.Joins, m.Of) {
			waits = append(waits, fmt.Sprintf("%s is a foreign member, and would not trust the next one", nameOf(m)))
		}
	}
	want := in.Identity.Authorities.Bundle()
	for _, j := range in.Identity.Joins {
		if why := in.memberWaits(j, name, want); why != "" {
			waits = append(waits, j.Node.Name()+" "+why)
		}
	}
	return waits
}

func (in *Input) memberWaits(j cke.Join, name cke.AuthorityName, want string) string {
	worth, known := in.certificates(j)
	_, listed := in.listed(j)
	_, declared := in.declared(j)
	switch {
	case in.drained(j.Node) != nil:
		return "is drained"
	case in.silent(j):
		return "does not answer"
	case !listed || j.StartedAt.IsZero():
		return "is being added, or is leaving"
	case !declared && j.Bundle != want:
		return "is to leave: its node is not a control-plane node"
	case j.Bundle != want || known && worth.Damage == "" && worth.Bundle() != "" && worth.Bundle() != want:
		return "is to be restarted"
	case !known || worth.Bundle() == "":
		return "has certificate files that were not read yet"
	}
	return op.Unfit(in.Identity.Authorities, name, worth)
}

// staleTrust reports whether a member is to be restarted since it trusts others than it should, by what it was started
// with, or would do so after its next start.
func (in *Input) staleTrust(j cke.Join) bool {
	want := in.Identity.Authorities.Bundle()
	if want == "" {
		return false
	}
	worth, known := in.certificates(j)
	return j.Bundle != want || known && worth.Damage == "" && worth.Bundle() != "" && worth.Bundle() != want
}

// rotateAsked: an operator wants an authority replaced. The task is over when it is, or when it waits for what only an operator
// can know. Its steps are those of the rules below.
func rotateAsked(in *Input, t cke.Task) Decision {
	name := cke.AuthorityName(t.Subject)
	if !slices.Contains(cke.AuthorityNames(), name) {
		return refuse(t, cannot("there is no authority %q", t.Subject))
	}
	r := in.Identity.Authorities.Of(name)
	switch {
	case r.Task == t.ID && r.Next == nil:
		return settled(t, fmt.Sprintf("the %s authority is replaced", name))
	case r.Task == t.ID && in.Identity.Authorities.WaitsForPerson(name) && in.authorityWaits(name) == nil:
		return settled(t, personHasTo(name))
	case r.Task == t.ID:
		return Decision{}
	case r.Next != nil:
		why := cannot("the %s authority is being replaced already", name)
		why.Facts, why.Try = in.authorityWaits(name), "ckecli ca list"
		return refuse(t, why)
	}
	for _, m := range in.Seen.Etcd.Members {
		if !slices.ContainsFunc(in.Identity.Joins, m.Of) {
			why := cannot("%s is a foreign member, and would not trust the next %s authority", nameOf(m), name)
			why.Try = "ckecli etcd adopt"
			return refuse(t, why)
		}
	}
	return Decision{Operation: op.RotateAuthority{Authority: name, Task: t.ID, By: t.By}, Part: true, Reason: askedFor(t, fmt.Sprintf("the %s authority is to be replaced", name))}
}

// personHasTo is what only an operator knows.
func personHasTo(name cke.AuthorityName) string {
	if name == cke.ServerAuthority {
		return "make all clients trust both server authorities; then: ckecli ca finish server"
	}
	return "give all clients new certificates; then: ckecli ca finish client"
}

// finishAsked: an operator says that clients are ready for the next phase.
func finishAsked(in *Input, t cke.Task) Decision {
	subject, phase, _ := strings.Cut(t.Subject, " ")
	name := cke.AuthorityName(subject)
	if !slices.Contains(cke.AuthorityNames(), name) {
		return refuse(t, cannot("there is no authority %q", subject))
	}
	r := in.Identity.Authorities.Of(name)
	switch from := cke.AuthorityPhase(phase); {
	case r.Phase != from:
		return settled(t, fmt.Sprintf("the replacement of the %s authority has already continued", name))
	case r.Next == nil || !in.Identity.Authorities.WaitsForPerson(name):
		return refuse(t, cannot("the replacement of the %s authority does not wait for an operator", name))
	}
	if waits := in.authorityWaits(name); waits != nil {
		why := cannot("the replacement of the %s authority waits for members", name)
		why.Facts, why.Try = waits, "ckecli status"
		return refuse(t, why)
	}
	return Decision{Operation: in.advance(name), Reason: askedFor(t, "clients are ready")}
}

// replacements reports the authorities that are being replaced.
func replacements(in *Input) []cke.AuthorityStatus {
	var all []cke.AuthorityStatus
	for _, name := range cke.AuthorityNames() {
		r := in.Identity.Authorities.Of(name)
		if r.Next == nil {
			continue
		}
		s := cke.AuthorityStatus{Name: name, Phase: r.Phase, Since: r.Since, By: r.By, Waits: in.authorityWaits(name)}
		if s.Waits == nil && in.Identity.Authorities.WaitsForPerson(name) {
			s.Waits, s.Person = []string{personHasTo(name)}, true
		}
		all = append(all, s)
	}
	return all
}
