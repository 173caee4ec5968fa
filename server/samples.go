package server

import (
	"math"
	"sync"
	"time"

	"cke"
)

// Bounds of the curves: a day, in 17 kB for each cluster.
const (
	sampleEvery = 30 * time.Second
	samplesKept = 2880
)

// Samples keep the last 24 hours of each cluster that this daemon leads, in memory. The zero value keeps none yet; a nil
// *Samples keeps nothing.
type Samples struct {
	mu       sync.Mutex
	clusters map[string]*samples
}

// samples are those of one cluster, in a ring with a place for each 30 s.
type samples struct {
	ring   [samplesKept]point
	newest int64  // number of the place since 1970 that was written last; 0: none was
	index  uint64 // of the raft log, when that place was first written
	at     time.Time
}

// point is one sample in six bytes: sizes and counts are kept as logarithms, to some percent.
type point struct {
	db        uint16
	tolerance uint8 // 2 more; 0: there is no sample
	lag       uint8
	took      uint8
	entries   uint8
}

// A logarithm of a count has steps of a twelfth of an octave, that of a size 1,024 steps for each.
const (
	countSteps, sizeSteps = 12, 1024
	// unit is what times and rates are counted in: tenths of a millisecond, and of an entry in a second.
	unit = 0.1
)

func packed(v, steps, most float64) float64 {
	return min(math.Round(math.Log2(1+max(v, 0))*steps), most)
}

func unpacked(v, steps float64) float64 { return math.Exp2(v/steps) - 1 }

// Of returns the samples of a cluster, oldest first, without those of times when this daemon did not lead it.
func (s *Samples) Of(cluster string, now time.Time) (all []cke.Sample) {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clusters[cluster]
	if c == nil {
		return nil
	}
	last := min(place(now), c.newest)
	for n := place(now) - samplesKept + 1; n <= last; n++ {
		p := c.ring[n%samplesKept]
		if n <= c.newest-samplesKept || p.tolerance == 0 {
			continue
		}
		all = append(all, cke.Sample{
			At: time.Unix(n*int64(sampleEvery/time.Second), 0).UTC(), Tolerance: int(p.tolerance) - 2,
			DBSize: int64(unpacked(float64(p.db), sizeSteps)), Lag: int64(math.Round(unpacked(float64(p.lag), countSteps))),
			Took: time.Duration(unpacked(float64(p.took), countSteps) * unit * float64(time.Millisecond)), Entries: unpacked(float64(p.entries), countSteps) * unit,
		})
	}
	return all
}

// place is the number of the place of a time.
func place(t time.Time) int64 { return t.Unix() / int64(sampleEvery/time.Second) }

// add takes in a status and how long its observation took. The worst of what falls into one place is kept.
func (s *Samples) add(st cke.Status, took time.Duration) {
	if s == nil || st.ObservedAt.Unix() <= 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clusters[st.Cluster]
	if c == nil {
		if s.clusters == nil {
			s.clusters = map[string]*samples{}
		}
		c = &samples{}
		s.clusters[st.Cluster] = c
	}
	n, index, size, lag := place(st.ObservedAt), uint64(0), int64(0), int64(0)
	for _, e := range st.Etcd.Endpoints {
		index = max(index, e.RaftIndex)
	}
	for _, m := range st.Members {
		size, lag = max(size, m.DBSize), max(lag, m.Lag)
	}
	p := point{tolerance: uint8(min(max(st.Tolerance, -1)+2, 255)), db: uint16(packed(float64(size), sizeSteps, math.MaxUint16)),
		lag: uint8(packed(float64(lag), countSteps, math.MaxUint8)), took: uint8(packed(float64(took)/float64(time.Millisecond)/unit, countSteps, math.MaxUint8))}
	if n != c.newest {
		for gap := max(c.newest+1, n-samplesKept+1); gap < n; gap++ {
			c.ring[gap%samplesKept] = point{} // this daemon did not lead, or the clock went on
		}
		if seconds := st.ObservedAt.Sub(c.at).Seconds(); c.index > 0 && index >= c.index && seconds > 0 && n > c.newest && seconds < 10*sampleEvery.Seconds() {
			p.entries = uint8(packed(float64(index-c.index)/seconds/unit, countSteps, math.MaxUint8))
		}
		c.newest, c.index, c.at = n, index, st.ObservedAt
		c.ring[n%samplesKept] = p
		return
	}
	was := c.ring[n%samplesKept]
	p.entries, p.tolerance = was.entries, min(was.tolerance, p.tolerance)
	p.lag, p.took = max(was.lag, p.lag), max(was.took, p.took)
	c.ring[n%samplesKept] = p
}

// forget drops the samples of a cluster that is gone.
func (s *Samples) forget(cluster string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.clusters, cluster)
}
