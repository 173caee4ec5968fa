// Package monitoring has what Prometheus and Grafana need to watch cke and its clusters: alerts, a dashboard, and the
// configuration that collects the metrics. It is data, which `ckecli monitoring` writes. docs/runbooks.md has a section for
// each alert, and docs/metrics.md lists the metrics.
package monitoring

import "strings"

// Severity says how soon an alert needs the operator.
type Severity string

// Severities. A critical alert needs the operator now, a warning within a working day.
const (
	Critical Severity = "critical"
	Warning  Severity = "warning"
)

// Alert is an alert of Prometheus. Its expression aggregates over daemons, so it stays the same alert when another daemon
// starts to lead.
type Alert struct {
	Name     string
	Severity Severity
	// For is how long the expression must hold.
	For  string
	Expr string
	// Summary is one line, Command what to type first. Both may have the labels of the expression, as templates.
	Summary string
	Command string
}

// Clusters of these healths have no quorum and no new backups because of what the operator requested.
const noService = `on (cluster) max by (cluster) (cke_health{health=~"FORMING|HIBERNATED|RESTORING|DELETING"}) == 1`

const (
	status  = "ckecli status {{ $labels.cluster }}"
	backups = "ckecli status {{ $labels.cluster }} -o wide"
	members = "ckecli etcd members --cluster {{ $labels.cluster }}"
)

// Alerts returns all alerts, the critical ones first.
func Alerts() []Alert {
	return []Alert{
		{"CkeNoLeaderDaemon", Critical, "2m", `sum by (cluster) (cke_leader) < 1 or absent(cke_serving == 1)`,
			"No daemon leads {{ with $labels.cluster }}cluster {{ . }}{{ else }}any cluster{{ end }}: nothing is repaired or backed up", "systemctl status cke"},
		{"CkeQuorumLost", Critical, "1m", `max by (cluster) (cke_quorum) == 0 unless ` + noService,
			"Cluster {{ $labels.cluster }} has no quorum and takes no writes", status},
		{"CkeQuorumUnknown", Critical, "2m", `max by (cluster) (cke_quorum) == -1`,
			"Cluster {{ $labels.cluster }} cannot be seen from the management host; it may serve or not", status},
		{"CkeFrozen", Critical, "1m", `max by (cluster) (cke_health{health="FROZEN"}) == 1`,
			"Cluster {{ $labels.cluster }} is frozen: nothing is changed until you have judged the evidence", "ckecli cluster evidence {{ $labels.cluster }}"},
		{"CkeNoTolerance", Warning, "10m", `max by (cluster) (cke_tolerance) == 0 and on (cluster) max by (cluster) (cke_members_declared) > 2`,
			"Cluster {{ $labels.cluster }} loses its quorum with the next failure", status},
		{"CkeNodeUnreachable", Warning, "5m", `max by (cluster, node) (cke_node_reachable) == 0 unless on (cluster, node) max by (cluster, node) (cke_node_drained) == 1`,
			"Node {{ $labels.node }} of cluster {{ $labels.cluster }} does not answer", "ckecli node list --cluster {{ $labels.cluster }}"},
		{"CkeRebootQueueStuck", Warning, "5m", `max by (cluster) (cke_reboot_queue_entries{state="failed"}) > 0 or (max by (cluster) (cke_reboot_queue_oldest_seconds) > 691200 and on (cluster) max by (cluster) (cke_reboot_queue_enabled) == 1)`,
			"Nodes of cluster {{ $labels.cluster }} are not rebooted: one failed, or waits for longer than a week", "ckecli reboot-queue list --cluster {{ $labels.cluster }}"},
		{"CkeRepairQueueStuck", Warning, "5m", `max by (cluster) (cke_repair_queue_entries{state="failed"}) > 0 or (max by (cluster) (cke_repair_queue_oldest_seconds) > 691200 and on (cluster) max by (cluster) (cke_repair_queue_enabled) == 1)`,
			"Nodes of cluster {{ $labels.cluster }} are not repaired: one failed, or waits for longer than a week", "ckecli repair-queue list --cluster {{ $labels.cluster }}"},
		{"CkeInventoryUnread", Warning, "10m", `time() - max by (cluster) (cke_inventory_last_success_timestamp_seconds) > 3600`,
			"The inventory of cluster {{ $labels.cluster }} has not been read for more than an hour: no machine is exchanged", status},
		{"CkeInventoryChangeWaits", Warning, "1h", `max by (cluster) (cke_inventory_change_pending) == 1 or max by (cluster) (cke_inventory_change_held) == 1`,
			"A change that follows from the inventory of cluster {{ $labels.cluster }} waits for you", "ckecli sabakan preview --cluster {{ $labels.cluster }}"},
		{"CkePausedTooLong", Warning, "5m", `time() - max by (cluster) (cke_condition_since_timestamp_seconds{condition="Paused"}) > 86400 and on (cluster) max by (cluster) (cke_condition{condition="Paused"}) == 1`,
			"Changes to cluster {{ $labels.cluster }} have been paused for more than a day", status},
		{"CkeBackupTooOld", Warning, "10m", `time() - max by (cluster) (cke_backup_restorable_timestamp_seconds) > 3600 unless ` + noService,
			"The newest state of cluster {{ $labels.cluster }} that can be restored is older than an hour", backups},
		{"CkeDrillFailed", Warning, "5m", `max by (cluster) (cke_backup_failing{work="verify"}) == 1`,
			"The last restore drill of cluster {{ $labels.cluster }} failed", backups},
		{"CkeDrillStale", Warning, "1h", `time() - (max by (cluster) (cke_backup_next_drill_timestamp_seconds) > 0) > 86400 unless ` + noService,
			"The restore drill of cluster {{ $labels.cluster }} is overdue by more than a day", backups},
		{"CkeCertificateExpiring", Warning, "1h", `min by (cluster, member) (cke_member_certificate_expiry_timestamp_seconds) - time() < 14 * 86400 or on (cluster) max by (cluster) (cke_problems{code=~"CKE216|CKE327"}) > 0`,
			"A certificate {{ with $labels.member }}of member {{ . }} {{ end }}of cluster {{ $labels.cluster }} expires soon, or is not valid", "ckecli ca certs --cluster {{ $labels.cluster }}"},
		// increase() extrapolates: of two it makes a little more than two.
		{"CkeOperationsFailing", Warning, "0s", `sum by (cluster) (increase(cke_operations_failed_total[1h])) > 2.5`,
			"Operations on cluster {{ $labels.cluster }} fail repeatedly", "ckecli history --cluster {{ $labels.cluster }} --since 2h"},
		{"CkeDatabaseNearQuota", Warning, "10m", `max by (cluster, member) (cke_member_db_size_bytes) / max by (cluster, member) (cke_member_db_quota_bytes) > 0.8`,
			"The database of member {{ $labels.member }} of cluster {{ $labels.cluster }} has reached {{ $value | humanizePercentage }} of its quota", members},
		{"CkeClockOff", Warning, "10m", `max by (cluster) (cke_condition{condition="ClocksAgree"}) == 0`,
			"A clock of cluster {{ $labels.cluster }} or of its management host is wrong", status},
		{"CkeLearnerStuck", Warning, "5m", `max by (cluster) (cke_problems{code=~"CKE218|CKE224"}) > 0`,
			"A new member of cluster {{ $labels.cluster }} does not catch up", members},
	}
}

// Rules is a file with rules of Prometheus.
type Rules struct {
	Groups []RuleGroup `json:"groups"`
}

// RuleGroup is a group of rules that are evaluated together.
type RuleGroup struct {
	Name  string `json:"name"`
	Rules []Rule `json:"rules"`
}

// Rule is an alerting rule.
type Rule struct {
	Alert       string      `json:"alert"`
	Expr        string      `json:"expr"`
	For         string      `json:"for"`
	Labels      Labels      `json:"labels"`
	Annotations Annotations `json:"annotations"`
}

// Labels are what an alert is routed by.
type Labels struct {
	Severity Severity `json:"severity"`
}

// Annotations are shown with an alert.
type Annotations struct {
	Summary string `json:"summary"`
	// Command is what to type first.
	Command string `json:"command"`
	Runbook string `json:"runbook_url"`
}

// RulesFor returns the rules of all alerts, with the address of the page that has their runbooks.
func RulesFor(runbooks string) Rules {
	var rules []Rule
	for _, a := range Alerts() {
		rules = append(rules, Rule{a.Name, a.Expr, a.For, Labels{a.Severity}, Annotations{a.Summary, a.Command, runbooks + "#" + strings.ToLower(a.Name)}})
	}
	return Rules{[]RuleGroup{{"cke", rules}}}
}
