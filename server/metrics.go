package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"cke"
)

// gauge is a figure of a cluster that follows from its status. A metric is added here and nowhere else.
type gauge struct {
	name, help string
	// value is false where the cluster has none: it vanishes.
	value func(cke.Status) (float64, bool)
}

func gauges() []gauge {
	figure := func(of func(cke.Status) float64) func(cke.Status) (float64, bool) {
		return func(s cke.Status) (float64, bool) { return of(s), true }
	}
	backup := func(of func(*cke.BackupStatus) float64) func(cke.Status) (float64, bool) {
		return func(s cke.Status) (float64, bool) {
			if s.Backup == nil {
				return 0, false // it has no target
			}
			return of(s.Backup), true
		}
	}
	truth := func(s cke.Status, t cke.ConditionType) cke.Truth {
		c, _ := s.Condition(t)
		return c.Status
	}
	return []gauge{
		{"members_ready", "Declared members that serve.", figure(func(s cke.Status) float64 { return float64(s.Ready) })},
		{"members_declared", "Members that the cluster file declares.", figure(func(s cke.Status) float64 { return float64(s.Declared) })},
		{"tolerance", "How many more voters can be lost before quorum goes; -1 without quorum, or while none can be seen.",
			figure(func(s cke.Status) float64 { return float64(s.Tolerance) })},
		{"quorum", "1 with a quorum, 0 without one, -1 while members that could form one cannot be seen.",
			figure(func(s cke.Status) float64 {
				return map[cke.Truth]float64{cke.True: 1, cke.Unknown: -1}[truth(s, cke.CondQuorate)]
			})},
		{"backup_ready", "1 while all that the cluster held a moment ago can be restored, as far as is known.",
			func(s cke.Status) (float64, bool) {
				return map[cke.Truth]float64{cke.True: 1}[truth(s, cke.CondBackupReady)], s.Backup != nil
			}},
		{"backup_full_timestamp_seconds", "When the newest full backup was begun; 0 without one.",
			backup(func(b *cke.BackupStatus) float64 { return unix(b.Full.At) })},
		{"backup_verified_timestamp_seconds", "When a backup was last restored to scratch and found right; 0: never.",
			backup(func(b *cke.BackupStatus) float64 {
				if b.Verified == nil {
					return 0
				}
				return unix(b.Verified.At)
			})},
		{"backup_revision", "Newest revision that can be restored from the backup target.", backup(func(b *cke.BackupStatus) float64 { return float64(b.Revision) })},
		{"backup_lag_seconds", "For how long changes have waited for the backup target.", backup(func(b *cke.BackupStatus) float64 { return b.Lag })},
		{"backup_lag_revisions", "How many revisions the backup target is behind.", backup(func(b *cke.BackupStatus) float64 { return float64(b.LagRevisions) })},
		{"backup_buffered_bytes", "Bytes that wait for the backup target.", backup(func(b *cke.BackupStatus) float64 { return float64(b.Buffered) })},
	}
}

func unix(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.Unix())
}

// Metrics are the daemon's own figures. Labels are bounded: clusters, operations, states. A nil *Metrics counts nothing.
type Metrics struct {
	gauges             []gauge
	of                 []*prometheus.GaugeVec // by gauge
	leader             *prometheus.GaugeVec
	observation        *prometheus.HistogramVec
	operations, failed *prometheus.CounterVec
	operationSeconds   *prometheus.HistogramVec
}

// NewMetrics registers the figures.
func NewMetrics(r prometheus.Registerer) *Metrics {
	perCluster := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "cke", Name: name, Help: help}, []string{"cluster"})
	}
	m := &Metrics{
		gauges: gauges(),
		leader: perCluster("leader", "1 while this daemon leads the cluster, 0 while it does not."),
		observation: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "cke", Name: "observation_seconds",
			Help: "Time of one look at a cluster.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 12)}, []string{"cluster"}),
		operations: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "cke", Name: "operations_total",
			Help: "Operations that ended."}, []string{"cluster", "operation", "state"}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "cke", Name: "operations_failed_total",
			Help: "Operations that failed; 0 from the moment this daemon leads the cluster."}, []string{"cluster"}),
		operationSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "cke", Name: "operation_seconds",
			Help: "Time of one operation.", Buckets: prometheus.ExponentialBuckets(0.05, 2, 14)}, []string{"cluster", "operation"}),
	}
	for _, g := range m.gauges {
		m.of = append(m.of, perCluster(g.name, g.help))
		r.MustRegister(m.of[len(m.of)-1])
	}
	r.MustRegister(m.leader, m.observation, m.operations, m.failed, m.operationSeconds)
	return m
}

func (m *Metrics) observed(cluster string, d time.Duration) {
	if m != nil {
		m.observation.WithLabelValues(cluster).Observe(d.Seconds())
	}
}

func (m *Metrics) operated(cluster string, r cke.Record) {
	if m != nil {
		m.operations.WithLabelValues(cluster, r.Operation, r.Outcome()).Inc()
		if r.Outcome() == string(cke.RecordFailed) {
			m.failed.WithLabelValues(cluster).Inc()
		}
		m.operationSeconds.WithLabelValues(cluster, r.Operation).Observe(r.EndedAt.Sub(r.StartedAt).Seconds())
	}
}

func (m *Metrics) status(s cke.Status) {
	if m == nil {
		return
	}
	for i, g := range m.gauges {
		if v, is := g.value(s); is {
			m.of[i].WithLabelValues(s.Cluster).Set(v)
		} else {
			m.of[i].DeleteLabelValues(s.Cluster)
		}
	}
}

// leads notes that this daemon leads the cluster, or no longer does; then what it knew of it goes. The figures that alarms
// rest on exist from the beginning: one that appears with its first event, or vanishes instead of being 0, raises none.
func (m *Metrics) leads(cluster string, is bool) {
	if m == nil {
		return
	}
	m.failed.WithLabelValues(cluster).Add(0)
	if is {
		m.leader.WithLabelValues(cluster).Set(1)
		return
	}
	m.leader.WithLabelValues(cluster).Set(0)
	for _, g := range m.of {
		g.DeleteLabelValues(cluster)
	}
}

// forget drops a cluster that is not declared any more.
func (m *Metrics) forget(cluster string) {
	if m != nil {
		m.leader.DeleteLabelValues(cluster)
		m.failed.DeleteLabelValues(cluster)
		m.observation.DeletePartialMatch(prometheus.Labels{"cluster": cluster})
		m.operations.DeletePartialMatch(prometheus.Labels{"cluster": cluster})
		m.operationSeconds.DeletePartialMatch(prometheus.Labels{"cluster": cluster})
	}
}
