package storage

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"cke"
)

func quietConfig(b *testing.B) Config {
	c := testConfig(b)
	c.Log = slog.New(slog.DiscardHandler)
	return c
}

// BenchmarkStartEmbedded measures until a client has been answered: on an empty directory, and on one with data.
func BenchmarkStartEmbedded(b *testing.B) {
	start := func(b *testing.B, c Config) {
		b.StartTimer()
		e := startEmbeddedStore(b, c)
		s, err := Open(b.Context(), c)
		b.StopTimer()
		if err != nil {
			b.Fatal(err)
		}
		s.Close()
		e.Close()
	}
	b.Run("fresh", func(b *testing.B) {
		b.StopTimer()
		for range b.N {
			start(b, quietConfig(b))
		}
	})
	b.Run("again", func(b *testing.B) {
		b.StopTimer()
		c := quietConfig(b)
		start(b, c)
		b.ResetTimer()
		for range b.N {
			start(b, c)
		}
	})
}

// BenchmarkCloseEmbedded measures an end with an open watch and a leader, out of a whole life.
func BenchmarkCloseEmbedded(b *testing.B) {
	var took time.Duration
	n := 0
	for b.Loop() {
		c := quietConfig(b)
		e := startEmbeddedStore(b, c)
		s := openStore(b, c)
		setCluster(b, s, "prod")
		<-s.WatchCluster(b.Context(), "prod")
		campaign(b, s, "prod", "here")
		begun := time.Now()
		s.Close()
		e.Close()
		took += time.Since(begun)
		n++
	}
	b.ReportMetric(float64(took.Microseconds())/float64(n), "µs-close/op")
}

// BenchmarkPutStatus measures one fenced write.
func BenchmarkPutStatus(b *testing.B) {
	c := quietConfig(b)
	startEmbeddedStore(b, c)
	s := openStore(b, c)
	setCluster(b, s, "prod")
	term := campaign(b, s, "prod", "here")
	status := cke.Status{Cluster: "prod", Members: make([]cke.MemberStatus, 5), Nodes: make([]cke.NodeStatus, 5)}
	for b.Loop() {
		status.Generation++
		if err := term.PutStatus(b.Context(), status); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCheck measures what stands before every effect on a node.
func BenchmarkCheck(b *testing.B) {
	c := quietConfig(b)
	startEmbeddedStore(b, c)
	s := openStore(b, c)
	setCluster(b, s, "prod")
	term := campaign(b, s, "prod", "here")
	for b.Loop() {
		if err := term.Check(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkWakeUp measures from the store's answer to a person until the cluster's loop has the new state.
func BenchmarkWakeUp(b *testing.B) {
	c := quietConfig(b)
	startEmbeddedStore(b, c)
	s, person := openStore(b, c), openStore(b, c)
	setCluster(b, s, "prod")
	states := s.WatchCluster(b.Context(), "prod")
	<-states
	var waited time.Duration
	n := 0
	for b.Loop() {
		changed := testCluster("prod")
		changed.Options.Etcd.ClientPort = 1 + n%60000
		n++
		spec, err := person.SetSpec(b.Context(), "prod", changed, nil, "me", SetOptions{})
		if err != nil {
			b.Fatal(err)
		}
		stored := time.Now()
		for (<-states).Spec.Generation < spec.Generation {
		}
		waited += time.Since(stored)
	}
	b.ReportMetric(float64(waited.Microseconds())/float64(n), "µs-wakeup/op")
}

// BenchmarkLeadThousand measures until one daemon leads 1,000 clusters.
func BenchmarkLeadThousand(b *testing.B) {
	const clusters = 1000
	b.StopTimer()
	for range b.N {
		c := quietConfig(b)
		e := startEmbeddedStore(b, c)
		s := openStore(b, c)
		for i := range clusters {
			setCluster(b, s, fmt.Sprint("c", i))
		}
		elected := make(chan error, clusters)
		b.StartTimer()
		for i := range clusters {
			go func() {
				_, err := s.Campaign(b.Context(), fmt.Sprint("c", i), "here")
				elected <- err
			}()
		}
		for range clusters {
			if err := <-elected; err != nil {
				b.Fatal(err)
			}
		}
		b.StopTimer()
		s.Close()
		e.Close()
	}
}
