package mtest_test

import (
	"strings"
	"testing"

	"cke/internal/golden"
	"cke/monitoring"
)

// The story itself notices that only where there are nodes and a Prometheus.
func TestAlerts_EachIsRaisedByTheStory(t *testing.T) {
	story := golden.Read(t, "alerts_faults_lab_test.go")
	for _, a := range monitoring.Alerts() {
		if !strings.Contains(story, `fires("`+a.Name+`"`) {
			t.Errorf("%s: want fires(%[1]q) in mtest/alerts_faults_lab_test.go", a.Name)
		}
	}
}
