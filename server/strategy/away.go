package strategy

import (
	"fmt"
	"slices"
	"time"

	"cke"
)

// silences are the problems of a node that goes down and starts again, and of no other cause that an operator has to know.
var silences = []cke.Code{cke.CodeUnreachable, cke.CodeEngine, cke.CodeForward}

// expected returns a problem, or for that of a node which does not answer because it was taken down on purpose, that it was. What a
// rule says beside why a node does not answer stays.
func (in *Input) expected(p cke.Problem) cke.Problem {
	for _, n := range in.Seen.Nodes {
		if n.Problem == nil || n.Problem.Node != p.Node || n.Problem.Code != p.Code || n.Problem.Message != p.Message {
			continue
		}
		if away := in.away(n); away != nil {
			return *away
		}
	}
	return p
}

// away is the problem of a node that does not answer while it is taken down on purpose: by a queue, within the time that this may
// take, or by an operator with a maintenance lease; nil: it is not.
func (in *Input) away(n cke.NodeStatus) *cke.Problem {
	if n.Problem == nil || !slices.Contains(silences, n.Problem.Code) {
		return nil
	}
	if r, by := in.takenDown(n.Node); r != nil {
		p := leaseProblem(n.Node, cke.Drain{Entry: r.ID})
		p.Message = fmt.Sprintf("it does not answer while %s %ss it, since %s and until %s at the latest", byQueue(*r), r.Kind(), r.StartedAt.UTC().Format(time.RFC3339), by.UTC().Format(time.RFC3339))
		return p
	}
	for _, d := range in.leases() {
		if d.Entry == "" && in.leased(d, n.Node) {
			p := leaseProblem(n.Node, d)
			p.Message += ", and does not answer"
			return p
		}
	}
	return nil
}

// takenDown is the entry of a queue for which a node goes down now, and by when it has to be back; nil: there is none, or it is late.
func (in *Input) takenDown(n cke.Node) (r *cke.Entry, by time.Time) {
	for _, r := range in.Requests.Queued() {
		if r.Address != n.Address || !r.Acting() {
			continue
		}
		t, known := in.Spec.Turn(r, n)
		from, limit := backWithin(r, t)
		if known && (t.Lease || t.Boots) && in.waited(from) <= limit {
			return &r, from.Add(limit)
		}
	}
	return nil, time.Time{}
}

// TakenDown reports whether a node is down on purpose, or may be: it has a maintenance lease, or a queue reboots or repairs it, and
// that is not late.
func TakenDown(in *Input, n cke.Node) bool {
	r, _ := in.takenDown(n)
	return r != nil || slices.ContainsFunc(in.leases(), func(d cke.Drain) bool {
		of, _ := in.Requests.Entry(d.Entry)
		return in.leased(d, n) && !of.Acting()
	})
}
