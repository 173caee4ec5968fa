package cke

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// EtcdRoot is the user without which etcd does not turn authentication on, and the role that may do everything. The role
// is there by itself. Source: etcd, authStore.AuthEnable and UserGrantRole.
const EtcdRoot = "root"

// clientName is what a client may be called; it is part of file names.
var clientName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._@-]{0,63}$`)

// CheckClientName reports what is wrong with the name of a client: the common name of its certificate, and its user.
func CheckClientName(name string) error {
	if !clientName.MatchString(name) || name == "ca" {
		return fmt.Errorf("invalid name %q of a client: want letters, digits and . _ @ - up to 64, and not \"ca\"", name)
	}
	return nil
}

// Actions of a UserOrder.
const (
	UserAdd    = "add"
	UserGrant  = "grant"
	UserRevoke = "revoke"
	UserRemove = "remove"
)

// UserOrder is what TaskUser changes about a tenant: a user of etcd that cke manages.
type UserOrder struct {
	Action string `json:"action"`
	Name   string `json:"name"`
	// Prefix is that of the keys which it is about, or Key the only one; empty in both: UserRemove.
	Prefix   string `json:"prefix,omitempty"`
	Key      string `json:"key,omitempty"`
	ReadOnly bool   `json:"readOnly,omitempty"`
	// Shared: the operator accepted that other tenants may use these keys, too.
	Shared bool `json:"shared,omitempty"`
}

// mostKey bounds a prefix and a key, in bytes.
const mostKey = 512

// Check reports what is wrong with an order, whatever etcd has.
func (o UserOrder) Check() error {
	if err := CheckClientName(o.Name); err != nil {
		return err
	}
	if o.Name == EtcdUser || o.Name == EtcdRoot {
		return fmt.Errorf("the name %q is reserved: `ckecli etcd auth enable` sets that user up", o.Name)
	}
	keys := o.Prefix + o.Key
	switch {
	case !slices.Contains([]string{UserAdd, UserGrant, UserRevoke, UserRemove}, o.Action):
		return fmt.Errorf("invalid action %q", o.Action)
	case o.Action == UserRemove && keys == "":
		return nil
	case o.Action == UserRemove || o.Prefix != "" && o.Key != "":
		return fmt.Errorf("%s of a user takes one of prefix and key, and remove takes none", o.Action)
	case keys == "" || o.Prefix == "/":
		return fmt.Errorf("a tenant has a prefix that no other one has, such as /%s/", o.Name)
	case len(keys) > mostKey || !utf8.ValidString(keys) || strings.ContainsFunc(keys, unicode.IsControl):
		return fmt.Errorf("a prefix or key has up to %d bytes of text, without control characters", mostKey)
	}
	return nil
}

// Reason says what the order is for, in a record.
func (o UserOrder) Reason() string {
	switch o.Action {
	case UserRemove:
		return "user " + o.Name + " is removed"
	case UserRevoke:
		return fmt.Sprintf("user %s may no longer use %s", o.Name, o.Grant().KeyRange)
	case UserAdd:
		return fmt.Sprintf("user %s is added, for %s", o.Name, o.Grant())
	}
	return fmt.Sprintf("user %s may use %s", o.Name, o.Grant())
}

// Grant is what the order permits or withdraws.
func (o UserOrder) Grant() Grant {
	r := KeyRange{Key: o.Key}
	if o.Key == "" {
		r = PrefixRange(o.Prefix)
	}
	return Grant{KeyRange: r, Read: true, Write: !o.ReadOnly}
}

// noEnd is the end of a range that contains all keys from its first one on.
const noEnd = "\x00"

// KeyRange is the keys of etcd from Key up to End, which is not included; an empty End means Key alone, and "\x00" that
// there is no end. Source: etcd, RangeRequest.
type KeyRange struct{ Key, End string }

// PrefixRange is the keys with a prefix of valid UTF-8, which is not empty.
func PrefixRange(prefix string) KeyRange {
	last := len(prefix) - 1
	return KeyRange{prefix, prefix[:last] + string([]byte{prefix[last] + 1})}
}

// Overlaps reports whether a key is in both.
func (r KeyRange) Overlaps(other KeyRange) bool {
	return r.startsBeforeEndOf(other) && other.startsBeforeEndOf(r)
}

func (r KeyRange) startsBeforeEndOf(other KeyRange) bool {
	switch other.End {
	case "":
		return r.Key <= other.Key
	case noEnd:
		return true
	}
	return r.Key < other.End
}

// String describes the range, as "prefix /a/".
func (r KeyRange) String() string {
	switch {
	case r.End == "":
		return "key " + r.Key
	case r.End == noEnd && (r.Key == noEnd || r.Key == ""):
		return "every key"
	case r.End == noEnd:
		return fmt.Sprintf("from %q on", r.Key)
	case r.Key != "" && r == PrefixRange(r.Key):
		return "prefix " + r.Key
	}
	return fmt.Sprintf("from %q up to %q", r.Key, r.End)
}

// Grant is what a role permits.
type Grant struct {
	KeyRange
	Read, Write bool
}

// String describes what is permitted, as "prefix /a/ (read)".
func (g Grant) String() string { return fmt.Sprintf("%s (%s)", g.KeyRange, g.Rights()) }

// Rights names what is permitted.
func (g Grant) Rights() string {
	switch {
	case g.Read && g.Write:
		return "read, write"
	case g.Write:
		return "write"
	}
	return "read"
}

// EtcdUsers are the users of etcd with their roles, and the roles with what they permit.
type EtcdUsers struct {
	Users map[string][]string
	Roles map[string][]Grant
}

// tenantRole starts the name of the role that cke makes for each tenant.
const tenantRole = "cke:"

// TenantRole is the role of a tenant. It is made before the user, and removed after it: so that cke recognizes a user as
// its own, also one that is half made.
func TenantRole(user string) string { return tenantRole + user }

// Tenant reports whether there is a user that cke manages; whole: it has its role. One without roles, whose role was made, counts as half
// made: nothing distinguishes it from a user that was added while a removal of that name was interrupted.
func (u EtcdUsers) Tenant(name string) (managed, whole bool) {
	roles, there := u.Users[name]
	_, made := u.Roles[TenantRole(name)]
	whole = there && made && slices.Contains(roles, TenantRole(name))
	return whole || there && made && len(roles) == 0, whole
}

// Sharing names the other tenants that may use a key of a range, sorted, each with what it may use.
func (u EtcdUsers) Sharing(name string, r KeyRange) (others []string) {
	for role, grants := range u.Roles {
		other, is := strings.CutPrefix(role, tenantRole)
		if !is || other == name {
			continue
		}
		for _, g := range grants {
			if g.Overlaps(r) {
				others = append(others, fmt.Sprintf("%s: %s", other, g.KeyRange))
			}
		}
	}
	slices.Sort(others)
	return others
}
