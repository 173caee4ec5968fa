package monitoring

// Dashboard is a dashboard as Grafana imports it. Source: Grafana docs, dashboard JSON model.
type Dashboard struct {
	UID           string     `json:"uid"`
	Title         string     `json:"title"`
	Tags          []string   `json:"tags"`
	SchemaVersion int        `json:"schemaVersion"`
	Refresh       string     `json:"refresh"`
	Time          TimeRange  `json:"time"`
	Templating    Templating `json:"templating"`
	Panels        []Panel    `json:"panels"`
}

// TimeRange is the time that a dashboard shows.
type TimeRange struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Templating has the variables of a dashboard.
type Templating struct {
	List []Variable `json:"list"`
}

// Variable is what the viewer selects: the data source, then the clusters.
type Variable struct {
	Name       string      `json:"name"`
	Label      string      `json:"label"`
	Type       string      `json:"type"`
	Query      string      `json:"query"`
	Datasource *Datasource `json:"datasource,omitempty"`
	Refresh    int         `json:"refresh,omitempty"`
	Multi      bool        `json:"multi,omitempty"`
	IncludeAll bool        `json:"includeAll,omitempty"`
}

// Datasource is where a panel or a variable gets its values from.
type Datasource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

// Panel is a chart, or a row that is a heading.
type Panel struct {
	ID         int          `json:"id"`
	Title      string       `json:"title"`
	Type       string       `json:"type"`
	GridPos    GridPos      `json:"gridPos"`
	Datasource *Datasource  `json:"datasource,omitempty"`
	Targets    []Query      `json:"targets,omitempty"`
	Config     *FieldConfig `json:"fieldConfig,omitempty"`
}

// GridPos is the place of a panel, in a grid of 24 columns.
type GridPos struct {
	H int `json:"h"`
	W int `json:"w"`
	X int `json:"x"`
	Y int `json:"y"`
}

// Query is what a panel shows.
type Query struct {
	Ref    string `json:"refId"`
	Expr   string `json:"expr"`
	Legend string `json:"legendFormat"`
}

// FieldConfig has the unit of a panel's values.
type FieldConfig struct {
	Defaults struct {
		Unit string `json:"unit"`
	} `json:"defaults"`
}

// panel is what a chart is made from: a title, a unit of Grafana, and a query with its legend.
type panel struct{ title, unit, expr, legend string }

// selected limits a metric to the clusters that the viewer selected.
const selected = `{cluster=~"$cluster"}`

func rows() []struct {
	title  string
	panels []panel
} {
	return []struct {
		title  string
		panels []panel
	}{
		{"Clusters", []panel{
			{"Health", "short", `max by (cluster, health) (cke_health` + selected + `) == 1`, "{{cluster}} {{health}}"},
			{"Tolerance", "short", `max by (cluster) (cke_tolerance` + selected + `)`, "{{cluster}}"},
			{"Members that do not serve", "short", `max by (cluster) (cke_members_declared` + selected + ` - cke_members_ready` + selected + `)`, "{{cluster}}"},
			{"Zones that can be lost", "short", `max by (cluster) (cke_zones_losable` + selected + `)`, "{{cluster}}"},
			{"Problems", "short", `max by (cluster, code) (cke_problems` + selected + `)`, "{{cluster}} {{code}}"},
			{"Conditions that are not true", "short", `max by (cluster, condition) (cke_condition` + selected + `) < 1`, "{{cluster}} {{condition}}"},
			{"Revisions of the file that are not reached", "short", `max by (cluster) (cke_file_revision_declared` + selected + ` - cke_file_revision_reached` + selected + `)`, "{{cluster}}"},
		}},
		{"Members and nodes", []panel{
			{"Healthy", "short", `max by (cluster, member, role) (cke_member_healthy` + selected + `)`, "{{cluster}} {{member}} {{role}}"},
			{"Lag", "short", `max by (cluster, member) (cke_member_lag_entries` + selected + `)`, "{{cluster}} {{member}}"},
			{"Database: part of the quota", "percentunit", `max by (cluster, member) (cke_member_db_size_bytes` + selected + `) / max by (cluster, member) (cke_member_db_quota_bytes` + selected + `)`, "{{cluster}} {{member}}"},
			{"Database: in use", "bytes", `max by (cluster, member) (cke_member_db_in_use_bytes` + selected + `)`, "{{cluster}} {{member}}"},
			{"Database: free", "bytes", `max by (cluster, member) (cke_member_db_free_bytes` + selected + `)`, "{{cluster}} {{member}}"},
			{"Revision", "short", `max by (cluster, member) (cke_member_revision` + selected + `)`, "{{cluster}} {{member}}"},
			{"Certificates expire in", "s", `min by (cluster, member) (cke_member_certificate_expiry_timestamp_seconds` + selected + `) - time()`, "{{cluster}} {{member}}"},
			{"Nodes that do not answer", "short", `max by (cluster, node) (cke_node_reachable` + selected + `) == 0`, "{{cluster}} {{node}}"},
			{"Nodes in maintenance", "short", `max by (cluster, node) (cke_node_drained` + selected + `) == 1`, "{{cluster}} {{node}}"},
			{"Connections to nodes", "short", `sum by (cluster, result) (increase(cke_node_connections_total` + selected + `[5m]))`, "{{cluster}} {{result}}"},
		}},
		{"Operations", []panel{
			{"Operations in an hour", "short", `sum by (cluster, operation, state) (increase(cke_operations_total` + selected + `[1h])) > 0`, "{{cluster}} {{operation}} {{state}}"},
			{"Age of the operation that runs", "s", `time() - (max by (cluster) (cke_operation_started_timestamp_seconds` + selected + `) > 0)`, "{{cluster}}"},
			{"Operation that runs", "short", `max by (cluster, operation) (cke_operation_running` + selected + `)`, "{{cluster}} {{operation}}"},
			{"Duration of operations, 9 of 10", "s", `histogram_quantile(0.9, sum by (operation, le) (increase(cke_operation_seconds_bucket` + selected + `[1h])))`, "{{operation}}"},
			{"Pending tasks", "short", `max by (cluster) (cke_tasks_pending` + selected + `)`, "{{cluster}}"},
		}},
		{"Inventory", []panel{
			{"Age of the last good read", "s", `time() - (max by (cluster) (cke_inventory_last_success_timestamp_seconds` + selected + `) > 0)`, "{{cluster}}"},
			{"Machines by state", "short", `max by (cluster, state) (cke_inventory_hosts` + selected + `)`, "{{cluster}} {{state}}"},
			{"Machines that can carry a further member", "short", `max by (cluster) (cke_inventory_candidates` + selected + `)`, "{{cluster}}"},
			{"Changes that wait for the operator", "short", `max by (cluster) (cke_inventory_change_pending` + selected + `) + max by (cluster) (cke_inventory_change_held` + selected + `)`, "{{cluster}}"},
			{"Changes in a day", "short", `sum by (cluster, cause) (increase(cke_inventory_changes_total` + selected + `[1d])) > 0`, "{{cluster}} {{cause}}"},
		}},
		{"Reboots", []panel{
			{"Nodes in the queue", "short", `max by (cluster, state) (cke_reboot_queue_entries` + selected + `) > 0`, "{{cluster}} {{state}}"},
			{"Age of the oldest entry", "s", `max by (cluster) (cke_reboot_queue_oldest_seconds` + selected + `)`, "{{cluster}}"},
			{"Queue is enabled", "short", `max by (cluster) (cke_reboot_queue_enabled` + selected + `)`, "{{cluster}}"},
			{"Reboots in a day", "short", `sum by (cluster, result) (increase(cke_reboots_total` + selected + `[1d])) > 0`, "{{cluster}} {{result}}"},
			{"Duration of the last reboot", "s", `max by (cluster) (cke_reboot_seconds` + selected + `) > 0`, "{{cluster}}"},
		}},
		{"Repairs", []panel{
			{"Nodes in the queue", "short", `max by (cluster, state) (cke_repair_queue_entries` + selected + `) > 0`, "{{cluster}} {{state}}"},
			{"Age of the oldest entry", "s", `max by (cluster) (cke_repair_queue_oldest_seconds` + selected + `)`, "{{cluster}}"},
			{"Queue is enabled", "short", `max by (cluster) (cke_repair_queue_enabled` + selected + `)`, "{{cluster}}"},
			{"Repairs in a day", "short", `sum by (cluster, result) (increase(cke_repairs_total` + selected + `[1d])) > 0`, "{{cluster}} {{result}}"},
			{"Duration of the last repair", "s", `max by (cluster) (cke_repair_seconds` + selected + `) > 0`, "{{cluster}}"},
		}},
		{"Backups", []panel{
			{"Age of the newest state that can be restored", "s", `time() - max by (cluster) (cke_backup_restorable_timestamp_seconds` + selected + `)`, "{{cluster}}"},
			{"Age of the newest full", "s", `time() - (max by (cluster) (cke_backup_full_timestamp_seconds` + selected + `) > 0)`, "{{cluster}}"},
			{"Next full", "s", `(max by (cluster) (cke_backup_next_full_timestamp_seconds` + selected + `) > 0) - time()`, "{{cluster}}"},
			{"Age of the last successful drill", "s", `time() - (max by (cluster) (cke_backup_verified_timestamp_seconds` + selected + `) > 0)`, "{{cluster}}"},
			{"Work on backups that fails", "short", `max by (cluster, work) (cke_backup_failing` + selected + `) == 1`, "{{cluster}} {{work}}"},
			{"Changes that wait for the target", "s", `max by (cluster) (cke_backup_lag_seconds` + selected + `)`, "{{cluster}}"},
		}},
		{"Daemons", []panel{
			{"Leader daemon", "short", `cke_leader` + selected + ` == 1`, "{{cluster}} {{instance}}"},
			{"Clusters that a daemon leads", "short", `cke_clusters_led`, "{{instance}}"},
			{"Clusters handed over in a day", "short", `sum by (instance, reason) (increase(cke_handovers_total[1d])) > 0`, "{{instance}} {{reason}}"},
			{"Age of the observation", "s", `time() - max by (cluster) (cke_observed_timestamp_seconds` + selected + `)`, "{{cluster}}"},
			{"Versions", "short", `cke_build_info`, "{{instance}} {{version}}"},
			{"Duration of observations, 9 of 10", "s", `histogram_quantile(0.9, sum by (cluster, le) (rate(cke_observation_seconds_bucket` + selected + `[5m])))`, "{{cluster}}"},
			{"Duration of requests to the store, 99 of 100", "s", `histogram_quantile(0.99, sum by (instance, method, le) (rate(cke_store_request_seconds_bucket[5m])))`, "{{instance}} {{method}}"},
		}},
	}
}

// Columns of the dashboard, and the sizes of its panels.
const (
	columns     = 3
	panelWidth  = 24 / columns
	panelHeight = 7
)

// NewDashboard returns the dashboard.
func NewDashboard() Dashboard {
	source := &Datasource{"prometheus", "${datasource}"}
	d := Dashboard{
		UID: "cke-clusters", Title: "cke", Tags: []string{"cke", "etcd"}, SchemaVersion: 39, Refresh: "30s", Time: TimeRange{"now-6h", "now"},
		Templating: Templating{[]Variable{
			{Name: "datasource", Label: "Data source", Type: "datasource", Query: "prometheus"},
			{Name: "cluster", Label: "Cluster", Type: "query", Query: "label_values(cke_leader, cluster)", Datasource: source, Refresh: 2, Multi: true, IncludeAll: true},
		}},
	}
	y := 0
	for _, row := range rows() {
		d.Panels = append(d.Panels, Panel{ID: len(d.Panels) + 1, Title: row.title, Type: "row", GridPos: GridPos{1, 24, 0, y}})
		y++
		for i, p := range row.panels {
			place := GridPos{panelHeight, panelWidth, i % columns * panelWidth, y + i/columns*panelHeight}
			config := &FieldConfig{}
			config.Defaults.Unit = p.unit
			d.Panels = append(d.Panels, Panel{len(d.Panels) + 1, p.title, "timeseries", place, source, []Query{{"A", p.expr, p.legend}}, config})
		}
		y += (len(row.panels) + columns - 1) / columns * panelHeight
	}
	return d
}
