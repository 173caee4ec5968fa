package strategy

import (
	"cmp"
	"fmt"
	"slices"

	"cke"
	"cke/quorum"
)

// Survivor is what a member has from which a cluster can be recovered.
type Survivor struct {
	Node     string `json:"node"`
	State    string `json:"state"`
	Term     uint64 `json:"term,omitempty"`
	Applied  uint64 `json:"applied,omitempty"` // index of raft's log; 0: not known
	Revision int64  `json:"revision,omitempty"`
	DBSize   int64  `json:"dbSize,omitempty"` // bytes
	Reason   string `json:"reason,omitempty"`
	// Voter is set if the newest member list that is known has it as a voter.
	Voter bool `json:"voter"`
	// Holds is set if there may be data that can be taken.
	Holds bool `json:"holds"`
	// Apart is why the data is not this cluster's; empty: it is. Such a member is taken only if it is named.
	Apart  string `json:"apart,omitempty"`
	Chosen bool   `json:"chosen,omitempty"`
}

// Survivors returns the members and what they have, the furthest first. What one that was put aside has, or one of another cluster, is not
// what this cluster acknowledged.
func Survivors(st cke.Status, id cke.Identity) []Survivor {
	var all []Survivor
	for _, m := range st.Members {
		if m.Join == "" {
			continue
		}
		v := Survivor{Node: m.Name, State: m.State, Reason: m.Reason, Holds: m.State != "missing" && m.State != "unreachable"}
		v.Voter = slices.ContainsFunc(st.Etcd.Members, func(l cke.Member) bool { return l.ID == m.ID && !l.Learner })
		e, ok := st.Etcd.Endpoint(m.Join)
		e.Join = m.Join
		v.Apart = id.NotOurs(e)
		if ok && e.Problem == "" {
			v.Term, v.Applied, v.Revision, v.DBSize = e.RaftTerm, e.RaftApplied, e.Revision, e.DBSize
		}
		all = append(all, v)
	}
	slices.SortStableFunc(all, func(a, b Survivor) int {
		return cmp.Or(cmp.Compare(b.Applied, a.Applied), cmp.Compare(b.Term, a.Term))
	})
	return all
}

// ChooseSurvivor picks the survivor: the named one, the only one that holds anything, or the one that has applied most. nil: there
// is none, or what several hold cannot be compared because not all of them answer.
func ChooseSurvivor(all []Survivor, from string) *Survivor {
	var holders []*Survivor
	silent := 0
	for i := range all {
		v := &all[i]
		if !v.Holds {
			continue
		}
		if v.Node == from {
			return v
		}
		if v.Apart != "" {
			continue
		}
		holders = append(holders, v) // the furthest first
		if v.Applied == 0 {
			silent++
		}
	}
	if from != "" || len(holders) == 0 || len(holders) > 1 && silent > 0 {
		return nil
	}
	return holders[0]
}

// LossOf shows what a recovery can lose. Any quorum that acknowledged a write holds it: only when so many voters are left
// that every quorum has one of them, and the furthest is taken, nothing is lost. Old and foreign voters are none of those that are
// left: their data is not taken. What a member has that does not answer is not known.
func LossOf(chosen Survivor, all []Survivor, list []cke.Member) string {
	if chosen.Apart != "" {
		return fmt.Sprintf("%s is not of the cluster on record (%s): all that this cluster acknowledged and %s does not have is lost", chosen.Node, chosen.Apart, chosen.Node)
	}
	voters, left, furthest, may := 0, 0, true, false
	for _, m := range list {
		if may = may || m.Learner; !m.Learner {
			voters++
		}
	}
	for _, v := range all {
		may = may || !v.Voter
		if v.Holds && v.Apart == "" {
			if v.Voter {
				left++
			}
			furthest = furthest && (v.Node == chosen.Node || v.Applied > 0 && v.Applied <= chosen.Applied)
		}
	}
	which := fmt.Sprintf("%d of %d voters are left", left, voters)
	if voters == 0 {
		which = "it is not known which members voted"
	}
	if chosen.Applied == 0 {
		return fmt.Sprintf("%s, and it is not known what %s has applied: writes that were acknowledged shortly before it stopped may be missing, because they may be in its write-ahead log only, which is not read; "+
			"so may all that only the others have", which, chosen.Node)
	}
	most := voters
	if may { // a learner may have been promoted since
		most++
	}
	if everyQuorum := func(n int) bool { return left > n-quorum.Of(n) }; voters > 0 && furthest && everyQuorum(voters) && everyQuorum(most) {
		return fmt.Sprintf("%s, and every quorum had one of them; what %s has applied is kept", which, chosen.Node)
	}
	return fmt.Sprintf("%s: writes that the others acknowledged and %s has not applied (index %d, revision %d) are lost", which, chosen.Node, chosen.Applied, chosen.Revision)
}

// NeedsNoRecovery is the refusal of a recovery of a cluster that has its quorum. Where the operator has to judge whose data
// is right, or has put aside the member that he names, it names the way to continue from that one all the same.
func NeedsNoRecovery(cluster string, id cke.Identity, o cke.RestoreOrder) *cke.Error {
	e := &cke.Error{Code: cke.CodeCannot, What: fmt.Sprintf("cluster %s has its quorum, and needs no recovery", cluster), Unchanged: true, Try: "ckecli status"}
	aside := slices.ContainsFunc(id.Joins, func(j cke.Join) bool { return j.Apart && j.Node.Name() == o.Survivor })
	if f := id.Freeze; o.Named && (aside || f.Active() && f.Kind.NamesWrong()) {
		e.Facts = append(e.Facts, fmt.Sprintf("to continue from %s and give up what the members that serve have: ckecli pause --reason TEXT; stop these members on their nodes (docker stop); ckecli recover --from %s --no-wait; ckecli resume", o.Survivor, o.Survivor))
	}
	return e
}
