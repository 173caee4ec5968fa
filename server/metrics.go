package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"cke"
)

// Metrics are the daemon's own figures. Labels are bounded: clusters, operations, states. A nil *Metrics counts nothing.
type Metrics struct {
	ready, declared, tolerance *prometheus.GaugeVec
	leader                     *prometheus.GaugeVec
	observation                *prometheus.HistogramVec
	backups                    backupMetrics
	operations                 *prometheus.CounterVec
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
		tolerance: gauge("tolerance", "How many more voters can be lost before quorum goes; -1 without quorum."),
		leader:    gauge("leader", "1 while this daemon leads the cluster."),
		backups:   newBackupMetrics(gauge),
		observation: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "cke", Name: "observation_seconds",
			Help: "Time of one look at a cluster.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 12)}, []string{"cluster"}),
		operations: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "cke", Name: "operations_total",
			Help: "Operations that ended."}, []string{"cluster", "operation", "state"}),
		operationSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "cke", Name: "operation_seconds",
			Help: "Time of one operation.", Buckets: prometheus.ExponentialBuckets(0.05, 2, 14)}, []string{"cluster", "operation"}),
	}
	r.MustRegister(m.observation, m.operations, m.operationSeconds)
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
		m.operationSeconds.WithLabelValues(cluster, r.Operation).Observe(r.EndedAt.Sub(r.StartedAt).Seconds())
	}
}

func (m *Metrics) status(s cke.Status) {
	if m != nil {
		m.ready.WithLabelValues(s.Cluster).Set(float64(s.Ready))
		m.declared.WithLabelValues(s.Cluster).Set(float64(s.Declared))
		m.tolerance.WithLabelValues(s.Cluster).Set(float64(s.Tolerance))
		m.backups.status(s)
	}
}

// leads notes that this daemon leads the cluster, or no longer does; then its figures go.
func (m *Metrics) leads(cluster string, is bool) {
	if m == nil {
		return
	}
	if is {
		m.leader.WithLabelValues(cluster).Set(1)
		return
	}
	for _, g := range []*prometheus.GaugeVec{m.ready, m.declared, m.tolerance, m.leader} {
		g.DeleteLabelValues(cluster)
	}
	m.backups.forget(cluster)
}
