package clusterfile_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"
	"gopkg.in/yaml.v3"

	"cke"
	"cke/internal/golden"
)

func TestClusterSchema_IsCurrent(t *testing.T) {
	text, err := json.MarshalIndent(makeSchema(t), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "../docs/cluster.schema.json", string(text)+"\n")
}

func TestClusterSchema_DescribesEveryKey(t *testing.T) {
	used := map[string]bool{}
	for path := range schemaPaths(t) {
		used[path] = true
		if _, ok := schemaWords()[path]; !ok {
			t.Errorf("clusterfile/schema_test.go: schemaWords has no row for %s", path)
		}
	}
	for path := range schemaWords() {
		if !used[path] {
			t.Errorf("clusterfile/schema_test.go: schemaWords has %s, which does not exist", path)
		}
	}
}

func TestClusterSchema_FitsTheExample(t *testing.T) {
	var value any
	if err := yaml.Unmarshal(fullExample(t), &value); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(makeSchema(t)) // the embedded one is older in the run that updates it
	if err != nil {
		t.Fatal(err)
	}
	var root schema
	if err := json.Unmarshal(text, &root); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	root.check(t, root, value, "", seen)
	for path := range schemaPaths(t) {
		if !seen[path] {
			t.Errorf("the example of docs/cluster.md does not show %s", path)
		}
	}
}

// schema is as much of a JSON schema as ours has.
type schema struct {
	Ref        string            `json:"$ref"`
	Defs       map[string]schema `json:"$defs"`
	Type       string            `json:"type"`
	OneOf      []schema          `json:"oneOf"`
	Properties map[string]schema `json:"properties"`
	Required   []string          `json:"required"`
	Items      *schema           `json:"items"`
	Values     json.RawMessage   `json:"additionalProperties"`
	Enum       []any             `json:"enum"`
}

// check is a small validator: types, keys, words.
func (s schema) check(t *testing.T, root schema, value any, path string, seen map[string]bool) {
	t.Helper()
	for s.Ref != "" {
		s = root.Defs[strings.TrimPrefix(s.Ref, "#/$defs/")]
	}
	seen[path] = true
	kind := ""
	switch v := value.(type) {
	case map[string]any:
		kind = "object"
		if s.Properties == nil {
			break
		}
		for _, key := range s.Required {
			if _, ok := v[key]; !ok {
				t.Errorf("%s: %s is missing", path, key)
			}
		}
		for key, item := range v {
			p, ok := s.Properties[key]
			if !ok {
				t.Errorf("%s: key %s is not in the schema", path, key)
				continue
			}
			p.check(t, root, item, strings.TrimPrefix(path+"."+key, "."), seen)
		}
	case []any:
		kind = "array"
		for _, item := range v {
			s.Items.check(t, root, item, path+"[]", seen)
		}
		delete(seen, path+"[]")
	case string:
		kind = "string"
	case bool:
		kind = "boolean"
	case int:
		kind = "integer"
	case float64:
		kind = "number"
	}
	fits := func(s schema) bool { return s.Type == kind || s.Type == "number" && kind == "integer" }
	if !fits(s) && !slices.ContainsFunc(s.OneOf, fits) {
		t.Errorf("%s is %s, the schema wants %s", path, kind, s.Type)
	}
	if len(s.Enum) > 0 && !slices.Contains(s.Enum, value) {
		t.Errorf("%s is %v, the schema wants one of %v", path, value, s.Enum)
	}
}

// makeSchema makes the schema of cluster files, with the words of schemaWords.
func makeSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	return schemaOf(&cke.Cluster{}, "Cluster file of cke", schemaWords())
}

// schemaOf makes a schema from a type and words.
func schemaOf(file any, title string, means map[string]words) *jsonschema.Schema {
	r := jsonschema.Reflector{Anonymous: true, DoNotReference: true, FieldNameTag: "yaml", Mapper: func(t reflect.Type) *jsonschema.Schema {
		switch t {
		case reflect.TypeFor[cke.Duration]():
			return &jsonschema.Schema{Type: "string", Pattern: `^([0-9]+(\.[0-9]+)?(h|m|s|ms))+$`, Examples: []any{"10m", "168h"}}
		case reflect.TypeFor[cke.Size]():
			return &jsonschema.Schema{OneOf: []*jsonschema.Schema{
				{Type: "string", Pattern: `^[0-9]+(\.[0-9]+)? ?([kKMGTP]i?)?[bB]?$`}, {Type: "integer", Minimum: "0"},
			}, Examples: []any{"8GiB", 1048576}}
		}
		return nil
	}}
	s := r.Reflect(file)
	s.Title = title
	walkSchema(s, "", func(p *jsonschema.Schema, path string) {
		w := means[path]
		p.Description, p.Default = w.means, w.otherwise
		switch {
		case path == "name":
			p.Pattern = `^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`
		case path == "options.etcd.version":
			p.Pattern = `^3\.[0-9]+\.[0-9]+$`
		case path == "nodes":
			one := uint64(1)
			p.MinItems = &one
		case strings.HasSuffix(path, "port"):
			p.Minimum, p.Maximum = "1", "65535"
		}
	})
	return s
}

func schemaPaths(t *testing.T) map[string]bool {
	paths := map[string]bool{}
	walkSchema(makeSchema(t), "", func(_ *jsonschema.Schema, path string) { paths[path] = true })
	return paths
}

// walkSchema visits every property; those of list items have the list's path with [].
func walkSchema(s *jsonschema.Schema, path string, visit func(*jsonschema.Schema, string)) {
	if s.Items != nil {
		walkSchema(s.Items, path+"[]", visit)
	}
	if s.Properties == nil {
		return
	}
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		at := strings.TrimPrefix(path+"."+p.Key, ".")
		visit(p.Value, at)
		walkSchema(p.Value, at, visit)
	}
}

// words describe one key to a person.
type words struct {
	means     string
	otherwise any // the default
}

func schemaWords() map[string]words {
	defaults := cke.Cluster{}.WithDefaults()
	etcd, policies := defaults.Options.Etcd, defaults.Policies
	return map[string]words{
		"name":                  {"Identifies the cluster in the store, in labels and in certificates: 1 to 40 lower-case letters, digits and hyphens.", nil},
		"nodes":                 {"The machines, control-plane nodes and others.", nil},
		"nodes[].address":       {"IP address by which the other members and the management host reach the node. Unique.", nil},
		"nodes[].hostname":      {"Name of the node, also the member's name in etcd. Unique. Default: the address.", nil},
		"nodes[].user":          {"User that cke logs in as. It must be able to open the Docker socket.", cke.DefaultSSHUser},
		"nodes[].control_plane": {"Whether the node should carry a member; 1 to 7 nodes of a cluster.", false},
		"nodes[].ssh":           {"How to reach the node.", nil},
		"nodes[].ssh.port":      {"Port of sshd.", cke.DefaultSSHPort},
		"nodes[].ssh.host_key":  {"The node's public host key, as \"ssh-ed25519 AAAA…\". Default: pinned at first sight.", nil},
		"nodes[].zone":          {"Where the node stands, as a rack.", nil},
		"nodes[].labels":        {"Keys and values of your own.", nil},
		"nodes[].annotations":   {"Keys and values of your own.", nil},

		"options":                                {"Technical options.", nil},
		"options.etcd":                           {"How every member runs.", nil},
		"options.etcd.version":                   {"Version of etcd, three numbers without v.", etcd.Version},
		"options.etcd.image":                     {"Image with that version, by tag or digest. Default: " + cke.DefaultImage + " with the tag v and the version.", nil},
		"options.etcd.volume_name":               {"First part of the names of volumes and containers; each membership adds its own part.", etcd.VolumeName},
		"options.etcd.volume_root":               {"Directory on the nodes that holds the volumes, as one on a dedicated disk. Default: the engine's own place.", nil},
		"options.etcd.client_port":               {"Port for clients.", etcd.ClientPort},
		"options.etcd.peer_port":                 {"Port for the other members.", etcd.PeerPort},
		"options.etcd.extra_args":                {"Further arguments of etcd, each as --name=value. What cke sets itself is refused.", nil},
		"options.etcd.extra_env":                 {"Environment variables of the container. ETCD_… is refused.", nil},
		"options.etcd.extra_binds":               {"Directories or files of the node in the container.", nil},
		"options.etcd.extra_binds[].source":      {"Absolute path on the node.", nil},
		"options.etcd.extra_binds[].destination": {"Absolute path in the container, outside of /var/lib/etcd.", nil},
		"options.etcd.extra_binds[].read_only":   {"Whether the container may only read it.", false},
		"options.etcd.resources":                 {"Limits of a member.", nil},
		"options.etcd.resources.cpus":            {"Processors that a member may use, as 2 or 0.5. Default: no limit.", nil},
		"options.etcd.resources.memory":          {"Memory that a member may use, as 8GiB. Default: no limit.", nil},

		"policies":                    {"What the daemon may do without asking.", nil},
		"policies.reconcile":          {"When a running cluster is changed: auto at once, manual on `ckecli cluster apply`, window in the window.", policies.Reconcile},
		"policies.window":             {"When changes are allowed, with reconcile: window.", nil},
		"policies.window.schedule":    {"When the window opens: minute, hour, day of month, month, day of week.", nil},
		"policies.window.duration":    {"For how long it stays open.", nil},
		"policies.window.time_zone":   {"Time zone of the schedule, an IANA name.", "UTC"},
		"policies.foreign":            {"What happens to healthy members that stand on no declared node and never were cke's: hold, remove.", policies.Foreign},
		"policies.replace":            {"About members whose data is provably gone.", nil},
		"policies.replace.mode":       {"auto replaces them, manual waits for `ckecli replace`.", policies.Replace.Mode},
		"policies.replace.grace":      {"How long to wait before that.", "10m"},
		"policies.volumes":            {"About volumes of memberships that ended.", nil},
		"policies.volumes.on_removal": {"retain leaves them, archive keeps them for a time, delete removes them.", policies.Volumes.OnRemoval},
		"policies.volumes.keep":       {"How long archived volumes are kept.", "168h"},

		"prefer": {"Management hosts whose daemon should lead the cluster, by the names that `ckecli leader` shows. While none of them is alive, any daemon leads.", nil},

		"reboot":                  {"How nodes of the reboot queue are rebooted. Default: they are not.", nil},
		"reboot.command":          {"Command of the daemon's configuration that reboots a node; its last argument is the address.", nil},
		"reboot.check":            {"Command of the daemon's configuration that writes true once a rebooted node is ready. Default: none.", nil},
		"reboot.command_timeout":  {"How long each command may run.", "5m"},
		"reboot.boot_timeout":     {"How long a node may take to reboot, and its member then to be in sync.", "30m"},
		"reboot.retries":          {"How many more attempts follow one that failed.", 2},
		"reboot.interval":         {"Pause before another attempt.", "1m"},
		"reboot.fleet_lock":       {"Agents of machines may ask for reboots over FleetLock, and make them themselves.", false},
		"reboot.max_concurrent":   {"How many nodes reboot at the same time; of nodes with members only one does.", 1},
		"reboot.settle":           {"Time between two reboots of nodes with members.", "2m"},
		"reboot.window":           {"When reboots may be started. Default: at any time.", nil},
		"reboot.window.schedule":  {"When the window opens: minute, hour, day of month, month, day of week.", nil},
		"reboot.window.duration":  {"For how long it stays open.", nil},
		"reboot.window.time_zone": {"Time zone of the schedule, an IANA name.", "UTC"},

		"repair":                              {"How machines of the repair queue are repaired. Default: they are not.", nil},
		"repair.max_concurrent":               {"How many nodes are repaired at the same time; of nodes with members only one is, reboots included.", 1},
		"repair.per_day":                      {"How many repairs are started in 24 hours.", 3},
		"repair.cooldown":                     {"Time from a repair of a node to the next one.", "24h"},
		"repair.procedures":                   {"What is done, by fault and type of machine; the first one that fits is taken.", nil},
		"repair.procedures[].types":           {"Values of the label machine-type. Default: all machines.", nil},
		"repair.procedures[].on":              {"The fault that it repairs, as unreachable.", nil},
		"repair.procedures[].check":           {"Command of the daemon's configuration that writes true once the machine is healthy. Default: none.", nil},
		"repair.procedures[].steps":           {"Commands that follow each other until the machine is healthy.", nil},
		"repair.procedures[].steps[].command": {"Command of the daemon's configuration; its last argument is the address.", nil},
		"repair.procedures[].steps[].timeout": {"How long the command may run.", "5m"},
		"repair.procedures[].steps[].watch":   {"How long the machine may take to be healthy, and its member then to be in sync.", "10m"},
		"repair.procedures[].steps[].retries": {"How many more attempts follow one that did not help.", 0},
		"repair.procedures[].steps[].lease":   {"Whether the member is stopped before.", true},
		"repair.procedures[].steps[].reboot":  {"Whether the machine is back only when it has rebooted.", false},

		"backup":                       {"Where backups go and how often they are taken. Default: no backups.", nil},
		"backup.target":                {"file:///DIR, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or azblob://CONTAINER/PREFIX.", nil},
		"backup.full":                  {"When full backups are taken.", nil},
		"backup.full.schedule":         {"Minute, hour, day of month, month, day of week.", nil},
		"backup.full.time_zone":        {"Time zone of the schedule, an IANA name.", "UTC"},
		"backup.delta":                 {"How much one delta holds: whatever is reached first.", nil},
		"backup.delta.period":          {"Longest time that a delta spans.", "10s"},
		"backup.delta.size":            {"Size at which a delta ends.", "10MiB"},
		"backup.retention":             {"Which backups are kept, by count and by age.", nil},
		"backup.retention.last":        {"The newest ones.", nil},
		"backup.retention.hourly":      {"The newest of each of as many hours.", nil},
		"backup.retention.daily":       {"The newest of each of as many days.", nil},
		"backup.retention.weekly":      {"The newest of each of as many weeks.", nil},
		"backup.retention.monthly":     {"The newest of each of as many months.", nil},
		"backup.retention.within":      {"All that restores any revision of this time before now.", nil},
		"backup.retention.max_age":     {"Older ones are deleted, whatever other rule keeps them; alone, all younger ones stay.", nil},
		"backup.compaction":            {"When a full backup and its deltas are merged: whatever is reached first.", nil},
		"backup.compaction.events":     {"Number of events in deltas that leads to it.", nil},
		"backup.compaction.size":       {"Size of deltas in the target that leads to it.", nil},
		"backup.compaction.schedule":   {"Minute, hour, day of month, month, day of week.", nil},
		"backup.compaction.time_zone":  {"Time zone of the schedule, an IANA name.", "UTC"},
		"backup.verify":                {"When the newest backups are restored to scratch and compared.", nil},
		"backup.verify.schedule":       {"Minute, hour, day of month, month, day of week.", nil},
		"backup.verify.time_zone":      {"Time zone of the schedule, an IANA name.", "UTC"},
		"backup.encryption":            {"Encryption before anything leaves the management host. Default: none.", nil},
		"backup.encryption.recipients": {"Public age keys, each as age1…", nil},
	}
}
