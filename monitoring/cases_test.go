package monitoring_test

// scenario is what Prometheus collected, in promtool's notation of samples each minute from time 0, and what an alert does.
type scenario struct {
	alert, when string
	at          int               // minutes
	labels      map[string]string // of the alert that fires, without its severity; nil: none fires
	value       float64           // of its expression, where its summary has it
	series      map[string]string
}

// of has the labels of an alert of the cluster prod.
func of(more ...string) map[string]string {
	labels := map[string]string{"cluster": "prod"}
	for i := 0; i < len(more); i += 2 {
		labels[more[i]] = more[i+1]
	}
	return labels
}

// health is the health of prod, which is this one for an hour, and for long.
func health(name string) string { return `cke_health{cluster="prod",health="` + name + `"}` }

var cases = []scenario{
	{"CkeNoLeaderDaemon", "two daemons lead nothing", 5, of(), 0, map[string]string{
		`cke_serving{instance="a"}`: "1x10", `cke_leader{cluster="prod",instance="a"}`: "0x10", `cke_leader{cluster="prod",instance="b"}`: "0x10"}},
	{"CkeNoLeaderDaemon", "no daemon can be scraped any more", 9, map[string]string{}, 0, map[string]string{
		`cke_serving{instance="a"}`: "1x3 stale", `cke_leader{cluster="prod",instance="a"}`: "1x3 stale"}},
	{"CkeNoLeaderDaemon", "the only daemon waits for its store", 9, map[string]string{}, 0, map[string]string{
		`cke_serving{instance="a"}`: "1x3 0x10", `cke_leader{cluster="prod",instance="a"}`: "1x3 stale"}},
	{"CkeNoLeaderDaemon", "one of two daemons waits for its store", 9, nil, 0, map[string]string{
		`cke_serving{instance="a"}`: "0x10", `cke_serving{instance="b"}`: "1x10", `cke_leader{cluster="prod",instance="b"}`: "1x10"}},
	{"CkeNoLeaderDaemon", "leadership moves", 9, nil, 0, map[string]string{
		`cke_serving{instance="a"}`: "1x10", `cke_leader{cluster="prod",instance="a"}`: "1x5 0x5", `cke_leader{cluster="prod",instance="b"}`: "0x6 1x5"}},
	{"CkeNoLeaderDaemon", "no cluster is declared", 9, nil, 0, map[string]string{`cke_serving{instance="a"}`: "1x10"}},

	{"CkeQuorumLost", "the quorum is lost", 5, of(), 0, map[string]string{`cke_quorum{cluster="prod"}`: "1 0x10", health("LOST"): "1x10", health("HIBERNATED"): "0x10"}},
	{"CkeQuorumLost", "the quorum is lost in a frozen cluster", 5, of(), 0, map[string]string{`cke_quorum{cluster="prod"}`: "1 0x10", health("FROZEN"): "1x10"}},
	{"CkeQuorumLost", "hibernated", 5, nil, 0, map[string]string{`cke_quorum{cluster="prod"}`: "0x10", health("HIBERNATED"): "1x10"}},
	{"CkeQuorumLost", "an election", 5, nil, 0, map[string]string{`cke_quorum{cluster="prod"}`: "1x4 0 1x5"}},

	{"CkeQuorumUnknown", "the network to the nodes is cut", 5, of(), -1, map[string]string{`cke_quorum{cluster="prod"}`: "1 -1x10"}},
	{"CkeQuorumUnknown", "the quorum is known to be lost", 5, nil, 0, map[string]string{`cke_quorum{cluster="prod"}`: "0x10"}},

	{"CkeFrozen", "frozen", 5, of(), 1, map[string]string{health("FROZEN"): "1x10"}},
	{"CkeFrozen", "not frozen", 5, nil, 0, map[string]string{health("FROZEN"): "0x10", health("READY"): "1x10"}},

	{"CkeNoTolerance", "one of three voters is away", 15, of(), 0, map[string]string{`cke_tolerance{cluster="prod"}`: "0x20", `cke_members_declared{cluster="prod"}`: "3x20"}},
	{"CkeNoTolerance", "and another daemon starts to lead", 13, of(), 0, map[string]string{
		`cke_tolerance{cluster="prod",instance="a"}`: "0x6 stale", `cke_members_declared{cluster="prod",instance="a"}`: "3x6 stale",
		`cke_tolerance{cluster="prod",instance="b"}`: "_x6 0x10", `cke_members_declared{cluster="prod",instance="b"}`: "_x6 3x10"}},
	{"CkeNoTolerance", "a cluster of one", 15, nil, 0, map[string]string{`cke_tolerance{cluster="prod"}`: "0x20", `cke_members_declared{cluster="prod"}`: "1x20"}},
	{"CkeNoTolerance", "all serve", 15, nil, 0, map[string]string{`cke_tolerance{cluster="prod"}`: "1x20", `cke_members_declared{cluster="prod"}`: "3x20"}},

	{"CkeRebootQueueStuck", "a node did not return", 8, of(), 1, map[string]string{
		`cke_reboot_queue_entries{cluster="prod",state="failed"}`: "1x10", `cke_reboot_queue_entries{cluster="prod",state="queued"}`: "2x10"}},
	{"CkeRebootQueueStuck", "a node waits for longer than a week", 8, of(), 700000, map[string]string{
		`cke_reboot_queue_oldest_seconds{cluster="prod"}`: "700000x10", `cke_reboot_queue_enabled{cluster="prod"}`: "1x10"}},
	{"CkeRebootQueueStuck", "a node waits for longer than a week in a queue that is disabled", 8, nil, 0, map[string]string{
		`cke_reboot_queue_oldest_seconds{cluster="prod"}`: "700000x10", `cke_reboot_queue_enabled{cluster="prod"}`: "0x10"}},
	{"CkeRebootQueueStuck", "nodes reboot, and one that failed was skipped", 8, nil, 0, map[string]string{
		`cke_reboot_queue_entries{cluster="prod",state="failed"}`: "0x10", `cke_reboot_queue_entries{cluster="prod",state="skipped"}`: "1x10",
		`cke_reboot_queue_entries{cluster="prod",state="rebooting"}`: "1x10"}},
	{"CkeRepairQueueStuck", "a node did not return", 8, of(), 1, map[string]string{
		`cke_repair_queue_entries{cluster="prod",state="failed"}`: "1x10", `cke_repair_queue_entries{cluster="prod",state="queued"}`: "2x10"}},
	{"CkeRepairQueueStuck", "a node waits for longer than a week", 8, of(), 700000, map[string]string{
		`cke_repair_queue_oldest_seconds{cluster="prod"}`: "700000x10", `cke_repair_queue_enabled{cluster="prod"}`: "1x10"}},
	{"CkeRepairQueueStuck", "a node waits for longer than a week in a queue that is disabled", 8, nil, 0, map[string]string{
		`cke_repair_queue_oldest_seconds{cluster="prod"}`: "700000x10", `cke_repair_queue_enabled{cluster="prod"}`: "0x10"}},
	{"CkeRepairQueueStuck", "nodes are repaired, and one that failed was skipped", 8, nil, 0, map[string]string{
		`cke_repair_queue_entries{cluster="prod",state="failed"}`: "0x10", `cke_repair_queue_entries{cluster="prod",state="skipped"}`: "1x10",
		`cke_repair_queue_entries{cluster="prod",state="repairing"}`: "1x10"}},

	{"CkeNodeUnreachable", "a node is silent", 8, of("node", "cp2"), 0, map[string]string{
		`cke_node_reachable{cluster="prod",node="cp2"}`: "0x10", `cke_node_drained{cluster="prod",node="cp2"}`: "0x10",
		`cke_node_reachable{cluster="prod",node="cp1"}`: "1x10", `cke_node_drained{cluster="prod",node="cp1"}`: "0x10"}},
	{"CkeNodeUnreachable", "a node in maintenance", 8, nil, 0, map[string]string{
		`cke_node_reachable{cluster="prod",node="cp2"}`: "0x10", `cke_node_drained{cluster="prod",node="cp2"}`: "1x10"}},

	{"CkeInventoryUnread", "it does not answer for more than an hour", 80, of(), 4740, map[string]string{
		`cke_inventory_last_success_timestamp_seconds{cluster="prod"}`: "60x100"}},
	{"CkeInventoryUnread", "it was never read", 20, of(), 1200, map[string]string{`cke_inventory_last_success_timestamp_seconds{cluster="prod"}`: "-4000x40"}},
	{"CkeInventoryUnread", "it does not answer for some minutes", 50, nil, 0, map[string]string{
		`cke_inventory_last_success_timestamp_seconds{cluster="prod"}`: "0+60x30 1800x30"}},
	{"CkeInventoryUnread", "another daemon starts to lead, which has not read it yet", 70, nil, 0, map[string]string{
		`cke_inventory_last_success_timestamp_seconds{cluster="prod",instance="a"}`: "0+60x60 stale",
		`cke_inventory_last_success_timestamp_seconds{cluster="prod",instance="b"}`: "_x61 3600x4 3900+60x20"}},
	{"CkeInventoryUnread", "none is followed", 80, nil, 0, map[string]string{health("READY"): "1x100"}},

	{"CkeInventoryChangeWaits", "an operator is to apply it", 70, of(), 1, map[string]string{
		`cke_inventory_change_pending{cluster="prod"}`: "1x100", `cke_inventory_change_held{cluster="prod"}`: "0x100"}},
	{"CkeInventoryChangeWaits", "enough members were moved today", 70, of(), 1, map[string]string{
		`cke_inventory_change_pending{cluster="prod"}`: "0x100", `cke_inventory_change_held{cluster="prod"}`: "1x100"}},
	{"CkeInventoryChangeWaits", "the last change has to settle", 70, nil, 0, map[string]string{
		`cke_inventory_change_pending{cluster="prod"}`: "0x30 1x5 0x100", `cke_inventory_change_held{cluster="prod"}`: "1x30 0x100"}},

	{"CkePausedTooLong", "paused for a day", 1460, of(), 0, map[string]string{
		`cke_condition{cluster="prod",condition="Paused"}`: "1x1500", `cke_condition_since_timestamp_seconds{cluster="prod",condition="Paused"}`: "60x1500"}},
	{"CkePausedTooLong", "paused for some hours", 600, nil, 0, map[string]string{
		`cke_condition{cluster="prod",condition="Paused"}`: "1x700", `cke_condition_since_timestamp_seconds{cluster="prod",condition="Paused"}`: "60x700"}},
	{"CkePausedTooLong", "not paused for a day", 1460, nil, 0, map[string]string{
		`cke_condition{cluster="prod",condition="Paused"}`: "0x1500", `cke_condition_since_timestamp_seconds{cluster="prod",condition="Paused"}`: "60x1500"}},

	{"CkeBackupTooOld", "nothing is stored any more", 80, of(), 0, map[string]string{
		`cke_backup_restorable_timestamp_seconds{cluster="prod"}`: "60x100", health("READY"): "1x100"}},
	{"CkeBackupTooOld", "there is no backup", 1000, of(), 0, map[string]string{
		`cke_backup_restorable_timestamp_seconds{cluster="prod"}`: "0x1010", health("READY"): "1x1010"}},
	{"CkeBackupTooOld", "backups follow", 80, nil, 0, map[string]string{`cke_backup_restorable_timestamp_seconds{cluster="prod"}`: "0+60x100", health("READY"): "1x100"}},
	{"CkeBackupTooOld", "hibernated", 80, nil, 0, map[string]string{
		`cke_backup_restorable_timestamp_seconds{cluster="prod"}`: "60x100", health("HIBERNATED"): "1x100"}},
	{"CkeBackupTooOld", "no target is declared", 80, nil, 0, map[string]string{health("READY"): "1x100"}},

	{"CkeDrillFailed", "a drill failed", 8, of(), 1, map[string]string{`cke_backup_failing{cluster="prod",work="verify"}`: "1x10"}},
	{"CkeDrillFailed", "other work failed", 8, nil, 0, map[string]string{
		`cke_backup_failing{cluster="prod",work="verify"}`: "0x10", `cke_backup_failing{cluster="prod",work="prune"}`: "1x10"}},

	{"CkeDrillStale", "overdue for a day", 1510, of(), 0, map[string]string{`cke_backup_next_drill_timestamp_seconds{cluster="prod"}`: "60x1600", health("READY"): "1x1600"}},
	{"CkeDrillStale", "due", 600, nil, 0, map[string]string{`cke_backup_next_drill_timestamp_seconds{cluster="prod"}`: "60x700", health("READY"): "1x700"}},
	{"CkeDrillStale", "no drills are declared", 1510, nil, 0, map[string]string{`cke_backup_next_drill_timestamp_seconds{cluster="prod"}`: "0x1600", health("READY"): "1x1600"}},

	{"CkeCertificateExpiring", "of a member", 90, of("member", "cp1"), 0, map[string]string{
		`cke_member_certificate_expiry_timestamp_seconds{cluster="prod",member="cp1"}`: "1000000x100",
		`cke_member_certificate_expiry_timestamp_seconds{cluster="prod",member="cp2"}`: "9000000x100"}},
	{"CkeCertificateExpiring", "of an authority", 90, of(), 1, map[string]string{
		`cke_member_certificate_expiry_timestamp_seconds{cluster="prod",member="cp1"}`: "9000000x100", `cke_problems{cluster="prod",code="CKE327"}`: "1x100"}},
	{"CkeCertificateExpiring", "in months", 90, nil, 0, map[string]string{
		`cke_member_certificate_expiry_timestamp_seconds{cluster="prod",member="cp1"}`: "9000000x100", `cke_problems{cluster="prod",code="CKE201"}`: "1x100"}},

	{"CkeOperationsFailing", "again and again", 45, of(), 0, map[string]string{`cke_operations_failed_total{cluster="prod"}`: "0x9 1x9 2x9 3x9 4x20"}},
	{"CkeOperationsFailing", "an hour after three failures", 95, nil, 0, map[string]string{`cke_operations_failed_total{cluster="prod"}`: "0x9 1x9 2x9 3x80"}},
	{"CkeOperationsFailing", "three failures within the hour", 45, of(), 0, map[string]string{`cke_operations_failed_total{cluster="prod"}`: "0x9 1x9 2x9 3x80"}},
	// increase() extrapolates to a window that begins and ends beside samples.
	{"CkeOperationsFailing", "twice", 75, nil, 0, map[string]string{`cke_operations_failed_total{cluster="prod"}`: "5x14 _ 5x25 6x9 7x22 _"}},
	{"CkeOperationsFailing", "once", 45, nil, 0, map[string]string{`cke_operations_failed_total{cluster="prod"}`: "0x9 1x50"}},

	{"CkeDatabaseNearQuota", "nine tenths", 15, of("member", "cp1"), 0.9, map[string]string{
		`cke_member_db_size_bytes{cluster="prod",member="cp1"}`: "900x20", `cke_member_db_quota_bytes{cluster="prod",member="cp1"}`: "1000x20",
		`cke_member_db_size_bytes{cluster="prod",member="cp2"}`: "100x20", `cke_member_db_quota_bytes{cluster="prod",member="cp2"}`: "1000x20"}},
	{"CkeDatabaseNearQuota", "half", 15, nil, 0, map[string]string{
		`cke_member_db_size_bytes{cluster="prod",member="cp1"}`: "500x20", `cke_member_db_quota_bytes{cluster="prod",member="cp1"}`: "1000x20"}},

	{"CkeClockOff", "a clock is wrong", 15, of(), 0, map[string]string{`cke_condition{cluster="prod",condition="ClocksAgree"}`: "0x20"}},
	{"CkeClockOff", "clocks are unknown", 15, nil, 0, map[string]string{`cke_condition{cluster="prod",condition="ClocksAgree"}`: "-1x20"}},
	{"CkeClockOff", "clocks agree", 15, nil, 0, map[string]string{`cke_condition{cluster="prod",condition="ClocksAgree"}`: "1x20"}},

	{"CkeLearnerStuck", "a learner does not catch up", 8, of(), 1, map[string]string{`cke_problems{cluster="prod",code="CKE218"}`: "1x10"}},
	{"CkeLearnerStuck", "another problem", 8, nil, 0, map[string]string{`cke_problems{cluster="prod",code="CKE201"}`: "1x10"}},
}
