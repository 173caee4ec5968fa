package strategy

import (
	"fmt"
	"slices"
	"time"

	"cke"
	"cke/op"
)

const (
	// purgeAgain is the pause after a removal that failed.
	purgeAgain = 5 * time.Minute
	// freshBackup is how old the last verified backup may be for a volume to be removed at once.
	freshBackup = 48 * time.Hour
)

// pinVolumes fixes, with the end of a membership, how long its volume is kept: a policy that is edited later changes
// nothing about volumes that are archived already.
func pinVolumes(in *Input, o op.Operation) op.Operation {
	switch o := o.(type) {
	case op.RemoveMember:
		o.Volumes = in.keeps()
		return o
	case op.EndMembership:
		o.Volumes = in.keeps()
		return o
	}
	return o
}

// keeps is the policy of volumes for a membership that ends now. A clock that is behind would date its end too early.
func (in *Input) keeps() cke.VolumePolicies {
	p := in.Spec.Policies.Volumes
	if p.OnRemoval == cke.VolumeArchive {
		p.Keep += cke.Duration(in.behind())
	}
	return p
}

// expiredVolumes: the time of an archived volume is over, by most clocks, and everything serves without it. A removal
// that was started is finished.
func expiredVolumes(in *Input) verdict {
	expired := in.Identity.Expired(in.Seen.ObservedAt)
	if expired == nil || !in.Formed() || !everyoneServes(in) {
		return pass()
	}
	sure := ClocksIn(in.Seen).sure()
	for _, j := range expired {
		if n := in.node(j.Node); !n.Answered() || !backedUp(in, j) || !sure && j.PurgedAt.IsZero() {
			continue
		}
		return act(op.PurgeVolume{Join: in.reached(j)}, fmt.Sprintf("volume %s on %s is of a membership that ended, and its time is over", j.Volume, j.Node.Name())).patient(purgeAgain).upkeep()
	}
	return pass()
}

// learnerVolumes: a learner was withdrawn, and its volume is still there. It holds nothing that the voters do not hold, and the
// next one on the node gets a volume of its own: kept ones would fill the disk.
func learnerVolumes(in *Input) verdict {
	if !in.Formed() || !in.Seen.Etcd.Quorate {
		return pass()
	}
	for _, j := range in.Identity.Ended {
		if !j.Copied() || !j.RemovedAt.IsZero() || j.KeepUntil.IsZero() || !in.node(j.Node).Answered() {
			continue
		}
		return act(op.PurgeVolume{Join: in.reached(j)}, fmt.Sprintf("volume %s on %s is of a learner that never voted; the voters hold all of it", j.Volume, j.Node.Name())).patient(purgeAgain)
	}
	return pass()
}

// backedUp reports whether a volume may be removed as far as backups are concerned. One that was archived for a while
// may; one that is to be deleted at once needs a backup that is known to be good, where backups are taken at all.
func backedUp(in *Input, j cke.Join) bool {
	if in.Spec.Backup.Target == "" || !j.PurgedAt.IsZero() || j.KeepUntil.After(j.EndedAt) {
		return true
	}
	b := in.Backup
	if b == nil || b.Verified == nil || b.Stale(in.Seen.ObservedAt) != "" {
		return false
	}
	age := in.Seen.ObservedAt.Sub(b.Verified.At) // of a mark by a clock that was ahead nothing reports how old it is
	return age >= -op.ClockLimit && age <= freshBackup
}

// volumeHolder is whom a volume belongs to.
type volumeHolder struct {
	join cke.Join
	// lasts: it is that of a present member; known: its membership is on record.
	lasts, known bool
	// not is why it is none of this cluster's; empty: it is.
	not string
}

// holder finds the volume of this name. It returns false when nobody knows of one.
func (in *Input) holder(name string) (volumeHolder, bool) {
	named := func(j cke.Join) bool { return j.Volume == name }
	if i := slices.IndexFunc(in.Identity.Joins, named); i >= 0 {
		return volumeHolder{join: in.Identity.Joins[i], lasts: true, known: true}, true
	}
	if i := slices.IndexFunc(in.Identity.Ended, named); i >= 0 {
		return volumeHolder{join: in.reached(in.Identity.Ended[i]), known: true}, true
	}
	for _, n := range in.Seen.Nodes {
		for _, v := range n.Volumes {
			if v.Name != name {
				continue
			}
			h := volumeHolder{join: cke.Join{ID: v.Join, Incarnation: v.Incarnation, Node: n.Node, Volume: v.Name, Etcd: in.Spec.Options.Etcd}}
			switch {
			case v.Cluster == "":
				h.not = "it has no label of cke"
			case v.Cluster != in.Spec.Name:
				h.not = fmt.Sprintf("it belongs to cluster %s", v.Cluster)
			case !in.Identity.OnRecord(v.Incarnation, v.Join):
				if c, used := n.Of(v.Join); used {
					h.not = fmt.Sprintf("container %s uses it, and is not on record", c.Name)
				}
			}
			return h, true
		}
	}
	return volumeHolder{}, false
}

// gone reports whether the volume is known not to be on its node any more.
func (h volumeHolder) gone(in *Input) bool {
	n := in.node(h.join.Node)
	_, there := n.VolumeOf(h.join)
	return n.Answered() && !there
}

// purgeAsked removes an archived volume because an operator asked for it.
func purgeAsked(in *Input, t cke.Task) Decision {
	h, found := in.holder(t.Subject)
	tally := tallyOf(in)
	keep := func(facts ...string) Decision {
		return refuse(t, &cke.Error{Code: cke.CodeVolume, What: fmt.Sprintf("volume %s is not removed", t.Subject), Facts: facts, Unchanged: true, Try: "ckecli volume list"})
	}
	switch {
	case !found:
		return refuse(t, noVolume(t))
	case h.lasts:
		return keep(fmt.Sprintf("it holds the data of the present member on %s", h.join.Node.Name()))
	case h.not != "":
		return keep(h.not)
	case !h.join.RemovedAt.IsZero():
		return Decision{Operation: op.Settled{Task: t}, Reason: askedFor(t, fmt.Sprintf("volume %s was removed already", t.Subject))}
	case !in.Seen.Etcd.Quorate:
		return keep("the cluster has no quorum: it may be all that is left")
	case tally.Healthy < tally.Voters || tally.Pending > 0:
		return keep(fmt.Sprintf("%d of %d voters are healthy, %s: it may still be needed", tally.Healthy, tally.Voters, cke.Plural(tally.Pending, "member is being added", "members are being added")))
	}
	return Decision{Operation: op.PurgeVolume{Join: h.join, Asked: true}, Reason: askedFor(t, fmt.Sprintf("volume %s on %s is removed", t.Subject, h.join.Node.Name()))}
}

// undeleteAsked keeps an archived volume until it is purged.
func undeleteAsked(in *Input, t cke.Task) Decision {
	h, found := in.holder(t.Subject)
	no := func(what, fact string) Decision {
		return refuse(t, &cke.Error{Code: cke.CodeVolume, What: fmt.Sprintf("volume %s %s", t.Subject, what), Facts: []string{fact}, Unchanged: true, Try: "ckecli volume list"})
	}
	switch {
	case !found || !h.known || !h.join.RemovedAt.IsZero():
		return refuse(t, noVolume(t))
	case h.lasts:
		return no("is in use", "it holds the data of the present member on "+h.join.Node.Name())
	case h.gone(in):
		return no("cannot be kept", h.join.Node.Name()+" answers, and it is not there")
	case h.join.KeepUntil.IsZero() && h.join.PurgedAt.IsZero():
		return Decision{Operation: op.Settled{Task: t}, Reason: askedFor(t, fmt.Sprintf("volume %s is kept already", t.Subject))}
	case !h.join.PurgedAt.IsZero():
		return refuse(t, &cke.Error{Code: cke.CodeVolume, What: fmt.Sprintf("the removal of volume %s has started", t.Subject), Unchanged: true})
	}
	return Decision{Operation: op.UndeleteVolume{Join: h.join}, Reason: askedFor(t, fmt.Sprintf("volume %s is kept until it is purged", t.Subject))}
}

func noVolume(t cke.Task) *cke.Error {
	return &cke.Error{Code: cke.CodeCannot, What: fmt.Sprintf("there is no archived volume %s", t.Subject), Unchanged: true, Try: "ckecli volume list"}
}
