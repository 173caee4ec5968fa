package etcdnode_test

import (
	"runtime"
	"syscall"
	"testing"
	"time"

	"cke"
)

// The figures in docs/benchmarks.md#nodes come from here: go test -run '^$' -bench . ./etcdnode/

func BenchmarkColdProbeOfThreeNodes(b *testing.B) {
	r := newRig(b, 3, nil)
	r.bootstrapBench(b)
	cluster := r.cluster
	for b.Loop() {
		b.StopTimer()
		fresh := rigOn(b, r.lab, 3, nil)
		fresh.ca, fresh.ident, fresh.cluster = r.ca, cke.Identity{}, cluster // nodes alone, as before a bootstrap
		b.StartTimer()
		fresh.update()
		o := fresh.Observe(b.Context())
		b.StopTimer()
		for _, n := range o.Nodes {
			if n.Problem != nil {
				b.Fatal(n.Problem.Message)
			}
		}
		fresh.Close()
		b.StartTimer()
	}
}

func BenchmarkWarmProbeOfThreeNodes(b *testing.B) {
	r := newRig(b, 3, nil)
	r.bootstrapBench(b)
	r.ident = cke.Identity{}
	r.update()
	r.Observe(b.Context())
	for b.Loop() {
		if o := r.Observe(b.Context()); o.Nodes[2].Problem != nil {
			b.Fatal(o.Nodes[2].Problem)
		}
	}
}

func BenchmarkWarmProbeOfThreeNodesAndMembers(b *testing.B) {
	r := newRig(b, 3, nil)
	r.bootstrapBench(b)
	r.Observe(b.Context())
	for b.Loop() {
		o := r.Observe(b.Context())
		if !o.Etcd.Quorate {
			b.Fatalf("%+v", o.Etcd)
		}
	}
}

// BenchmarkCPUOfAProbe tells what a look at one node and one member costs this process.
func BenchmarkCPUOfAProbe(b *testing.B) {
	r := newRig(b, 3, nil)
	r.bootstrapBench(b)
	r.Observe(b.Context())
	began := cpu(b)
	for b.Loop() {
		r.Observe(b.Context())
	}
	b.ReportMetric(float64((cpu(b)-began).Microseconds())/float64(b.N)/3, "cpu-µs/node")
}

func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkEndpoint(b *testing.B) {
	r := newRig(b, 1, nil)
	r.bootstrapBench(b)
	url := r.ident.Joins[0].ClientURL()
	for b.Loop() {
		if e := r.Endpoint(b.Context(), url); !e.Linearizable {
			b.Fatal(e.Problem)
		}
	}
}

func BenchmarkContainer(b *testing.B) {
	r := newRig(b, 1, nil)
	r.bootstrapBench(b)
	j := r.ident.Joins[0]
	m := r.Machine(j.Node)
	for b.Loop() {
		if _, err := m.Container(b.Context(), j); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDataOfAStoppedMember(b *testing.B) {
	r := newRig(b, 1, nil)
	r.bootstrapBench(b)
	j := r.ident.Joins[0]
	m := r.Machine(j.Node)
	if err := m.StopContainer(b.Context(), j, 10*time.Second); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if d, err := m.Data(b.Context(), j); err != nil || d != cke.DataPresent {
			b.Fatal(d, err)
		}
	}
}

func BenchmarkPutFiles(b *testing.B) {
	r := newRig(b, 1, nil)
	r.bootstrapBench(b)
	j := r.ident.Joins[0]
	m := r.Machine(j.Node)
	files := r.ca.MemberFiles(j.Node.Address, time.Now().Add(time.Hour))
	for b.Loop() {
		if err := m.PutFiles(b.Context(), j, files); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMemoryOfAConnection tells what one kept connection (SSH, engine, events, member) costs: KiB of heap and
// stacks, and goroutines.
func BenchmarkMemoryOfAConnection(b *testing.B) {
	r := newRig(b, 3, nil)
	r.bootstrapBench(b)
	const fleets = 20
	before, goroutines := memory(), runtime.NumGoroutine()
	for b.Loop() {
		var all []*rig
		for range fleets {
			f := rigOn(b, r.lab, 3, nil)
			f.ca, f.cluster, f.ident = r.ca, r.cluster, r.ident
			f.update()
			all = append(all, f)
		}
		for _, f := range all {
			f.awaitObserved(b, time.Minute, "all is well", func(o cke.Observation) bool {
				return problem(o, 0)+problem(o, 1)+problem(o, 2) == "" && o.Etcd.Quorate
			})
		}
		b.ReportMetric(float64(memory()-before)/1024/fleets/3, "KiB/connection")
		b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/fleets/3, "goroutines/connection")
		for _, f := range all {
			f.Close()
		}
	}
}

func memory() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// bootstrapBench gives the certificate authority of the rig to its members.
func (r *rig) bootstrapBench(b *testing.B) {
	b.Helper()
	r.bootstrap(b)
	if b.Failed() {
		b.FailNow()
	}
	b.ResetTimer()
}
