package server

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/expfmt"

	"cke/internal/gzipped"
)

// series are those of one metric that one cluster has. A daemon may lead hundreds of clusters with hundreds of series each, most
// of which are what they were: so their text is kept, where a registry would collect, sort and write all of them anew.
type series struct {
	row    metric
	keys   []string // name and labels, as Prometheus reads them, in the order in which they appeared
	values map[string]float64
	text   []byte // nil: something has changed
}

func newSeries(row metric) *series { return &series{row: row, values: map[string]float64{}} }

// key is the name of a series, with its labels in the order of their names; le comes last.
func (s *series) key(suffix string, labels []string, le ...string) string {
	pairs := make([]string, len(labels), len(labels)+len(le))
	for i, value := range labels {
		pairs[i] = s.row.labels[i] + `="` + escaped.Replace(strings.ToValidUTF8(value, "\uFFFD")) + `"`
	}
	slices.Sort(pairs)
	for _, bound := range le {
		pairs = append(pairs, `le="`+bound+`"`)
	}
	return namespace + "_" + s.row.name + suffix + "{" + strings.Join(pairs, ",") + "}"
}

// escaped is how a value of a label is written. Source: Prometheus docs, exposition formats.
var escaped = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

func (s *series) put(key string, change func(float64) float64) {
	was, known := s.values[key]
	if !known {
		s.keys = append(s.keys, key)
	}
	if is := change(was); is != was || !known {
		s.values[key], s.text = is, nil
	}
}

func (s *series) set(value float64, labels ...string) {
	s.put(s.key("", labels), func(float64) float64 { return value })
}

func (s *series) add(more float64, labels ...string) {
	s.put(s.key("", labels), func(was float64) float64 { return was + more })
}

// first is set, unless the series has a value: two nodes may have one name for a time, and a series that comes twice voids
// the scrape.
func (s *series) first(value float64, labels ...string) {
	key := s.key("", labels)
	if _, known := s.values[key]; !known {
		s.put(key, func(float64) float64 { return value })
	}
}

// observe counts a value in the buckets of a histogram.
func (s *series) observe(value float64, bounds []float64, labels ...string) {
	for _, bound := range bounds {
		s.put(s.key("_bucket", labels, number(bound)), func(was float64) float64 { return was + truth(value <= bound) })
	}
	s.put(s.key("_bucket", labels, "+Inf"), func(was float64) float64 { return was + 1 })
	s.put(s.key("_sum", labels), func(was float64) float64 { return was + value })
	s.put(s.key("_count", labels), func(was float64) float64 { return was + 1 })
}

func number(value float64) string { return strconv.FormatFloat(value, 'g', -1, 64) }

// lines are the series as Prometheus reads them. Nobody changes them.
func (s *series) lines() []byte {
	if s.text == nil {
		for _, key := range s.keys {
			s.text = append(append(append(append(s.text, key...), ' '), number(s.values[key])...), '\n')
		}
	}
	return s.text
}

// textFormat is what metrics are written as. Source: Prometheus docs, exposition formats.
const textFormat = "text/plain; version=0.0.4; charset=utf-8"

// ServeHTTP answers a scrape.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if m == nil {
		return
	}
	var own bytes.Buffer
	families, err := m.registry.Gather()
	for _, f := range families {
		if err == nil {
			_, err = expfmt.MetricFamilyToText(&own, f)
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	gzipped.Stream(w, r, textFormat, func(w io.Writer) error {
		for _, text := range append([][]byte{own.Bytes()}, m.texts()...) {
			if _, err := w.Write(text); err != nil {
				return err
			}
		}
		return nil
	})
}

// texts are the metrics of all clusters, each metric with the series of all clusters, as the format requires.
func (m *Metrics) texts() (all [][]byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	clusters := slices.Sorted(maps.Keys(m.clusters))
	for _, name := range slices.Sorted(maps.Keys(m.rows)) {
		row := m.rows[name]
		head := "# HELP " + namespace + "_" + name + " " + row.help + "\n# TYPE " + namespace + "_" + name + " " + row.kind + "\n"
		for _, cluster := range clusters {
			if s := m.clusters[cluster][name]; s != nil && len(s.keys) > 0 {
				if head != "" {
					all, head = append(all, []byte(head)), ""
				}
				all = append(all, s.lines())
			}
		}
	}
	return all
}
