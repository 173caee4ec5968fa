package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cke"
	"cke/op"
	"cke/quorum"
	"cke/server/strategy"
)

// Arithmetic is why a member must not be removed.
type Arithmetic struct {
	// Node is whose member would be removed.
	Node string `json:"node"`
	// Now and After count voters and those of them that are healthy.
	Now   Count `json:"now"`
	After Count `json:"after"`
	// Needed is the quorum after it.
	Needed int `json:"needed"`
	// Unhealthy describes those that are not, as "cp3 unreachable for 4m"; Replace names the first of their nodes that is
	// still declared, or is empty.
	Unhealthy []string `json:"unhealthy,omitempty"`
	Replace   string   `json:"replace,omitempty"`
}

// Count counts voters.
type Count struct {
	Members int `json:"members"`
	Healthy int `json:"healthy"`
}

// Error returns the refusal with its arithmetic.
func (a Arithmetic) Error() *cke.Error {
	now := fmt.Sprintf("now    %s, %d healthy", cke.Count(a.Now.Members, "member"), a.Now.Healthy)
	if len(a.Unhealthy) > 0 {
		now += " (" + strings.Join(a.Unhealthy, ", ") + ")"
	}
	e := &cke.Error{Code: cke.CodeQuorum, What: fmt.Sprintf("removing %s would lose quorum", a.Node), Unchanged: true,
		Facts: []string{now, fmt.Sprintf("after  %s, %d healthy; %d needed", cke.Count(a.After.Members, "member"), a.After.Healthy, a.Needed)}}
	if a.Replace != "" {
		e.Try = "ckecli replace " + a.Replace
	}
	return e
}

// stranded returns the arithmetic when the decision waits because a member that the spec no longer wants cannot leave
// without the quorum; nil when it waits for anything else, or for no more than that all be well first.
func stranded(in strategy.Input, d strategy.Decision) *Arithmetic {
	for _, node := range leaving(in, d) {
		a := Arithmetic{Node: node}
		victim := false
		for _, m := range in.Seen.Etcd.Members {
			if m.Learner {
				continue
			}
			j := joinOf(in, m)
			a.Now.Members++
			switch healthy := serves(in, m); {
			case healthy:
				a.Now.Healthy++
				victim = victim || j.Node.Name() == node
			default:
				a.unhealthy(in, m, j)
			}
		}
		a.After = Count{a.Now.Members - 1, a.Now.Healthy}
		if victim {
			a.After.Healthy--
		}
		a.Needed = quorum.Of(a.After.Members)
		if a.After.Healthy < a.Needed && a.After.Members > 0 {
			return &a
		}
	}
	return nil
}

// leaving are the nodes whose members cannot leave for the quorum gate, or because the gate lets nobody take their place
// before.
func leaving(in strategy.Input, d strategy.Decision) []string {
	var nodes []string
	adds := false
	for _, b := range d.Blockers {
		if b.Code != cke.CodeQuorum || b.Node == "" {
			continue
		}
		if wanted(in, b.Node) {
			adds = true
		} else {
			nodes = append(nodes, b.Node)
		}
	}
	if !adds {
		return nodes
	}
	for _, m := range in.Seen.Etcd.Members {
		if j := joinOf(in, m); j.ID != "" && !m.Learner && !wanted(in, j.Node.Name()) && !slices.Contains(nodes, j.Node.Name()) {
			nodes = append(nodes, j.Node.Name())
		}
	}
	return nodes
}

// wanted reports whether a node is declared to carry a member.
func wanted(in strategy.Input, name string) bool {
	n, declared := in.Spec.Node(name)
	return declared && n.ControlPlane
}

// unhealthy notes a voter that is not well.
func (a *Arithmetic) unhealthy(in strategy.Input, m cke.Member, j cke.Join) {
	if j.ID == "" {
		a.Unhealthy = append(a.Unhealthy, m.Name+" not ours")
		return
	}
	name := j.Node.Name()
	if n, declared := in.Spec.Node(name); declared && n.ControlPlane && a.Replace == "" {
		a.Replace = name
	}
	for _, s := range in.Before.Members {
		if s.Join == j.ID {
			name = fmt.Sprintf("%s %s for %s", name, s.State, short(in.Seen.ObservedAt.Sub(s.Since)))
		}
	}
	a.Unhealthy = append(a.Unhealthy, name)
}

// short is a duration in its largest unit, as users say it.
func short(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	case d >= time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	case d >= time.Minute:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	}
	return fmt.Sprintf("%ds", int(d.Seconds()))
}

func joinOf(in strategy.Input, m cke.Member) cke.Join {
	for _, j := range in.Identity.Joins {
		if m.Of(j) {
			return j
		}
	}
	return cke.Join{}
}

// serves reports whether a voter counts as healthy for the quorum gate.
func serves(in strategy.Input, m cke.Member) bool {
	return slices.ContainsFunc(in.Seen.Etcd.Endpoints, func(e cke.EndpointStatus) bool {
		return e.MemberID == m.ID && e.Healthy() && e.Linearizable
	})
}

// disturbed is what can be lost while a member that the operation names does not serve, although it does not stop.
func disturbed(in strategy.Input, spread *cke.Spread, o op.Operation) standing {
	least := unwatched
	d, names := o.(op.Disruptive)
	if !names {
		return least
	}
	voters, serving, healthy := 0, 0, map[cke.JoinID]string{} // names
	for _, m := range in.Seen.Etcd.Members {
		if m.Learner {
			continue
		}
		voters++
		if serves(in, m) {
			serving++
			j := joinOf(in, m)
			healthy[j.ID] = j.Node.Name()
		}
	}
	for _, id := range d.Disrupts() {
		left, zones := serving-quorum.Of(voters), zonesIn(spread)
		if name, serves := healthy[id]; serves {
			left--
			if spread != nil {
				away := spread.Without(name)
				zones = zonesIn(&away)
			}
		}
		least = least.least(standing{max(left, -1), zones})
	}
	return least
}
