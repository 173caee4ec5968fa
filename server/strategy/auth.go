package strategy

import (
	"fmt"

	"cke"
	"cke/op"
)

// authProblem is set while etcd's authentication refuses cke: a member said so.
func authProblem(in *Input) *cke.Problem {
	for _, e := range in.replies() {
		if e.Denied {
			return &cke.Problem{Code: cke.CodeAuth,
				Message: fmt.Sprintf("etcd's authentication is on, and its user %s has not the role root: members cannot be changed or compared, and no snapshot can be taken", cke.EtcdUser),
				Remedy:  fmt.Sprintf("as a user with the role root: etcdctl user add %s --no-password; etcdctl user grant-role %s root", cke.EtcdUser, cke.EtcdUser)}
		}
	}
	return nil
}

// authRefuses: etcd's authentication refuses cke. Whatever goes through etcd fails; tasks are refused, and certificates are
// renewed, since that is done on nodes.
func authRefuses(in *Input) (Decision, bool) {
	p := authProblem(in)
	if p == nil {
		return Decision{}, false
	}
	for _, t := range in.Requests.Tasks {
		d := refuse(t, &cke.Error{Code: p.Code, What: p.Message, Unchanged: true, Try: p.Remedy})
		d.Task = t.ID
		return d, true
	}
	if d, renews := renewCertificates(in); renews && d.Operation != nil {
		return d, true
	}
	return Decision{Blockers: []cke.Problem{*p}, Reason: p.Message}, true
}

// authAsked: a person wants etcd's authentication on or off.
func authAsked(in *Input, t cke.Task) Decision {
	switch t.Subject {
	case cke.AuthOn:
		return Decision{Operation: op.SetAuth{On: true}, Reason: askedFor(t, "etcd's authentication is turned on")}
	case cke.AuthOff:
		return Decision{Operation: op.SetAuth{}, Reason: askedFor(t, "etcd's authentication is turned off")}
	}
	return refuse(t, cannot("%q is neither %s nor %s", t.Subject, cke.AuthOn, cke.AuthOff))
}
