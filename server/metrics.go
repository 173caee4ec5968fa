package server

import (
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"cke"
	"cke/op"
	"cke/server/balance"
	"cke/server/strategy"
)

const namespace = "cke"

// Metrics holds the daemon's own metrics, which figures.go lists. Labels are bounded: names of clusters, nodes and
// operations, and fixed words. A nil *Metrics counts nothing.
type Metrics struct {
	// registry has what is not of a cluster.
	registry *prometheus.Registry
	serving  prometheus.Gauge
	led      prometheus.Gauge
	handed   *prometheus.CounterVec
	store    *prometheus.HistogramVec

	// rows are the metrics of clusters, by name.
	rows     map[string]metric
	mu       sync.Mutex
	leading  map[string]bool
	clusters map[string]map[string]*series // by cluster, then by name of the metric
}

// Bounds of the buckets of histograms.
var (
	storeBounds       = prometheus.ExponentialBuckets(0.0005, 2, 14)
	observationBounds = prometheus.ExponentialBuckets(0.001, 2, 12)
	operationBounds   = prometheus.ExponentialBuckets(0.05, 2, 14)
)

// NewMetrics makes the metrics of a daemon of this version, and of what collects metrics of the process.
func NewMetrics(version string, process ...prometheus.Collector) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), rows: map[string]metric{}, leading: map[string]bool{}, clusters: map[string]map[string]*series{}}
	for _, s := range sections() {
		for _, row := range s.rows {
			m.rows[row.name] = row
		}
	}
	newGauge := func(row metric) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: row.name, Help: row.help}, row.labels)
	}
	build, serving, store := newGauge(m.rows["build_info"]), newGauge(m.rows["serving"]), m.rows["store_request_seconds"]
	build.WithLabelValues(version, runtime.Version()).Set(1)
	m.serving = serving.WithLabelValues()
	m.store = prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: store.name, Help: store.help, Buckets: storeBounds}, store.labels)
	led, handed := newGauge(m.rows["clusters_led"]), m.rows["handovers_total"]
	m.led = led.WithLabelValues()
	m.handed = prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: handed.name, Help: handed.help}, handed.labels)
	for _, reason := range balance.Reasons() {
		m.handed.WithLabelValues(string(reason))
	}
	m.registry.MustRegister(build, serving, led, m.handed, m.store)
	m.registry.MustRegister(process...)
	return m
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
	result := connected
	if err != nil {
		result = connectFailed
	}
	m.change(cluster, func(of figures) { of("node_connections_total").add(1, cluster, result) })
}

// InventoryChange counts a change of a cluster file that followed from its inventory.
func (m *Metrics) InventoryChange(cluster string, cause cke.InventoryCause) {
	m.change(cluster, func(of figures) { of("inventory_changes_total").add(1, cluster, string(cause)) })
}

// serves notes that the daemon campaigns for its clusters, or cannot.
func (m *Metrics) serves(is bool) {
	if m != nil {
		m.serving.Set(truth(is))
	}
}

func (m *Metrics) observed(cluster string, d time.Duration) {
	m.change(cluster, func(of figures) { of("observation_seconds").observe(d.Seconds(), observationBounds, cluster) })
}

func (m *Metrics) operated(cluster string, r cke.Record) {
	m.change(cluster, func(of figures) {
		of("operations_total").add(1, cluster, r.Operation, r.Outcome())
		if r.Outcome() == string(cke.RecordFailed) {
			of("operations_failed_total").add(1, cluster)
		}
		of("operation_seconds").observe(r.EndedAt.Sub(r.StartedAt).Seconds(), operationBounds, cluster, r.Operation)
	})
}

// status replaces the values that follow from the status of a cluster.
func (m *Metrics) status(in *strategy.Input, s cke.Status) {
	if m == nil {
		return
	}
	var all []*series
	for _, row := range m.rows {
		if row.of != nil {
			now := newSeries(row)
			row.of(in, s, func(value float64, labels ...string) { now.first(value, append([]string{s.Cluster}, labels...)...) })
			all = append(all, now)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.of(s.Cluster)
	for _, now := range all {
		of[now.row.name] = now
	}
}

// handedOver counts a cluster that this daemon handed over.
func (m *Metrics) handedOver(reason balance.Reason) {
	if m != nil {
		m.handed.WithLabelValues(string(reason)).Inc()
	}
}

// leads notes that this daemon leads the cluster, or no longer does; then what it knew of it goes. The figures that alarms
// rest on exist from the beginning: one that appears with its first event, or vanishes instead of being 0, raises none.
func (m *Metrics) leads(cluster string, is bool) {
	m.change(cluster, func(of figures) {
		of("operations_failed_total").add(0, cluster)
		of("leader").set(truth(is), cluster)
		if m.leading[cluster] = true; !is {
			delete(m.leading, cluster)
		}
		m.led.Set(float64(len(m.leading)))
		if !is {
			for _, s := range m.clusters[cluster] {
				if s.row.of != nil {
					delete(m.clusters[cluster], s.row.name)
				}
			}
			return
		}
		for _, name := range op.Names() {
			for _, state := range cke.Outcomes() {
				of("operations_total").add(0, cluster, name, state)
			}
		}
		for _, cause := range cke.InventoryCauses() {
			of("inventory_changes_total").add(0, cluster, string(cause))
		}
		of("node_connections_total").add(0, cluster, connected)
		of("node_connections_total").add(0, cluster, connectFailed)
	})
}

// forget drops a cluster that is not declared any more.
func (m *Metrics) forget(cluster string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.clusters, cluster)
}

// figures returns the series of a metric, of one cluster.
type figures func(name string) *series

// change changes series of a cluster.
func (m *Metrics) change(cluster string, do func(figures)) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.of(cluster)
	do(func(name string) *series {
		if of[name] == nil {
			of[name] = newSeries(m.rows[name])
		}
		return of[name]
	})
}

// of returns all series of a cluster. The caller holds the lock.
func (m *Metrics) of(cluster string) map[string]*series {
	if m.clusters[cluster] == nil {
		m.clusters[cluster] = map[string]*series{}
	}
	return m.clusters[cluster]
}
