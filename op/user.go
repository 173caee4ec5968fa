package op

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"cke"
)

// ChangeUser changes a tenant: a user of etcd that cke manages. Other users are never changed; which those are, EtcdUsers.Tenant says.
type ChangeUser struct{ Order cke.UserOrder }

var _ Operation = ChangeUser{}

// Name implements Operation.
func (ChangeUser) Name() string { return "change-user" }

// Targets implements Operation.
func (ChangeUser) Targets() []string { return nil }

// Stages implements Operation.
func (c ChangeUser) Stages() []Stage {
	return []Stage{{{Name: c.Order.Action, Limit: usersLimit, Run: c.change}}}
}

func (c ChangeUser) change(ctx context.Context, e Env) error {
	var refusal error
	err := throughAny(ctx, e, func(url string) error {
		u, err := e.Etcd.Users(ctx, url)
		if err != nil {
			return err
		}
		if refusal = c.refusal(u); refusal != nil {
			return nil
		}
		return c.make(ctx, e.Etcd, url, u)
	})
	return cmp.Or(refusal, err)
}

// make does what was not refused; each part of it may be repeated.
func (c ChangeUser) make(ctx context.Context, etcd cke.Etcd, url string, u cke.EtcdUsers) error {
	o := c.Order
	switch o.Action {
	case cke.UserRemove:
		return etcd.RemoveUser(ctx, url, o.Name)
	case cke.UserRevoke:
		return etcd.Forbid(ctx, url, o.Name, o.Grant().KeyRange)
	case cke.UserAdd: // one that is half made, or half removed, gets no right that was not ordered
		for _, g := range u.Roles[cke.TenantRole(o.Name)] {
			if g == o.Grant() {
				continue
			}
			if err := etcd.Forbid(ctx, url, o.Name, g.KeyRange); err != nil {
				return err
			}
		}
	}
	return etcd.Permit(ctx, url, o.Name, o.Grant())
}

// refusal says why an order is not carried out, given the users that etcd has.
func (c ChangeUser) refusal(u cke.EtcdUsers) error {
	o := c.Order
	roles, there := u.Users[o.Name]
	managed, whole := u.Tenant(o.Name)
	has := u.Roles[cke.TenantRole(o.Name)]
	switch _, left := u.Roles[cke.TenantRole(o.Name)]; {
	case there && !managed:
		return &cke.Error{Code: cke.CodeUser, What: fmt.Sprintf("etcd has a user %s that cke does not manage, and never changes", o.Name), Unchanged: true,
			Facts: []string{"its roles: " + cmp.Or(strings.Join(roles, ", "), "none")}, Try: "ckecli etcd user list"}
	case o.Action == cke.UserAdd && whole && !slices.Equal(has, []cke.Grant{o.Grant()}):
		return &cke.Error{Code: cke.CodeUser, What: fmt.Sprintf("user %s exists", o.Name), Facts: []string{"it may use " + grantsText(has)}, Unchanged: true,
			Try: "ckecli etcd user grant " + o.Name + ", to let it use other keys, too"}
	case o.Action == cke.UserRemove && (managed || left && !there):
		return nil
	case o.Action != cke.UserAdd && !managed:
		return &cke.Error{Code: cke.CodeUser, What: fmt.Sprintf("etcd has no user %s", o.Name), Unchanged: true, Try: "ckecli etcd user list"}
	case o.Action == cke.UserRevoke:
		if slices.ContainsFunc(has, func(g cke.Grant) bool { return g.KeyRange == o.Grant().KeyRange }) {
			return nil
		}
		return &cke.Error{Code: cke.CodeUser, What: fmt.Sprintf("user %s has no grant of exactly %s", o.Name, o.Grant().KeyRange), Unchanged: true,
			Facts: []string{"it may use " + grantsText(has)}, Try: "ckecli etcd user list"}
	}
	if shared := u.Sharing(o.Name, o.Grant().KeyRange); len(shared) > 0 && !o.Shared {
		return &cke.Error{Code: cke.CodeUser, What: fmt.Sprintf("%s has keys that other tenants use", o.Grant().KeyRange), Facts: shared, Unchanged: true,
			Try: "the same command with --shared, if they are to share these keys"}
	}
	return nil
}

func grantsText(grants []cke.Grant) string {
	var all []string
	for _, g := range grants {
		all = append(all, g.String())
	}
	return cmp.Or(strings.Join(all, "; "), "no key")
}
