package etcdnode

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cke"
)

// hedge is when the local question is asked, while the one that needs a quorum has not been answered.
const hedge = 50 * time.Millisecond

// endpointFacts is what an observation of a member found.
type endpointFacts struct {
	status  cke.EndpointStatus
	silent  bool // it let the limit pass
	members []cke.Member
	source  cke.MembersSource
	alarms  []cke.Alarm
	raised  []cke.Alarm // as the member itself speaks of them
	asked   position    // at which members and alarms were asked for; zero: they were not
	quiet   bool        // they are from an earlier look
}

// sameNews reports whether n tells nothing that f did not tell; revisions and sizes are no news.
func (f endpointFacts) sameNews(n endpointFacts) bool {
	for _, s := range []*cke.EndpointStatus{&f.status, &n.status} {
		s.Revision, s.DBSize, s.DBSizeInUse, s.RaftIndex, s.RaftApplied = 0, 0, 0, 0, 0
	}
	f.asked, n.asked, f.quiet, n.quiet = position{}, position{}, false, false
	return reflect.DeepEqual(f, n)
}

// look is ask for the watch.
func (e *endpoint) look(ctx context.Context, old endpointFacts, _ time.Time, whole bool) endpointFacts {
	if whole {
		old = endpointFacts{}
	}
	return e.ask(ctx, true, old)
}

// ask asks the member about itself and, if all is wanted, about its cluster, within endpointLimit. What old says of the cluster is
// not asked again while etcd has replicated nothing.
func (e *endpoint) ask(ctx context.Context, all bool, old endpointFacts) (f endpointFacts) {
	err := e.safely("probe "+e.url, func() error { f = e.question(ctx, all, old); return nil })
	if err != nil {
		return endpointFacts{status: cke.EndpointStatus{URL: e.url, Problem: err.Error()}}
	}
	return f
}

// question is ask without a net under it.
func (e *endpoint) question(ctx context.Context, all bool, old endpointFacts) endpointFacts {
	ctx, cancel := context.WithTimeout(ctx, allowed(endpointLimit))
	defer cancel()
	f := endpointFacts{status: cke.EndpointStatus{URL: e.url}}
	member, err := e.acquire()
	if err != nil {
		f.status.Problem = err.Error()
		return f
	}
	defer e.release(member)
	conn := member.ClientConn
	resp, err := pb.NewMaintenanceClient(conn).Status(ctx, &pb.StatusRequest{})
	if err != nil {
		if f.fail(err) {
			e.drop(member)
		}
		return f
	}
	f.status = statusOf(e.url, resp)
	f.raised = alarmsIn(resp.Errors)
	f.status.CertNotBefore, f.status.CertNotAfter = e.certificate()
	if f.read(ctx, conn); f.silent {
		e.drop(member)
	}
	if f.status.Problem == "" && all && !f.inherit(old, member) {
		f.asked = f.position(member)
		f.askCluster(ctx, conn)
	}
	return f
}

// fail notes why the member did not answer, and returns whether it was silent. The connection to a silent one is to be
// given up: a new one tells sooner when it is back.
func (f *endpointFacts) fail(err error) (silent bool) {
	f.status.Problem = said(err, allowed(endpointLimit))
	f.silent = status.Code(err) == codes.DeadlineExceeded
	return f.silent
}

func statusOf(url string, r *pb.StatusResponse) cke.EndpointStatus {
	return cke.EndpointStatus{
		URL: url, ClusterID: hexID(r.GetHeader().GetClusterId()), MemberID: hexID(r.GetHeader().GetMemberId()),
		LeaderID: hexID(r.Leader), Learner: r.IsLearner, Version: r.Version, StorageVersion: r.StorageVersion,
		Revision: r.GetHeader().GetRevision(), DBSize: r.DbSize, DBSizeInUse: r.DbSizeInUse,
		RaftTerm: r.RaftTerm, RaftIndex: r.RaftIndex, RaftApplied: r.RaftAppliedIndex, Errors: ownErrors(r.Errors),
		NoSpace: slices.ContainsFunc(alarmsIn(r.Errors), func(a cke.Alarm) bool { return a.Kind == "NOSPACE" }),
		Corrupt: slices.ContainsFunc(alarmsIn(r.Errors), func(a cke.Alarm) bool { return a.Kind == "CORRUPT" && !a.StopsWrites() }),
	}
}

// ownErrors leaves out the alarm NOSPACE, and that by which cke stops writes, of which every member speaks: a member serves in
// spite of them, and they are reported as alarms.
func ownErrors(errs []string) []string {
	var own []string
	for _, text := range errs {
		if a := alarmsIn([]string{text}); a == nil || a[0].Kind != "NOSPACE" && !a[0].StopsWrites() {
			own = append(own, text)
		}
	}
	return own
}

// read finds out which reads succeed. A member that knows no leader, and a learner, are asked for the local one only:
// the other could not succeed.
func (f *endpointFacts) read(ctx context.Context, conn *grpc.ClientConn) {
	s := &f.status
	local := func() {
		_, denied, err := get(ctx, conn, true)
		if s.Serializable, s.Denied = err == nil, denied; err != nil {
			f.fail(err)
		}
	}
	if s.LeaderID == "" || s.Learner {
		local()
		return
	}
	type answer struct {
		header *pb.ResponseHeader
		denied bool
		err    error
	}
	quorum := make(chan answer, 1)
	go func() { // ends with ctx
		ctx, cancel := context.WithTimeout(ctx, allowed(quorumLimit))
		defer cancel()
		header, denied, err := get(ctx, conn, false)
		quorum <- answer{header, denied, err}
	}()
	timer := time.NewTimer(hedge)
	defer timer.Stop()
	asked := false
	for {
		select {
		case <-timer.C:
			asked = true
			local()
			continue
		case a := <-quorum:
			if s.Linearizable = a.err == nil; s.Linearizable {
				revision, term := f.served(ctx, conn, a.header)
				s.Revision, s.RaftTerm = max(s.Revision, revision), max(s.RaftTerm, term)
			}
			s.Denied = s.Denied || a.denied
		}
		break
	}
	switch {
	case s.Linearizable:
		s.Serializable, s.Problem, f.silent = true, "", false
	case !asked:
		local()
	}
}

// served is the revision and the raft term at which a linearizable read was answered: no member of the cluster may have told
// of a later one before. What a member says right after its start, before it has read its log again, may be from long ago.
func (f *endpointFacts) served(ctx context.Context, conn *grpc.ClientConn, header *pb.ResponseHeader) (revision int64, term uint64) {
	if header == nil { // permission was denied
		if resp, err := pb.NewMaintenanceClient(conn).Status(ctx, &pb.StatusRequest{}); err == nil {
			header = resp.Header
		}
	}
	return header.GetRevision(), header.GetRaftTerm()
}

// get reads a key that need not exist, without its value, which may be large. An answer that permission is denied proves the read as well, and has no header: it is
// given after the leader was asked.
func get(ctx context.Context, conn *grpc.ClientConn, serializable bool) (header *pb.ResponseHeader, denied bool, err error) {
	resp, err := pb.NewKVClient(conn).Range(ctx, &pb.RangeRequest{Key: []byte("health"), KeysOnly: true, Serializable: serializable})
	if status.Code(err) == codes.PermissionDenied {
		return nil, true, nil
	}
	return resp.GetHeader(), false, err
}

// askCluster asks for the member list, and for alarms if the member speaks of any: asking goes through raft, and needs
// a quorum.
func (f *endpointFacts) askCluster(ctx context.Context, conn *grpc.ClientConn) {
	if f.status.Learner {
		f.alarms = f.raised
		return // learners answer no such question
	}
	f.askRole(ctx, conn)
	resp, err := pb.NewClusterClient(conn).MemberList(ctx, &pb.MemberListRequest{Linearizable: f.status.Linearizable})
	if err == nil {
		f.members, f.source = membersOf(resp.Members), cke.MembersLocal
		if f.status.Linearizable {
			f.source = cke.MembersLinearizable
		}
	}
	if f.alarms = f.raised; f.alarms == nil || !f.status.Linearizable {
		return
	}
	if alarms, err := pb.NewMaintenanceClient(conn).Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_GET}); err == nil {
		f.alarms = nil
		for _, a := range alarms.Alarms {
			f.alarms = append(f.alarms, cke.Alarm{MemberID: strconv.FormatUint(a.MemberID, 16), Kind: a.Alarm.String()})
		}
	}
}

// askRole finds out whether etcd's authentication refuses cke what needs the role root, though it may read: by the hash at a
// revision that is never reached, for which the member asks nobody and reads nothing. Source: etcd, authMaintenanceServer.HashKV
// and mvcc, store.hashByRev.
func (f *endpointFacts) askRole(ctx context.Context, conn *grpc.ClientConn) {
	if f.status.Denied || !f.status.Linearizable {
		return
	}
	_, err := pb.NewMaintenanceClient(conn).HashKV(ctx, &pb.HashKVRequest{Revision: math.MaxInt64})
	f.status.Denied = status.Code(err) == codes.PermissionDenied
}

func membersOf(list []*pb.Member) []cke.Member {
	var out []cke.Member
	for _, m := range list {
		out = append(out, cke.Member{ID: hexID(m.ID), Name: m.Name, PeerURLs: m.PeerURLs, ClientURLs: m.ClientURLs, Learner: m.IsLearner})
	}
	return out
}

// Parts of an alarm as Status has it.
var (
	alarmKind   = regexp.MustCompile(`alarm:\s*([A-Z]+)`)
	alarmMember = regexp.MustCompile(`memberID:\s*([0-9]+)`)
)

// alarmsIn reads the alarms out of a member's errors, where Status has them as text: "memberID:1234 alarm:NOSPACE". No
// member ID is written when etcd does not know whose alarm it is.
func alarmsIn(errs []string) []cke.Alarm {
	var alarms []cke.Alarm
	for _, text := range errs {
		kind := alarmKind.FindStringSubmatch(text)
		if kind == nil {
			continue
		}
		a := cke.Alarm{MemberID: "0", Kind: kind[1]}
		if id := alarmMember.FindStringSubmatch(text); id != nil {
			if n, err := strconv.ParseUint(id[1], 10, 64); err == nil {
				a.MemberID = strconv.FormatUint(n, 16)
			}
		}
		alarms = append(alarms, a)
	}
	return alarms
}

// said is what an error of gRPC tells the operator about a question that was given so long.
func said(err error, limit time.Duration) string {
	st, ok := status.FromError(err)
	switch {
	case errors.Is(err, context.DeadlineExceeded) || ok && st.Code() == codes.DeadlineExceeded:
		return fmt.Sprintf("no answer in %s", limit)
	case !ok:
		return err.Error()
	case st.Code() == codes.Unavailable:
		text := st.Message()
		for _, prefix := range []string{"connection error: desc = ", "Error while dialing: ", "authentication handshake failed: "} {
			if i := strings.LastIndex(text, prefix); i >= 0 {
				text = text[i+len(prefix):]
			}
		}
		return strings.Trim(text, `"`)
	}
	return st.Message()
}
