package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"cke"
)

// backupMetrics are figures of clusters that have a backup target; others have none of them.
type backupMetrics struct {
	ready *prometheus.GaugeVec
	rest  map[*prometheus.GaugeVec]func(*cke.BackupStatus) float64
}

func newBackupMetrics(gauge func(name, help string) *prometheus.GaugeVec) backupMetrics {
	m := backupMetrics{
		ready: gauge("backup_ready", "1 while all that the cluster held a moment ago can be restored, as far as is known."),
		rest:  map[*prometheus.GaugeVec]func(*cke.BackupStatus) float64{},
	}
	add := func(name, help string, value func(*cke.BackupStatus) float64) { m.rest[gauge(name, help)] = value }
	add("backup_full_timestamp_seconds", "When the newest full backup was begun; 0 without one.",
		func(s *cke.BackupStatus) float64 { return unix(s.Full.At) })
	add("backup_verified_timestamp_seconds", "When a backup was last restored to scratch and found right; 0: never.",
		func(s *cke.BackupStatus) float64 {
			if s.Verified == nil {
				return 0
			}
			return unix(s.Verified.At)
		})
	add("backup_revision", "Newest revision that can be restored from the backup target.",
		func(s *cke.BackupStatus) float64 { return float64(s.Revision) })
	add("backup_lag_seconds", "For how long changes have waited for the backup target.",
		func(s *cke.BackupStatus) float64 { return s.Lag })
	add("backup_lag_revisions", "How many revisions the backup target is behind.",
		func(s *cke.BackupStatus) float64 { return float64(s.LagRevisions) })
	add("backup_buffered_bytes", "Bytes that wait for the backup target.",
		func(s *cke.BackupStatus) float64 { return float64(s.Buffered) })
	return m
}

func unix(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.Unix())
}

func (m backupMetrics) status(s cke.Status) {
	if s.Backup == nil {
		m.forget(s.Cluster)
		return
	}
	ready := 0.0
	if c, _ := s.Condition(cke.CondBackupReady); c.Status == cke.True {
		ready = 1
	}
	m.ready.WithLabelValues(s.Cluster).Set(ready)
	for g, value := range m.rest {
		g.WithLabelValues(s.Cluster).Set(value(s.Backup))
	}
}

func (m backupMetrics) forget(cluster string) {
	m.ready.DeleteLabelValues(cluster)
	for g := range m.rest {
		g.DeleteLabelValues(cluster)
	}
}
