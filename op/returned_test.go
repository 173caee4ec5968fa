package op_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/op"
)

// noting is a ledger that keeps the incarnation that is stored.
type noting struct {
	*ran
}

func (n noting) UpdateIncarnation(_ context.Context, inc cke.Incarnation) error {
	n.id.Incarnation = &inc
	return nil
}

// unreached are machines that do not answer.
type unreached struct{}

func (unreached) Machine(cke.Node) cke.Machine { return goneNode{} }

type goneNode struct{ cke.Machine }

func (goneNode) Container(context.Context, cke.Join) (cke.Container, error) {
	return cke.Container{}, cke.ErrUnreachable
}

// Only the member of a node answers that the order calls destroyed, or one that the record does not know: that is on record, and the error names
// what works. Another member on record that has its address now says nothing.
func TestRestore_NotesAMemberThatAnswersOnADestroyedNode(t *testing.T) {
	gone := cke.Join{ID: "b", Node: cke.Node{Hostname: "n2", Address: "127.0.0.102"}, ClientPort: 2379, MemberID: "b2"}
	for member, noted := range map[string]bool{"b2": true, "unknown": true, "c3": false} {
		rest := &cke.Restoration{Order: cke.RestoreOrder{Destroyed: []string{"n2"}}, Fence: []cke.JoinID{"b", "c"}}
		other := gone
		other.ID, other.MemberID = "c", "c3"
		id := cke.Identity{Incarnation: &cke.Incarnation{ID: "life", State: cke.Restoring, Restore: rest}, Ended: []cke.Join{gone, other}}
		ledger := noting{&ran{id: id}}
		answer := double{EndpointStatus: cke.EndpointStatus{URL: gone.ClientURL(), MemberID: member, ClusterID: "before"}}
		e := op.Env{Ledger: ledger, Machines: unreached{}, Etcd: answer, Snapshots: hashed{}, Now: time.Now, Note: func(string) {}}
		all := slices.Concat(op.Restore{Incarnation: "life", Gone: []cke.Former{id.Former(gone)}}.Stages()...)
		err := all[slices.IndexFunc(all, func(s op.Step) bool { return s.Name == "fetch" })].Run(t.Context(), e)
		if got := ledger.id.Incarnation.Restore.Returned; noted != (err != nil) || noted != slices.Equal(got, []string{"n2"}) {
			t.Errorf("member %s: %v, noted %v", member, err, got)
		}
		var refused *cke.Error
		if noted && (!errors.As(err, &refused) || refused.Code != cke.CodeFence || !strings.Contains(refused.Try, "--without n2")) {
			t.Errorf("%v", err)
		}
	}
}

// mute is an etcd of which no member answers.
type mute struct{ cke.Etcd }

func (mute) Endpoint(_ context.Context, url string) cke.EndpointStatus {
	return cke.EndpointStatus{URL: url, Problem: "no answer"}
}

// sealing is a ledger that notes whether the deletion was sealed.
type sealing struct {
	cke.Ledger
	sealed  *bool
	sighted []cke.Sighting
}

func (s sealing) Identity(context.Context) (cke.Identity, error) {
	return cke.Identity{Sighted: s.sighted}, nil
}

func (s sealing) SealDelete(context.Context) error {
	*s.sealed = true
	return nil
}

// One of three members that was called destroyed, and that only etcd can reach, keeps no deletion waiting, unless it has a leader.
func TestDeleteCluster_LeavesAMemberThatCannotServe(t *testing.T) {
	gone := cke.Join{ID: "b", Node: cke.Node{Hostname: "n2", Address: "127.0.0.102"}, ClientPort: 2379, MemberID: "b2"}
	for name, c := range map[string]struct {
		leader string
		op.DeleteCluster
		seals   bool
		sighted []cke.Sighting
	}{
		"no quorum is left":                {"", op.DeleteCluster{}, true, nil},
		"no quorum is left, with a leader": {"c3", op.DeleteCluster{}, false, nil},
		"a quorum could be left":           {"", op.DeleteCluster{CouldServe: true}, false, nil},
		"sealed before":                    {"c3", op.DeleteCluster{Sealed: true}, true, nil},
		"it was seen since":                {"", op.DeleteCluster{CouldServe: true, Deletion: "deletion 1"}, false, []cke.Sighting{{Order: "deletion 1", Node: "n2"}}},
		"it was seen before":               {"", op.DeleteCluster{CouldServe: true, Deletion: "deletion 2"}, true, []cke.Sighting{{Order: "deletion 1", Node: "n2"}}},
		"it was seen, no quorum is left":   {"", op.DeleteCluster{Deletion: "deletion 1"}, true, []cke.Sighting{{Order: "deletion 1", Node: "n2"}}},
	} {
		var sealed bool
		answer := double{mute{}, cke.EndpointStatus{URL: gone.ClientURL(), MemberID: "b2", ClusterID: "c", LeaderID: c.leader}}
		e := op.Env{Ledger: sealing{nil, &sealed, c.sighted}, Machines: unreached{}, Etcd: answer, Now: time.Now, Note: func(string) {}}
		if c.sighted != nil { // away again
			e.Etcd = mute{}
		}
		c.Gone = append(c.Gone, gone)
		all := slices.Concat(c.Stages()...)
		err := all[slices.IndexFunc(all, func(s op.Step) bool { return s.Name == "seal" })].Run(t.Context(), e)
		if sealed != c.seals || sealed != (err == nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
