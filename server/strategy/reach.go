package strategy

import (
	"fmt"
	"slices"
	"strings"

	"cke"
)

// Unreachable returns why members can never run the declared version, with the way that works; nil: they can, as far as is
// known. What a member reported last counts, else what is on record of it.
func Unreachable(in Input) *cke.Error {
	in.noteStarts()
	want, ok := parseVersion(in.Spec.Options.Etcd.Version)
	known := versionsOf(&in)
	if !ok || !in.Formed() || len(known) == 0 {
		return nil
	}
	oldest, newest := known[0], known[len(known)-1]
	e := &cke.Error{Code: cke.CodeVersion, What: fmt.Sprintf("etcd %s cannot be reached from %s", in.Spec.Options.Etcd.Version, oldest.text), Unchanged: true}
	switch {
	case want.Minor > oldest.v.Minor+1:
		e.Facts = []string{oldest.said(), "upgrades go one minor version at a time"}
	case want.Minor == oldest.v.Minor+1 && oldest.v.Compare(cke.UpgradeFloor(oldest.v.Minor)) < 0:
		e.Facts = []string{oldest.said(), fmt.Sprintf("before 3.%d every member must run %s or newer", want.Minor, cke.UpgradeFloor(oldest.v.Minor))}
	case want.Minor < oldest.v.Minor && (oldest.told || want.Minor < oldest.v.Minor-1) || want.Minor < leftBehind(&in) || want.Minor < newest.v.Minor-1:
		e.What = fmt.Sprintf("etcd %s cannot be reached from %s", in.Spec.Options.Etcd.Version, newest.text)
		e.Facts = []string{newest.said(), fmt.Sprintf("the data has left 3.%d: no etcd of that version starts on it any more", want.Minor)}
		e.Try = fmt.Sprintf("declare version: %s; a restore from a backup of 3.%d is the only way back to it", newest.text, want.Minor)
		return e
	default:
		return nil
	}
	e.Try = "store these versions one after the other, each once all members run the one before: " + strings.Join(wayUp(oldest.v, want, in.Spec.Options.Etcd.Version), ", ")
	return e
}

// memberVersion is the version that a member runs.
type memberVersion struct {
	node, text string
	v          cke.Version
	told       bool // by the member itself
}

func (r memberVersion) said() string {
	if r.told {
		return fmt.Sprintf("%s runs %s", r.node, r.text)
	}
	return fmt.Sprintf("%s ran %s when it was started last", r.node, r.text)
}

// versionsOf are the versions of the members, the oldest first: of those that report theirs; if none does, those on record.
func versionsOf(in *Input) []memberVersion {
	var all []memberVersion
	for _, told := range []bool{true, false} {
		for _, j := range in.Identity.Joins {
			text := j.Etcd.Version
			if told {
				text = in.reply(j).Version
			}
			if v, ok := parseVersion(text); ok && !j.StartedAt.IsZero() {
				all = append(all, memberVersion{j.Node.Name(), text, v, told})
			}
		}
		if len(all) > 0 {
			break
		}
	}
	slices.SortStableFunc(all, func(a, b memberVersion) int { return a.v.Compare(b.v) })
	return all
}

// wayUp are the versions to go through from one to another.
func wayUp(from, to cke.Version, last string) []string {
	var all []string
	if from.Compare(cke.UpgradeFloor(from.Minor)) < 0 {
		all = append(all, cke.GoodRelease(from.Minor).String())
	}
	for minor := from.Minor + 1; minor < to.Minor; minor++ {
		all = append(all, cke.GoodRelease(minor).String())
	}
	return append(all, last)
}
