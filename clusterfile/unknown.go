package clusterfile

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"cke"
)

// unknownClusterKey reports a key that cluster.yml does not have.
func unknownClusterKey(d *decoder, at place, path, key string, t reflect.Type) {
	if what, remedy, ok := keyOfCKE(t, key); ok {
		d.faultAt(at, childPath(path, key), what, remedy)
		return
	}
	unknownKey(d, at, path, key, t, reflect.TypeFor[cke.Cluster]())
}

// unknownConfigKey reports a key that the configuration file does not have.
func unknownConfigKey(d *decoder, at place, path, key string, t reflect.Type) {
	unknownKey(d, at, path, key, t, reflect.TypeFor[cke.Config]())
}

// unknownKey reports a key that t, somewhere in root, does not have, and which one is probably meant.
func unknownKey(d *decoder, at place, path, key string, t, root reflect.Type) {
	known := slices.Sorted(maps.Keys(yamlFields(t)))
	message, remedy := "unknown key", "Known here: "+strings.Join(known, ", ")+"."
	if near := d.guess(key, known); near != "" {
		message = fmt.Sprintf("unknown key, did you mean %s?", near)
		d.faulty[childPath(path, near)] = true // what is missing is not missing, but misspelt
	} else if elsewhere := d.elsewhere(root, key); len(elsewhere) > 0 {
		remedy = fmt.Sprintf("It belongs to %s. ", strings.Join(elsewhere, " or ")) + remedy
	}
	d.faultAt(at, childPath(path, key), message, remedy)
}

// keyOfCKE describes keys that CKE's cluster file has and ours does not: CKE runs Kubernetes as well.
func keyOfCKE(t reflect.Type, key string) (what, remedy string, ok bool) {
	const etcdOnly = "is for Kubernetes, and cke runs only etcd"
	switch t {
	case reflect.TypeFor[cke.Cluster]():
		switch key {
		case "service_subnet", "pod_subnet", "dns_servers", "dns_service", "taint_control_plane", "control_plane_tolerations",
			"retire", "trusted_rest_mappings":
			return etcdOnly, "Remove it with all keys below it.", true
		case "etcd_backup":
			return "is how Kubernetes backs up etcd; cke does this itself", "Remove it and write a backup section.", true
		case "sabakan":
			return "is not part of the cluster file", "Remove it; what is read of an inventory is set with ckecli sabakan set-url and set-template.", true
		case "constraints", "control-plane-count", "minimum-workers", "maximum-workers", "minimum-workers-rate":
			return "cke has no constraints: the nodes with control_plane: true are the members", "Remove it.", true
		}
	case reflect.TypeFor[cke.Node]():
		if key == "taints" {
			return etcdOnly, "Remove it with all keys below it.", true
		}
	case reflect.TypeFor[cke.Options]():
		switch key {
		case "etcd-rivers", "rivers":
			return "is a proxy for Kubernetes, and cke runs only etcd", "Remove it with all keys below it.", true
		case "kube-api", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet":
			return etcdOnly, "Remove it with all keys below it.", true
		}
	case reflect.TypeFor[cke.RebootOptions]():
		switch key {
		case "reboot_command", "boot_check_command":
			name := map[string]string{"reboot_command": "command", "boot_check_command": "check"}[key]
			return "is a command in CKE; here it is named", fmt.Sprintf("Put it into commands of the daemon's configuration, and write its name as %s.", name), true
		case "command_timeout_seconds":
			return "is a number of seconds in CKE", "Write command_timeout: 5m.", true
		case "max_concurrent_reboots":
			return "has another name here", "Write max_concurrent.", true
		case "eviction_timeout_seconds", "evict_retries", "evict_interval", "protected_namespaces":
			return "is about pods of Kubernetes, and cke runs only etcd", "Remove it.", true
		}
	case reflect.TypeFor[cke.RepairOptions]():
		switch key {
		case "repair_procedures":
			return "has another name here", "Write procedures, with one item for each fault: docs/repairs.md.", true
		case "max_concurrent_repairs":
			return "has another name here", "Write max_concurrent.", true
		case "evict_retries", "evict_interval", "eviction_timeout_seconds", "protected_namespaces":
			return "is about pods of Kubernetes, and cke runs only etcd", "Remove it.", true
		}
	case reflect.TypeFor[cke.RepairProcedure]():
		switch key {
		case "machine_types":
			return "has another name here", "Write types.", true
		case "repair_operations":
			return "has another shape here", "Write one procedure for each operation, with its name as on.", true
		}
	case reflect.TypeFor[cke.RepairStep]():
		switch key {
		case "repair_command":
			return "is a command in CKE; here it is named", "Put it into commands of the daemon's configuration, and write its name as command.", true
		case "command_timeout_seconds", "watch_seconds":
			return "is a number of seconds in CKE", "Write timeout: 5m and watch: 10m.", true
		case "command_retries":
			return "has another name here", "Write retries.", true
		case "need_drain":
			return "has another name here", "Write lease: false if the member may run meanwhile; it is stopped by default.", true
		}
	case reflect.TypeFor[cke.Bind]():
		if key == "propagation" || key == "selinux_label" {
			return "is unknown to cke", "Remove it; a bind has source, destination and read_only.", true
		}
	}
	return "", "", false
}

// elsewhere is pathsOf the root, under the same bound as guess.
func (f *findings) elsewhere(root reflect.Type, key string) []string {
	if f.guesses > maxFaults {
		return nil
	}
	return pathsOf(root, "", key)
}

// pathsOf returns where in t a key is known.
func pathsOf(t reflect.Type, path, key string) []string {
	for t.Kind() == reflect.Slice {
		t, path = t.Elem(), path+"[]"
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	var found []string
	fields := yamlFields(t)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if name == key {
			found = append(found, cmp.Or(path, "the top level"))
		}
		p := name
		if path != "" {
			p = path + "." + name
		}
		found = append(found, pathsOf(t.Field(fields[name]).Type, p, key)...)
	}
	return found
}

// guess is NearestWord, for the first faults and warnings of a file: the others are counted, not reported.
func (f *findings) guess(word string, words []string) string {
	if f.guesses++; f.guesses > maxFaults {
		return ""
	}
	return NearestWord(word, words)
}

// NearestWord returns the word that word is probably a misspelling of, or "".
func NearestWord(word string, words []string) string {
	if len(word) > maxWord {
		return ""
	}
	best, distance, plain := "", 1+min(2, len(word)/3), plainWord(word)
	for _, w := range words {
		if plainWord(w) == plain {
			return w
		}
		if n := editDistance(word, w); n < distance {
			best, distance = w, n
		}
	}
	return best
}

// plainWord leaves out what differs between controlPlane, control-plane and control_plane.
func plainWord(s string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(s))
}

// maxWord bounds the words of which the nearest is searched: the work grows with the square.
const maxWord = 64

// editDistance counts the letters to insert, remove, change or swap with their neighbor to make a into b.
func editDistance(a, b string) int {
	before, last, now := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		now[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			now[j] = min(last[j]+1, now[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				now[j] = min(now[j], before[j-2]+1)
			}
		}
		before, last, now = last, now, before
	}
	return last[len(b)]
}
