package server

import (
	"math"
	"testing"
	"time"
	"unsafe"

	"cke"
)

// What is sampled comes back within some percent, oldest first, for a day, without what lies between two terms.
func TestSamples_KeepADayAndItsGaps(t *testing.T) {
	start := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	var s Samples
	sample := func(after time.Duration, tolerance int, index uint64, lag int64, took time.Duration) {
		s.add(cke.Status{Cluster: "prod", ObservedAt: start.Add(after), Tolerance: tolerance, Etcd: cke.EtcdStatus{Endpoints: []cke.EndpointStatus{{RaftIndex: index}}},
			Members: []cke.MemberStatus{{DBSize: 105_000_000, Lag: -1}, {DBSize: 84_000_000, Lag: lag}}}, took)
	}
	sample(0, 1, 1000, 0, 20*time.Millisecond)
	sample(10*time.Second, 0, 1100, 400, 3*time.Second) // the worst of one place
	sample(20*time.Second, 1, 1200, 0, 20*time.Millisecond)
	sample(30*time.Second, 1, 4000, 0, 20*time.Millisecond)
	sample(10*time.Minute, -1, 9000, 0, 20*time.Millisecond)
	all := s.Of("prod", start.Add(10*time.Minute))
	if len(all) != 3 || !all[0].At.Equal(start) || !all[2].At.Equal(start.Add(10*time.Minute)) {
		t.Fatalf("%+v", all)
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > want*0.06 {
			t.Errorf("%s is %v, want about %v", what, got, want)
		}
	}
	near("size", float64(all[0].DBSize), 105e6)
	near("lag", float64(all[0].Lag), 400)
	near("time", all[0].Took.Seconds(), 3)
	near("time", all[1].Took.Seconds(), 0.02)
	near("rate", all[1].Entries, 100)
	if all[0].Tolerance != 0 || all[1].Tolerance != 1 || all[2].Tolerance != -1 || all[1].Lag != 0 || all[2].Entries != 0 {
		t.Errorf("%+v", all)
	}
	if all := s.Of("prod", start.Add(24*time.Hour)); len(all) != 2 {
		t.Errorf("a day later %d are left", len(all))
	}
	sample(49*time.Hour, 1, 9000, 0, time.Second)
	sample(48*time.Hour, 1, 9000, 0, time.Second) // the clock was set back
	if all := s.Of("prod", start.Add(49*time.Hour)); len(all) == 0 || len(all) > 2 {
		t.Errorf("%+v", all)
	}
	if size := unsafe.Sizeof(samples{}) * 100; size > 2<<20 {
		t.Errorf("100 clusters take %d bytes", size)
	}
	s.forget("prod")
	if all := s.Of("prod", start); all != nil {
		t.Errorf("%+v", all)
	}
}
