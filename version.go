package cke

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
)

// Version is a release of etcd.
type Version struct{ Major, Minor, Patch int }

var threeNumbers = regexp.MustCompile(`^(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})\.(0|[1-9]\d{0,5})(-.*)?$`)

// ParseVersion reads "3.6.16"; what follows a hyphen, as in "3.7.0-rc.1", is left out.
func ParseVersion(s string) (Version, bool) {
	m := threeNumbers.FindStringSubmatch(s)
	if m == nil {
		return Version{}, false
	}
	var v Version
	for i, n := range []*int{&v.Major, &v.Minor, &v.Patch} {
		*n, _ = strconv.Atoi(m[i+1])
	}
	return v, true
}

// String returns x.y.z.
func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch) }

// Compare orders releases by age.
func (v Version) Compare(w Version) int {
	return cmp.Or(cmp.Compare(v.Major, w.Major), cmp.Compare(v.Minor, w.Minor), cmp.Compare(v.Patch, w.Patch))
}

// NewestMinor is the newest minor version of etcd 3 that cke knows.
const NewestMinor = 7

// minorFacts are what cke knows about one minor version of etcd 3: the first patch releases from which something holds. 0: all.
type minorFacts struct {
	// good has all known repairs of TLS and watch permissions. Source: etcd changelogs.
	good int
	// corrupts is the first one that does not corrupt data when it is killed under load. Source: etcd README, 3.5.0 to 3.5.2.
	corrupts int
	// upgrade may be followed by the next minor. Source: etcd docs, upgrade guides 3.6 and 3.7.
	upgrade int
	// adds a member while a quorum of the voters is connected; earlier ones want all voters. Source: etcd, mayAddMember.
	adds int
	// flags is the newest one whose arguments are in the table of clusterfile.
	flags int
}

var minors = map[int]minorFacts{
	5: {good: 33, corrupts: 3, upgrade: 32, adds: 30, flags: 35},
	6: {good: 14, upgrade: 11, adds: 11, flags: 16},
	7: {good: 1, flags: 3},
}

// GoodRelease returns the first release of 3.minor with all known fixes, as far as cke knows that minor.
func GoodRelease(minor int) Version { return Version{3, minor, minors[minor].good} }

// Corrupts reports whether a release corrupts data when it is killed under load.
func (v Version) Corrupts() bool { return v.Patch < minors[v.Minor].corrupts }

// UpgradeFloor returns the first release of 3.minor that the next minor may follow.
func UpgradeFloor(minor int) Version { return Version{3, minor, minors[minor].upgrade} }

// AddsByQuorum reports whether a release adds a member while some voters are not connected.
func (v Version) AddsByQuorum() bool { return v.Minor >= 5 && v.Patch >= minors[v.Minor].adds }

// KnownFlags returns the newest release of 3.minor whose arguments cke knows. false: it does not know that minor.
func KnownFlags(minor int) (Version, bool) {
	m, known := minors[minor]
	return Version{3, minor, m.flags}, known
}

// AlarmsReplace reports whether members of a release apply requests by the rules of the alarm that became active last, and by
// none as soon as all alarms of one kind are cleared. Later ones go by all that are active.
// Source: etcd 3.5, applierV3backend.Alarm; 3.6, uberApplier.
func (v Version) AlarmsReplace() bool { return v.Minor <= 5 }

// ReadsLegacyLog reports whether a release reads what members of 3.5 wrote into the raft log about themselves. Later
// ones panic at every start until a snapshot follows those entries, which etcd itself writes only every 10,000 or
// 100,000 entries.
// Source: etcd 3.7 apply.Apply, 3.6 v2ToV3Request, 3.5 publish; seen on nodes.
func (v Version) ReadsLegacyLog() bool { return v.Minor < 7 }

var versionTag = regexp.MustCompile(`:v?(\d+\.\d+\.\d+)\b[\w.-]*(@|$)`)

// TaggedVersion returns the version in the tag of the image that o names; "" if there is none.
func (o EtcdOptions) TaggedVersion() string {
	if m := versionTag.FindStringSubmatch(o.Image); m != nil {
		return m[1]
	}
	return ""
}

// NamedVersion returns the one that o names itself or by its image's tag; "" if it names none.
func (o EtcdOptions) NamedVersion() string {
	if o.Version != "" || o.Image == "" {
		return o.Version
	}
	return o.TaggedVersion()
}
