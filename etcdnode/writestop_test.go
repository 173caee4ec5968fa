package etcdnode

import (
	"strconv"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"cke"
)

// While a restore is prepared, that writes are stopped is told by members of the cluster that it is to replace.
func TestObserve_TellsThatWritesAreStopped(t *testing.T) {
	t.Parallel()
	ca := NewTestCA(t)
	stop := cke.WriteStop("life", 1)
	id, err := strconv.ParseUint(stop.MemberID, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	for state, want := range map[cke.IncarnationState]int{cke.Restoring: 1, cke.Formed: 0} {
		m := newFakeEtcd(t, ca.TLS("server", "127.0.0.1"))
		m.status.Errors = []string{"memberID:" + strconv.FormatUint(id, 10) + " alarm:CORRUPT ", "memberID:161 alarm:NOSPACE "}
		m.alarms = []*pb.AlarmMember{{MemberID: id, Alarm: pb.AlarmType_CORRUPT}, {MemberID: 161, Alarm: pb.AlarmType_NOSPACE}}
		f := etcdFleet(t, ca)
		f.Update(cke.Cluster{Name: "demo"}, cke.Identity{Joins: []cke.Join{joinOn(m, "a")}, Incarnation: &cke.Incarnation{ID: "life", State: state, ClusterID: "c2",
			Restore: &cke.Restoration{Before: &cke.Incarnation{ID: "before", State: cke.Formed, ClusterID: "c1"}}}})
		o := f.Observe(t.Context()).Etcd
		if len(o.Alarms) != want || want > 0 && o.Alarms[0] != stop || o.Quorate {
			t.Errorf("%s: %+v", state, o)
		}
	}
}
