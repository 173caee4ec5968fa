package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"cke"
)

// Metrics are the daemon's own figures. Labels are bounded: clusters, operations, states. A nil *Metrics counts nothing.
type Metrics struct {
	ready, declared, tolerance *prometheus.GaugeVec
	quorum                     *prometheus.GaugeVec
	leader                     *prometheus.GaugeVec
	observation                *prometheus.HistogramVec
	backups                    backupMetrics
	operations, failed         *prometheus.CounterVec
	operationSeconds           *prometheus.HistogramVec
}

// NewMetrics registers the figures.
func NewMetrics(r prometheus.Registerer) *Metrics {
	gauge := func(name, help string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "cke", Name: name, Help: help}, []string{"cluster"})
		r.MustRegister(g)
		return g
	}
	m := &Metrics{
		ready:     gauge("members_ready", "Declared members that serve."),
		declared:  gauge("members_declared", "Members that the cluster file declares."),
		tolerance: gauge("tolerance", "How many more voters can be lost before quorum goes; -1 without quorum, or while none can be seen."),
		quorum:    gauge("quorum", "1 with a quorum, 0 without one, -1 while members that could form one cannot be seen."),
		leader:    gauge("leader", "1 while this daemon leads the cluster, 0 while it does not."),
		backups:   newBackupMetrics(gauge),
		observation: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "cke", Name: "observation_seconds",
			Help: "Time of one look at a cluster.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 12)}, []string{"cluster"}),
		operations: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "cke", Name: "operations_total",
			Help: "Operations that ended."}, []string{"cluster", "operation", "state"}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "cke", Name: "operations_failed_total",
			Help: "Operations that failed; 0 from the moment this daemon leads the cluster."}, []string{"cluster"}),
		operationSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "cke", Name: "operation_seconds",
			Help: "Time of one operation.", Buckets: prometheus.ExponentialBuckets(0.05, 2, 14)}, []string{"cluster", "operation"}),
	}
	r.MustRegister(m.observation, m.operations, m.failed, m.operationSeconds)
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
	if m != nil {
		m.ready.WithLabelValues(s.Cluster).Set(float64(s.Ready))
		m.declared.WithLabelValues(s.Cluster).Set(float64(s.Declared))
		m.tolerance.WithLabelValues(s.Cluster).Set(float64(s.Tolerance))
		quorum, _ := s.Condition(cke.CondQuorate)
		m.quorum.WithLabelValues(s.Cluster).Set(map[cke.Truth]float64{cke.True: 1, cke.Unknown: -1}[quorum.Status])
		m.backups.status(s)
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
	for _, g := range []*prometheus.GaugeVec{m.ready, m.declared, m.tolerance, m.quorum} {
		g.DeleteLabelValues(cluster)
	}
	m.backups.forget(cluster)
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
