package server

import (
	"fmt"
	"strconv"
	"strings"

	"cke"
	"cke/op"
)

// drift: a member runs with other options than declared. One is restarted at a time, followers first, the leader last;
// the next waits until all voters are healthy again.
func drift(in *Input) (Decision, bool) {
	for j := range inTurn(in) {
		m, there := in.listed(j)
		if _, wanted := in.declared(j); !wanted || !there || in.silent(j) {
			continue // a machine that does not answer cannot restart what runs on it; others may be seen to
		}
		next := in.Spec.Options.Etcd
		// A membership keeps its volume and its ports; new memberships get the declared ones.
		next.VolumeName, next.VolumeRoot, next.ClientPort, next.PeerPort = j.Etcd.VolumeName, j.Etcd.VolumeRoot, j.Etcd.ClientPort, j.Etcd.PeerPort
		if next.Equal(j.Etcd) {
			continue
		}
		what := difference(j.Etcd, next)
		if why := mayRun(in, next.Version); why != "" {
			return refused(fmt.Sprintf("%s is not applied: %s", what, why), cke.Problem{Code: cke.CodeNotApplied, Node: j.Node.Name(), Message: why}), true
		}
		first := firstOf(in, next.Version)
		if err := noFreshBackup(in); first && err != nil {
			return refused(fmt.Sprintf("%s is not applied: before another version there is to be a fresh backup, and %v", what, err),
				cke.Problem{Code: cke.CodeStaleBackup, Message: err.Error(), Remedy: remedy(cke.CodeStaleBackup)}), true
		}
		if g := mayRestart(in, m); g != pass {
			return refused(fmt.Sprintf("%s runs with other %s than declared, and restarting it waits: %s", j.Node.Name(), what, g),
				cke.Problem{Code: cke.CodeQuorum, Node: j.Node.Name(), Message: string(g)}), true
		}
		return Decision{Operation: op.RestartMember{Join: j, Etcd: next, Backup: first}, Reason: fmt.Sprintf("%s runs with other %s than declared", j.Node.Name(), what)}, true
	}
	return Decision{}, false
}

// difference names what differs between two descriptions of a member.
func difference(a, b cke.EtcdOptions) string {
	var all []string
	add := func(name string, differs bool) {
		if differs {
			all = append(all, name)
		}
	}
	add("version", a.Version != b.Version)
	add("image", a.Image != b.Image)
	one, two := a, b
	one.ExtraArgs, two.ExtraArgs = nil, nil
	one.Version, one.Image = two.Version, two.Image
	add("arguments", fmt.Sprint(a.ExtraArgs) != fmt.Sprint(b.ExtraArgs))
	add("limits", a.Resources != b.Resources)
	one.Resources = two.Resources
	add("environment or binds", !one.Equal(two))
	return strings.Join(all, ", ")
}

// mayRun says why no member may run a version now; "" when one may. etcd bears one minor step up, from the floor of the
// minor before, with every member on the same minor. Source: etcd docs, upgrade guides 3.6 and 3.7.
func mayRun(in *Input, version string) string {
	want, ok := parseVersion(version)
	if !ok {
		return fmt.Sprintf("%q is no version", version)
	}
	for _, e := range in.Seen.Etcd.Endpoints {
		has, ok := parseVersion(e.Version)
		switch {
		case !ok:
			return "a member has not told its version"
		case has[1] > want[1]:
			// A member that was upgraded already, while others follow, is the same step seen from the other side.
			return fmt.Sprintf("a member runs %s; going back a minor version is not done by a restart", e.Version)
		case want[1] > has[1]+1:
			return fmt.Sprintf("a member runs %s; upgrades go one minor version at a time", e.Version)
		case want[1] == has[1]+1 && has[2] < upgradeFloor(has[1]):
			return fmt.Sprintf("a member runs %s; before 3.%d every member must run 3.%d.%d or newer", e.Version, want[1], has[1], upgradeFloor(has[1]))
		}
	}
	return ""
}

// upgradeFloor is the patch level of a minor from which the next minor may be reached.
func upgradeFloor(minor int) int {
	switch minor {
	case 5:
		return 32
	case 6:
		return 11
	}
	return 0
}

func parseVersion(s string) (v [3]int, ok bool) {
	parts := strings.Split(s, ".")
	if len(parts) != 3 {
		return v, false
	}
	for i, p := range parts {
		p, _, _ = strings.Cut(p, "-")
		n, err := strconv.Atoi(p)
		if err != nil {
			return v, false
		}
		v[i] = n
	}
	return v, v[0] == 3
}
