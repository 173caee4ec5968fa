package strategy

import (
	"fmt"
	"strings"

	"cke"
)

// driftOf names each way in which a member does not run as declared, or not as is on record, from what to what.
func driftOf(in *Input, j cke.Join) []string {
	var all []string
	if _, wanted := in.declared(j); wanted && in.Formed() {
		is, want := j.Etcd, in.optionsOf(j)
		values := map[string][2]string{ // of those that can be told in a word
			"version": {is.Version, want.Version}, "image": {is.Image, want.Image}, "limits": {limits(is.Resources), limits(want.Resources)},
			"arguments": {fmt.Sprint(is.ExtraArgs), fmt.Sprint(want.ExtraArgs)},
		}
		for _, name := range is.Differences(want) {
			switch v, told := values[name]; {
			case name == "image" && is.Version != want.Version: // it follows from the version
			case told:
				all = append(all, fmt.Sprintf("%s: %s, declared %s", name, v[0], v[1]))
			default:
				all = append(all, name+": not as declared")
			}
		}
	}
	for _, unlike := range []string{unlikeRecord(in, j), limitsByHand(in, j), limitsDiscarded(in, j), versionByHand(in, j)} {
		if unlike != "" {
			all = append(all, unlike)
		}
	}
	return all
}

func limits(r cke.Resources) string {
	var all []string
	if r.CPUs != 0 {
		all = append(all, fmt.Sprintf("%g CPUs", r.CPUs))
	}
	if r.Memory != 0 {
		all = append(all, r.Memory.String())
	}
	if all == nil {
		return "none"
	}
	return strings.Join(all, " and ")
}

// unlikeRecord reports that the container that runs is not the one that is on record; empty: it is, or that is not known. A
// start, or a write to the store, that was given up may land after another one.
func unlikeRecord(in *Input, j cke.Join) string {
	c, there := in.node(j.Node).Of(j.ID)
	if !there || !c.Running() && c.State != cke.ContainerRestarting || c.MadeWith(j.Etcd) {
		return ""
	}
	return "its container was made with other options than are on record"
}

// misplacedContainer reports that there is no quorum and a container runs, or is started again and again, that was made for another place
// than the one on record, so that nobody reaches its member: nobody is hurt when it stops. Empty: it is not so, or not known, or the record is older,
// or the member serves there with other voters: there is a quorum then, of members that are asked at their former places. The only voter of a cluster is moved all the same.
func misplacedContainer(in *Input, j cke.Join) string {
	e, _ := in.Seen.Etcd.Endpoint(j.ID)
	c, there := in.node(j.Node).Of(j.ID)
	if in.Seen.Etcd.Quorate || !there || c.State != cke.ContainerRunning && c.State != cke.ContainerRestarting || c.StandsAt(j) || e.Problem == "" || in.votesElsewhere(c) || in.servesElsewhere(func(e cke.Elsewhere) bool { return e.Join == j.ID && cke.CountVoters(e.Members) > 1 }) {
		return ""
	}
	return fmt.Sprintf("its container was made for %s", c.Place)
}

// versionOf is the version that a member runs, as far as that is known.
func versionOf(in *Input, j cke.Join) string {
	e := in.reply(j)
	if e.Version != "" && unlikeRecord(in, j) != "" {
		return e.Version
	}
	return j.Etcd.Version
}

// runsInstead is the version that a member is known to run, with its container's image, where it is not that on record.
func runsInstead(in *Input, j cke.Join) (version, image string) {
	if version = versionOf(in, j); version == j.Etcd.Version {
		return "", ""
	}
	c, _ := in.node(j.Node).Of(j.ID)
	return version, c.Image
}

// limitsByHand reports that somebody gave a member's container other limits than it was made with; empty: nobody did.
func limitsByHand(in *Input, j cke.Join) string {
	c, there := in.node(j.Node).Of(j.ID)
	if !there || !c.Running() || j.Etcd.Resources.Of(c) || !c.MadeWith(j.Etcd) || j.Made != nil && j.Made.Of(c) {
		return ""
	}
	return fmt.Sprintf("limits: its container was given %s outside cke, and was created with %s", limits(cke.Resources{CPUs: c.CPUs, Memory: cke.Size(c.Memory)}), limits(j.Etcd.Resources))
}

// limitsDiscarded reports that the engine did not keep the limits that a member's container was created with; empty: it did.
// A restart would not change it.
func limitsDiscarded(in *Input, j cke.Join) string {
	c, there := in.node(j.Node).Of(j.ID)
	if !there || !c.Running() || j.Made == nil || !j.Made.Of(c) || j.Etcd.Resources.Of(c) || !c.MadeWith(j.Etcd) {
		return ""
	}
	return fmt.Sprintf("limits: its container was created with %s, and the engine applied %s", limits(j.Etcd.Resources), limits(*j.Made))
}

// versionByHand reports that a member runs another version than its image is declared to hold; empty: it does not, or has not
// told. A restart would not change it.
func versionByHand(in *Input, j cke.Join) string {
	e := in.reply(j)
	c, there := in.node(j.Node).Of(j.ID)
	if e.Version == "" || e.Version == j.Etcd.Version || !there || c.Image != j.Etcd.Image {
		return ""
	}
	return fmt.Sprintf("version: etcd reports %s, and %s is declared to be %s", e.Version, j.Etcd.Image, j.Etcd.Version)
}

// byHandProblem reports what somebody changed behind cke's back, or landed there late; nil: nothing.
func byHandProblem(in *Input, j cke.Join) *cke.Problem {
	p := &cke.Problem{Code: cke.CodeNotApplied, Node: j.Node.Name()}
	if p.Message = unlikeRecord(in, j); p.Message != "" {
		p.Remedy = "cke restarts it with those declared, as for any other change"
		return p
	}
	if p.Message = limitsByHand(in, j); p.Message != "" {
		p.Remedy = "cke restarts it with those on record, as for any other change; declare other ones in options.etcd.resources"
		return p
	}
	if p.Message = limitsDiscarded(in, j); p.Message != "" {
		p.Code, p.Remedy = cke.CodeDiscarded, cke.WayOut(cke.CodeDiscarded)
		return p
	}
	if p.Message = versionByHand(in, j); p.Message != "" {
		p.Remedy = "declare options.etcd.image and version that belong together"
		return p
	}
	return nil
}
