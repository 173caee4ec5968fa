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
				Message: fmt.Sprintf("etcd's authentication is on, and its user %s does not have the role root: members cannot be changed or compared, and no snapshot can be taken", cke.EtcdUser),
				Remedy:  fmt.Sprintf("as a user with the role root: etcdctl user add %s --no-password; etcdctl user grant-role %s root", cke.EtcdUser, cke.EtcdUser)}
		}
	}
	return nil
}

// authRefuses: etcd's authentication refuses cke. Whatever goes through etcd fails; tasks are refused, and certificates are
// renewed, since that is done on nodes.
func authRefuses(in *Input) verdict {
	p := authProblem(in)
	if p == nil {
		return pass()
	}
	for _, t := range in.Requests.Tasks {
		d := refuse(t, &cke.Error{Code: p.Code, What: p.Message, Unchanged: true, Try: p.Remedy})
		d.Task = t.ID
		return decides(d).alone()
	}
	if v := renewCertificates(in); v.Operation != nil {
		return decides(v.Decision).alone()
	}
	return wait(p.Message, *p)
}

// userAsked: an operator wants a tenant changed.
func userAsked(_ *Input, t cke.Task) Decision {
	if t.User == nil {
		return refuse(t, cannot("the task does not say which user is to be changed"))
	}
	if err := t.User.Check(); err != nil {
		return refuse(t, cannot("%v", err))
	}
	return Decision{Operation: op.ChangeUser{Order: *t.User}, Reason: askedFor(t, t.User.Reason())}
}

// authAsked: an operator wants etcd's authentication on or off.
func authAsked(in *Input, t cke.Task) Decision {
	switch t.Subject {
	case cke.AuthOn:
		if why := notWhileImporting(in, "authentication"); why != nil {
			return refuse(t, why)
		}
		return Decision{Operation: op.SetAuth{On: true}, Reason: askedFor(t, "etcd's authentication is turned on")}
	case cke.AuthOff:
		return Decision{Operation: op.SetAuth{}, Reason: askedFor(t, "etcd's authentication is turned off")}
	}
	return refuse(t, cannot("invalid value %q: want %s or %s", t.Subject, cke.AuthOn, cke.AuthOff))
}
