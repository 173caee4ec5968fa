package server

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

const namespace = "cke"

// Metrics holds the daemon's own metrics, which figures.go lists. Labels are bounded: names of clusters, nodes and
// operations, and fixed words. A nil *Metrics counts nothing.
type Metrics struct {
	serving            prometheus.Gauge
	leader             *prometheus.GaugeVec
	store              *prometheus.HistogramVec
	observation        *prometheus.HistogramVec
	connections        *prometheus.CounterVec
	operations, failed *prometheus.CounterVec
	operationSeconds   *prometheus.HistogramVec
	inventoryChanges   *prometheus.CounterVec

	ofStatus []described
	mu       sync.Mutex
	values   map[string][]prometheus.Metric // that follow from the status, by cluster that this daemon leads
}

// described is a metric that follows from a status.
type described struct {
	metric
	desc *prometheus.Desc
}

// NewMetrics registers the metrics of a daemon of this version.
func NewMetrics(r prometheus.Registerer, version string) *Metrics {
	m := &Metrics{values: map[string][]prometheus.Metric{}}
	rows := map[string]metric{}
	for _, s := range sections() {
		for _, row := range s.rows {
			rows[row.name] = row
			if row.of != nil {
				m.ofStatus = append(m.ofStatus, described{row, prometheus.NewDesc(prometheus.BuildFQName(namespace, "", row.name), row.help, row.labels, nil)})
			}
		}
	}
	newGauge := func(row metric) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: row.name, Help: row.help}, row.labels)
	}
	newCounter := func(row metric) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: row.name, Help: row.help}, row.labels)
	}
	newHistogram := func(row metric, shortest float64, buckets int) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: row.name, Help: row.help,
			Buckets: prometheus.ExponentialBuckets(shortest, 2, buckets)}, row.labels)
	}
	build := newGauge(rows["build_info"])
	build.WithLabelValues(version, runtime.Version()).Set(1)
	m.serving = newGauge(rows["serving"]).WithLabelValues()
	m.leader = newGauge(rows["leader"])
	m.store = newHistogram(rows["store_request_seconds"], 0.0005, 14)
	m.observation = newHistogram(rows["observation_seconds"], 0.001, 12)
	m.connections = newCounter(rows["node_connections_total"])
	m.operations = newCounter(rows["operations_total"])
	m.failed = newCounter(rows["operations_failed_total"])
	m.operationSeconds = newHistogram(rows["operation_seconds"], 0.05, 14)
	m.inventoryChanges = newCounter(rows["inventory_changes_total"])
	r.MustRegister(m, build, m.serving, m.leader, m.store, m.observation, m.connections, m.operations, m.failed, m.operationSeconds, m.inventoryChanges)
	return m
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(descs chan<- *prometheus.Desc) {
	for _, row := range m.ofStatus {
		descs <- row.desc
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(values chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, of := range m.values {
		for _, v := range of {
			values <- v
		}
	}
}

// StoreRequest counts a request to the store, by the method of etcd's API.
func (m *Metrics) StoreRequest(method string, took time.Duration) {
	if m != nil {
		m.store.WithLabelValues(method).Observe(took.Seconds())
	}
}

// Results of attempts to connect to nodes.
const (
	connected     = "connected"
	connectFailed = "failed"
)

// NodeConnection counts an attempt to connect to a node of a cluster; nil: it succeeded.
func (m *Metrics) NodeConnection(cluster string, err error) {
	if m == nil {
		return
	}
	result := connected
	if err != nil {
		result = connectFailed
	}
	m.connections.WithLabelValues(cluster, result).Inc()
}

// InventoryChange counts a change of a cluster file that followed from its inventory.
func (m *Metrics) InventoryChange(cluster string, cause cke.InventoryCause) {
	if m != nil {
		m.inventoryChanges.WithLabelValues(cluster, string(cause)).Inc()
	}
}

// serves notes that the daemon campaigns for its clusters, or cannot.
func (m *Metrics) serves(is bool) {
	if m != nil {
		m.serving.Set(truth(is))
	}
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

// status replaces the values that follow from the status of a cluster.
func (m *Metrics) status(in *strategy.Input, s cke.Status) {
	if m == nil {
		return
	}
	var all []prometheus.Metric
	for _, row := range m.ofStatus {
		seen := map[string]bool{} // two nodes may have one name for a time, and a series that comes twice voids the scrape
		kind := prometheus.GaugeValue
		if row.kind == counter {
			kind = prometheus.CounterValue
		}
		row.of(in, s, func(value float64, labels ...string) {
			labels = clean(slices.Concat([]string{s.Cluster}, labels))
			if key := strings.Join(labels, "\x00"); !seen[key] {
				seen[key] = true
				all = append(all, prometheus.MustNewConstMetric(row.desc, kind, value, labels...))
			}
		})
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values[s.Cluster] = all
}

// leads notes that this daemon leads the cluster, or no longer does; then what it knew of it goes. The figures that alarms
// rest on exist from the beginning: one that appears with its first event, or vanishes instead of being 0, raises none.
func (m *Metrics) leads(cluster string, is bool) {
	if m == nil {
		return
	}
	m.failed.WithLabelValues(cluster).Add(0)
	m.leader.WithLabelValues(cluster).Set(truth(is))
	if is {
		for _, name := range op.Names() {
			for _, state := range cke.Outcomes() {
				m.operations.WithLabelValues(cluster, name, state).Add(0)
			}
		}
		for _, cause := range cke.InventoryCauses() {
			m.inventoryChanges.WithLabelValues(cluster, string(cause)).Add(0)
		}
		m.connections.WithLabelValues(cluster, connected).Add(0)
		m.connections.WithLabelValues(cluster, connectFailed).Add(0)
		return
	}
	m.drop(cluster)
}

// drop removes the values that follow from the status of a cluster.
func (m *Metrics) drop(cluster string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.values, cluster)
}

// forget drops a cluster that is not declared any more.
func (m *Metrics) forget(cluster string) {
	if m == nil {
		return
	}
	m.drop(cluster)
	of := prometheus.Labels{"cluster": cluster}
	m.leader.DeletePartialMatch(of)
	m.observation.DeletePartialMatch(of)
	m.connections.DeletePartialMatch(of)
	m.operations.DeletePartialMatch(of)
	m.failed.DeletePartialMatch(of)
	m.operationSeconds.DeletePartialMatch(of)
	m.inventoryChanges.DeletePartialMatch(of)
}
