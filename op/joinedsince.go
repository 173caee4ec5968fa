package op

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"cke"
	"cke/quorum"
)

// storeBeforeFence is storeLast if the members that the restore stops may be stopped, before clients wait for it and after that.
func (r Restore) storeBeforeFence(ctx context.Context, e Env) error {
	for _, do := range []func(context.Context, Env) error{r.noneJoined, r.storeLast, r.noneJoined} {
		if err := do(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// asks returns the identity, and whether the members that the restore stops are asked who is in their cluster: not where nobody was served, or no member is
// left that serves.
func (r Restore) asks(ctx context.Context, e Env) (cke.Identity, bool, error) {
	id, err := r.restoring(ctx, e)
	if err != nil {
		return id, false, err
	}
	rest := id.Incarnation.Restore
	return id, !r.Started && rest.Before != nil && rest.Order.Survivor == "", nil
}

// noneJoined refuses to stop the members that the restore replaces while those that it leaves running are a quorum by their member list: an
// operator may have added foreign ones since the restore was put on record. Without a quorum each list counts that a member has, and that was read
// since.
func (r Restore) noneJoined(ctx context.Context, e Env) error {
	id, asks, err := r.asks(ctx, e)
	if err != nil || !asks {
		return err
	}
	lists, err := r.listsNow(ctx, e, id)
	if err != nil {
		return err
	}
	peers := r.peers(ctx, e, id)
	if !anyByQuorum(lists) {
		if err := r.askOutside(ctx, e, id, peers, lists); err != nil {
			return err
		}
	}
	for _, clusterID := range slices.Sorted(maps.Keys(lists)) {
		if err := r.leavesQuorum(id, lists[clusterID], peers); err != nil {
			return cmp.Or(noteOutside(ctx, e, *id.Incarnation, clusterID, lists[clusterID]), err)
		}
	}
	for clusterID, l := range lists { // what a quorum confirms takes the place of a list by which the restore waited
		if outside := cke.OfCluster(id.Incarnation.Restore.Outside, clusterID); len(outside.Members) > 0 && byQuorum(l) {
			if err := noteOutside(ctx, e, *id.Incarnation, clusterID, l); err != nil {
				return err
			}
		}
	}
	copied := id.Incarnation.OnlyCopied()
	if before := id.Incarnation.BeforeRestores(); before != nil && byQuorum(lists[before.ClusterID]) {
		return ctx.Err()
	}
	for _, l := range r.Known {
		if copied && byQuorum(lists[l.ClusterID]) {
			continue
		}
		if err := r.leavesQuorum(id, l, peers); err != nil {
			return err
		}
	}
	if copied || !anyByQuorum(lists) {
		if err := r.runsSilently(ctx, e); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// stopUnjoined stops a member that the restore replaces, unless its own member list has others by then that could be a quorum without those that the restore
// stops. Etcd accepts members until too few run, which takes a while if engines are slow.
func (r Restore) stopUnjoined(j cke.Join) Step {
	s := stopStep(j)
	stop := s.Run
	s.Run = func(ctx context.Context, e Env) error {
		if err := r.joinedLast(ctx, e, j); err != nil {
			return err
		}
		return stop(ctx, e)
	}
	return s
}

// joinedLast is the error for which stopUnjoined stops nobody. A list that cannot be read any more was read before; one that no quorum confirms any more
// counts as it is, since members that the restore stopped are why.
func (r Restore) joinedLast(ctx context.Context, e Env, j cke.Join) error {
	id, asks, err := r.asks(ctx, e)
	if err != nil || !asks {
		return err
	}
	only := r
	only.Fence = []cke.Join{j}
	lists, _ := only.listsNow(ctx, e, id)
	for clusterID, list := range lists {
		as := list
		as.Source = cke.MembersLinearizable
		if r.leavesQuorum(id, as, nil) == nil {
			continue
		}
		if err := r.leavesQuorum(id, as, r.peers(ctx, e, id)); err != nil {
			return cmp.Or(noteOutside(ctx, e, *id.Incarnation, clusterID, list), err)
		}
	}
	return ctx.Err()
}

// byQuorum reports whether a quorum confirmed a member list as it was read.
func byQuorum(l cke.MemberList) bool { return l.Source == cke.MembersLinearizable }

func notByQuorum(l cke.MemberList) bool { return !byQuorum(l) }

func anyByQuorum(lists map[string]cke.MemberList) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(lists)), byQuorum)
}

// noteOutside stores a member list by which members are not stopped: the member that has it may stop, and nobody else may know of it.
func noteOutside(ctx context.Context, e Env, inc cke.Incarnation, clusterID string, list cke.MemberList) error {
	rest := *inc.Restore
	if reflect.DeepEqual(cke.OfCluster(rest.Outside, clusterID).Members, list.Members) {
		return nil
	}
	list.ClusterID = clusterID
	rest.Outside = cke.WithList(rest.Outside, list)
	inc.Restore = &rest
	return e.Ledger.UpdateIncarnation(ctx, inc)
}

// runsSilently refuses to stop a container whose member may know of others that joined, and does not answer. Once the operator has stopped it, it is
// not asked any more.
func (r Restore) runsSilently(ctx context.Context, e Env) error {
	for _, j := range r.Fence {
		c, err := e.Machines.Machine(j.Node).Container(ctx, j)
		switch {
		case errors.Is(err, cke.ErrNotFound), err == nil && !c.Running():
			continue
		case err != nil:
			return err
		}
		if s := e.Etcd.Endpoint(ctx, cmp.Or(c.ClientURL(), j.ClientURL())); s.ClusterID == "" {
			return &cke.Error{Code: cke.CodeFence, What: "a member that the restore stops runs and does not answer, and which members its cluster has is not known", Facts: []string{
				fmt.Sprintf("container %s on %s: %s", c.Name, j.Node.Name(), s.Problem), "members that an operator added would serve beside the restored ones",
				"stop it only if no member was added outside cke: cke cannot ask it then, and would not count that member",
				"nothing was stopped; the restore continues once the member answers or is stopped"}, Try: "docker stop " + c.Name, Err: cke.ErrConflict}
		}
	}
	return ctx.Err()
}

// listsNow are the member lists of the clusters that the restore replaces, by their ids. An error: members answer, and do not say who they are.
func (r Restore) listsNow(ctx context.Context, e Env, id cke.Identity) (map[string]cke.MemberList, error) {
	lists, unread := map[string]cke.MemberList{}, map[string]error{}
	for _, j := range r.asked(id) {
		url := r.clientURL(ctx, e, id, j)
		s := e.Etcd.Endpoint(ctx, url)
		now := lists[s.ClusterID]
		if s.Learner || !replaces(id, j, s) || byQuorum(now) || isLeftover(id, j, s) {
			continue
		}
		if list, err := listAt(ctx, e, url, s.ClusterID, s.Linearizable); err == nil {
			list.At = max(list.At, s.RaftApplied)
			lists[s.ClusterID] = now.Takes(list)
		} else {
			unread[s.ClusterID] = err
		}
	}
	for clusterID, err := range unread {
		if !byQuorum(lists[clusterID]) {
			return nil, &cke.Error{Code: cke.CodeFence, What: "members that the restore is to stop answer, and their member list cannot be read", Facts: []string{
				err.Error(), "nothing was stopped; the restore continues once the list can be read"}, Try: "ckecli restore --cancel", Err: cke.ErrConflict}
		}
	}
	return lists, ctx.Err()
}

// listAt reads the member list of a cluster through one of its members: by a quorum, or as far as that member has applied it.
func listAt(ctx context.Context, e Env, url, clusterID string, linearizable bool) (list cke.MemberList, err error) {
	of := ""
	if list.Source = cke.MembersLinearizable; linearizable {
		of, list.Members, err = e.Etcd.Members(ctx, url)
	} else {
		of, list, err = e.Etcd.Listed(ctx, url)
	}
	if err == nil && of != clusterID {
		err = fmt.Errorf("cluster id %s in place of %s: %w", of, clusterID, cke.ErrConflict)
	}
	return list, err
}

// listThrough reads the member list of who answers at a URL: by a quorum if one answered, or else as far as that member has applied it.
func listThrough(ctx context.Context, e Env, url string, s cke.EndpointStatus) (cke.MemberList, error) {
	list, err := listAt(ctx, e, url, s.ClusterID, s.Linearizable)
	if err != nil && s.Linearizable {
		list, err = listAt(ctx, e, url, s.ClusterID, false)
	}
	return list, err
}

// isLeftover reports whether what answers may be of a cluster of this name that is over: it has no quorum, and only the nodes know its incarnation.
func isLeftover(id cke.Identity, j cke.Join, s cke.EndpointStatus) bool {
	before := id.Incarnation.BeforeRestores()
	return id.Incarnation.OnlyCopied() && !s.Linearizable && !before.Life(j.Incarnation) && !before.WasReplaced(j.Incarnation)
}

// asked are the memberships whose members say who is in the cluster that the restore replaces: on a new management host also those that are
// not on record.
func (r Restore) asked(id cke.Identity) []cke.Join {
	if id.Incarnation.OnlyCopied() {
		return cke.Chosen(r.Fence)
	}
	return serving(r.Fence, *id.Incarnation.Restore)
}

// clientURL is where a member is asked: on a new management host its container may have got other ports than are on record.
func (r Restore) clientURL(ctx context.Context, e Env, id cke.Identity, j cke.Join) string {
	if id.Incarnation.OnlyCopied() {
		if c, err := e.Machines.Machine(j.Node).Container(ctx, j); err == nil {
			return cmp.Or(c.ClientURL(), j.ClientURL())
		}
	}
	return j.ClientURL()
}

// replaces reports whether an answer at the place of a membership is from a cluster that the restore replaces. Where the cluster was declared to be
// restored, its id is not on record.
func replaces(id cke.Identity, j cke.Join, s cke.EndpointStatus) bool {
	if !id.Incarnation.OnlyCopied() {
		return id.Incarnation.Restore.Replaces(s.ClusterID)
	}
	return s.ClusterID != "" && s.ClusterID != id.Incarnation.ClusterID && (j.MemberID == "" || j.MemberID == s.MemberID)
}

// peers are the peer URLs of containers that the restore stops, on the nodes that they were made for, where a record does not have the id of the
// member. One that does not run is only there for that if nothing answers in its place: an operator may have added a member of their own at its URLs.
func (r Restore) peers(ctx context.Context, e Env, id cke.Identity) (urls []string) {
	for _, j := range r.Fence {
		if j.MemberID != "" && !id.Incarnation.OnlyCopied() {
			continue
		}
		c, err := e.Machines.Machine(j.Node).Container(ctx, j)
		if host, _ := cke.HostPort(c.PeerURL()); err != nil || host != j.Node.Address {
			continue
		}
		if c.Running() || e.Etcd.Endpoint(ctx, c.ClientURL()).ClusterID == "" {
			urls = append(urls, c.PeerURL())
		}
	}
	return urls
}

// LeavesQuorum is the error that members which the restore leaves running could be a quorum by a list of what it replaces, as far as the record says; nil:
// they could not.
func (r Restore) LeavesQuorum(id cke.Identity, list cke.MemberList) error {
	return r.leavesQuorum(id, list, nil)
}

// leavesQuorum is LeavesQuorum; members at some peer URLs are stopped, too.
func (r Restore) leavesQuorum(id cke.Identity, list cke.MemberList, peers []string) error {
	l := r.leaves(id, list, peers)
	of := quorum.Could(l.voters, len(l.stay)-l.learners, l.learners, !byQuorum(list))
	if of == 0 {
		return nil
	}
	facts := []string{fmt.Sprintf("%s could be %d of %d voters, and would serve beside the restored members", strings.Join(l.stay, ", "), min(len(l.stay), of), of)}
	if !byQuorum(list) {
		facts = append(facts, "no quorum confirms the member list: if the restore stopped members before it was interrupted, ckecli restore --cancel starts them again, and the restore can be ordered again")
	}
	return &cke.Error{Code: cke.CodeFence, What: "members that the restore does not stop could be a quorum of the cluster that it replaces",
		Facts: append(facts, "no further member is stopped until they are removed, and the restore continues then; if they are gone for good: ckecli restore --cancel, then restore with "+strings.Join(l.flags, " ")),
		Try:   "etcdctl member remove " + cmp.Or(strings.Join(l.foreign[:min(1, len(l.foreign))], ""), "ID"), Err: cke.ErrConflict}
}

// left are the members of a list that a restore leaves running: by name and id, with the flags that call them destroyed, and the ids of foreign ones.
// learners are those of them that may have been promoted since.
type left struct {
	voters, learners int
	stay, flags      []string
	foreign          []string // their ids
}

func (r Restore) leaves(id cke.Identity, list cke.MemberList, peers []string) (l left) {
	order := id.Incarnation.Restore.Believed()
	for _, m := range list.Members {
		if !m.Learner {
			l.voters++
		}
		stopped := slices.ContainsFunc(slices.Concat(r.Fence, id.Ended), func(j cke.Join) bool {
			stays := indexOf(r.Fence, j.ID) < 0 && slices.ContainsFunc(id.Superseded(), func(s cke.Join) bool { return s.ID == j.ID }) && id.NameIn(order.Destroyed, j) == ""
			return j.MemberID != "" && m.ID == j.MemberID && !stays
		}) || slices.ContainsFunc(m.PeerURLs, func(url string) bool { return slices.Contains(peers, url) })
		gone := slices.Contains(order.Destroyed, r.Called[m.ID]) // what was seen since is not among them any more
		switch {
		case stopped || gone:
			continue
		case m.Learner: // it may have been promoted since
			l.learners++
		}
		name := m.ID
		if i := slices.IndexFunc(id.MayRun(), func(j cke.Join) bool { return j.MemberID == m.ID }); i >= 0 {
			name = id.MayRun()[i].Node.Name()
		} else {
			l.foreign = append(l.foreign, m.ID)
		}
		l.flags = append(l.flags, "--destroyed "+name)
		l.stay = append(l.stay, fmt.Sprintf("%s (%s)", cmp.Or(m.Name, "not started"), m.ID))
	}
	return l
}

// askOutside adds what foreign members of known lists report to lists, which no quorum confirms. Its error is that of unreported, or of leavesQuorum.
func (r Restore) askOutside(ctx context.Context, e Env, id cke.Identity, peers []string, lists map[string]cke.MemberList) error {
	rest := id.Incarnation.Restore
	known := slices.Concat(r.Known, rest.Outside, []cke.MemberList{{Members: rest.Members}})
	read := slices.SortedFunc(maps.Values(lists), func(a, b cke.MemberList) int { return cmp.Compare(b.At, a.At) })
	foreign := askForeign(ctx, e, id, cke.MembersIn(slices.Concat(read, known)))
	for _, l := range foreign.lists {
		lists[l.ClusterID] = lists[l.ClusterID].Takes(l)
	}
	if anyByQuorum(lists) {
		return nil
	}
	for _, clusterID := range slices.Sorted(maps.Keys(lists)) {
		if err := r.unreported(id, lists[clusterID], peers, foreign); err != nil { // the member that has it may stop
			return cmp.Or(noteOutside(ctx, e, *id.Incarnation, clusterID, lists[clusterID]), err)
		}
	}
	for _, l := range known {
		if err := r.unreported(id, l, peers, foreign); err != nil {
			return err
		}
	}
	return nil
}

// unreported refuses to go on while no quorum confirms who is in the cluster, and a foreign member of a list does not answer: members of cke may have
// left, and others joined, since that list was read.
func (r Restore) unreported(id cke.Identity, list cke.MemberList, peers []string, foreign spoken) error {
	l := r.leaves(id, list, peers)
	if !slices.ContainsFunc(l.foreign, func(m string) bool { return !slices.Contains(foreign.answered, m) }) {
		return nil
	}
	facts := []string{fmt.Sprintf("%s: when the member list was read last, it had members that the restore does not stop", strings.Join(l.stay, ", "))}
	if led := slices.DeleteFunc(slices.Clone(l.foreign), func(m string) bool { return !slices.Contains(foreign.led, m) }); len(led) > 0 {
		facts = append(facts, fmt.Sprintf("%s: a learner that answers, and its leader is not a member of cke, or a list has it as a voter: others may serve; if none do, restart it, so that it forgets its leader", strings.Join(led, ", ")))
	}
	return &cke.Error{Code: cke.CodeFence, What: "no quorum confirms which members the cluster that the restore replaces has, and a foreign one that does not answer may serve", Facts: append(facts,
		"the restore continues once they answer, or a quorum of the members does",
		"if the restore stopped members before it was interrupted, ckecli restore --cancel starts them again, and once they run the restore can be ordered again; if the others are gone for good, with "+strings.Join(l.flags, " ")),
		Try: "ckecli status", Err: cke.ErrConflict}
}
