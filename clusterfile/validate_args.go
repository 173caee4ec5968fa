package clusterfile

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cke"
)

// maxQuota is the largest database that etcd suggests. Source: etcd, server/storage/quota.go.
const maxQuota = 8 << 30

// checkArgs checks further arguments of etcd: one that etcd does not take keeps a member from starting, and one
// that cke sets itself could take a member's identity away.
func checkArgs(f *findings, p string, o cke.EtcdOptions) {
	v, ok := cke.ParseVersion(cmp.Or(o.NamedVersion(), cke.DefaultEtcdVersion))
	known, is := cke.KnownFlags(v.Minor)
	whole := ok && is && v.Compare(known) <= 0 && (o.Image == "" || strings.HasPrefix(o.Image, cke.DefaultImage+":"))
	if !ok || v.Minor > cke.NewestMinor {
		v.Minor = cke.NewestMinor
	}
	first := map[string]string{}
	values := map[string]string{}
	for i, arg := range o.ExtraArgs {
		at := itemPath(p, i)
		name, value, hasValue := splitArg(arg)
		if !checkArgForm(f, at, arg, o.ExtraArgs[:i]) || !checkArgName(f, at, name, v.Minor, whole) {
			continue
		}
		if flag := lookupFlag(name); flag != nil && !checkArgKind(f, at, *flag, value, hasValue) {
			continue
		}
		remedy := "Remove one of them: only the last would take effect."
		if name == "feature-gates" {
			remedy = "Write all gates into one, with commas between them."
		}
		twice(f, first, at, "--"+name, "argument", remedy)
		values[name] = value
		checkArgValue(f, at, name, value)
	}
	checkBothNames(f, first, values)
	checkGates(f, first["--feature-gates"], values["feature-gates"], v.Minor)
	checkTimers(f, p, first, values)
}

// splitArg takes "--name=value" apart.
func splitArg(arg string) (name, value string, hasValue bool) {
	return strings.Cut(strings.TrimLeft(arg, "-"), "=")
}

func checkArgForm(f *findings, at, arg string, before []string) bool {
	name, _, _ := splitArg(arg)
	switch {
	case strings.TrimSpace(arg) == "" || name == "":
		f.fault(at, "is not an argument", "Write --NAME=VALUE.")
	case !strings.HasPrefix(arg, "-") && lookupFlag(name) == nil && len(before) > 0 && !strings.Contains(before[len(before)-1], "="):
		f.fault(at, fmt.Sprintf("%q has no -- before it", shorten(arg)), fmt.Sprintf("If it is the value of the argument before: write %s=%s as one item.", before[len(before)-1], shorten(arg)))
	case !strings.HasPrefix(arg, "--"):
		f.fault(at, fmt.Sprintf("%q has no -- before it", shorten(arg)), fmt.Sprintf("Write --%s.", shorten(strings.TrimLeft(arg, "-"))))
	case strings.ContainsAny(name, " \t\n\r"):
		f.fault(at, fmt.Sprintf("%q is not one argument", shorten(arg)), fmt.Sprintf("Write %s, each argument as an item of its own.", shorten(strings.Join(strings.Fields(arg), "="))))
	default:
		return true
	}
	return false
}

// checkArgKind reports whether etcd reads the value of an argument.
func checkArgKind(f *findings, at string, flag etcdFlag, value string, hasValue bool) bool {
	switch {
	case !hasValue && flag.kind != flagBool:
		f.fault(at, fmt.Sprintf("--%s needs a value", flag.name), fmt.Sprintf("Write --%s=VALUE.", flag.name))
		return false
	case !hasValue || ownCheck(flag.name):
		return true
	}
	if want := flag.kind.reads(value); want != "" {
		f.fault(at, fmt.Sprintf("invalid value %q: want %s, and etcd would not start", shorten(value), want), fmt.Sprintf("Write --%s=VALUE with one.", flag.name))
		return false
	}
	if (flag.kind == flagNumber || flag.kind == flagCount) && !decimal.MatchString(value) {
		f.fault(at, fmt.Sprintf("invalid value %q: want a whole number in decimal digits, without a leading zero", shorten(value)), fmt.Sprintf("Write it as in --%s=10.", flag.name))
		return false
	}
	return true
}

// ownCheck reports whether the value of an argument is judged further on, in words of its own.
func ownCheck(name string) bool {
	return name == "quota-backend-bytes" || name == "heartbeat-interval" || name == "election-timeout"
}

// checkArgName reports whether cke lets etcd 3.minor have this argument; whole: the table has all that this etcd has.
func checkArgName(f *findings, at, name string, minor int, whole bool) bool {
	if lower := strings.ToLower(name); lower != name && (reserved(lower) != "" || lookupFlag(lower) != nil) {
		f.fault(at, fmt.Sprintf("etcd does not have --%s and would not start: its arguments are in lower case", name), fmt.Sprintf("Write --%s.", lower))
		return false
	}
	if why := reserved(name); why != "" {
		f.fault(at, fmt.Sprintf("--%s %s", name, why), reservedRemedy(name))
		return false
	}
	flag := lookupFlag(name)
	switch {
	case flag == nil:
		remedy := ""
		if near := f.guess(name, flagNames(minor)); near != "" {
			remedy = fmt.Sprintf("Did you mean --%s?", near)
		}
		if whole {
			f.fault(at, fmt.Sprintf("etcd 3.%d does not have --%s and would not start", minor, name), cmp.Or(remedy, "Remove it."))
			return false
		}
		f.warn(at, fmt.Sprintf("etcd 3.%d is not known to have --%s; a member does not start with an argument that it does not know", minor, name), remedy)
	case minor > flag.last:
		f.fault(at, fmt.Sprintf("etcd 3.%d no longer has --%s and would not start", minor, name), replaceWith(flag.instead))
		return false
	case minor < flag.first:
		f.fault(at, fmt.Sprintf("--%s came with etcd 3.%d; etcd 3.%d would not start", name, flag.first, minor), replaceWith(olderName(name, minor)))
		return false
	case flag.last < cke.NewestMinor && flag.instead != "" && minor >= 6:
		f.warn(at, fmt.Sprintf("etcd 3.%d no longer has --%s", flag.last+1, name), replaceWith(flag.instead))
	}
	return true
}

func replaceWith(instead string) string {
	if instead == "" {
		return "Remove it."
	}
	return fmt.Sprintf("Write %s instead.", instead)
}

func checkArgValue(f *findings, at, name, value string) {
	switch name {
	case "quota-backend-bytes":
		n, err := strconv.ParseInt(value, 10, 64)
		switch {
		case err != nil || !decimal.MatchString(value): // etcd reads 010 as octal
			f.fault(at, fmt.Sprintf("invalid number of bytes %q", shorten(value)), fmt.Sprintf("Write a plain number, as --%s=%d.", name, int64(maxQuota)))
		case n < 0:
			f.warn(at, "a database without quota grows until the disk is full", fmt.Sprintf("Write --%s=%d or less.", name, int64(maxQuota)))
		case n > maxQuota:
			f.warn(at, fmt.Sprintf("%s is more than the 8GiB that etcd recommends: starts and new members take long", cke.Size(n)), "")
		}
	case "auto-compaction-mode":
		oneOf(f, at, value, "periodic", "revision")
	case "metrics":
		oneOf(f, at, value, "basic", "extensive")
	case "log-format":
		oneOf(f, at, value, "json", "console")
	case "backend-bbolt-freelist-type":
		oneOf(f, at, value, "array", "map")
	case "tls-min-version", "tls-max-version":
		oneOf(f, at, value, "TLS1.2", "TLS1.3")
	case "log-level":
		oneOf(f, at, value, "debug", "info", "warn", "error", "panic", "fatal")
	case "peer-skip-client-san-verification":
		if value != "false" {
			f.warn(at, "lets a stolen peer certificate be used from any address", "")
		}
	}
}

// checkTimers checks what etcd itself refuses to start with. Source: etcd, embed.Config.Validate.
func checkTimers(f *findings, p string, at, values map[string]string) {
	timer := func(name string, otherwise int) int {
		s, ok := values[name]
		if !ok {
			return otherwise
		}
		ms, err := strconv.Atoi(s)
		if err != nil || ms <= 0 || !decimal.MatchString(s) {
			f.fault(at["--"+name], fmt.Sprintf("invalid number of milliseconds %q", shorten(s)), fmt.Sprintf("Write a plain number, as --%s=%d.", name, otherwise))
			return 0
		}
		return ms
	}
	heartbeat, election := timer("heartbeat-interval", 100), timer("election-timeout", 1000)
	where := cmp.Or(at["--election-timeout"], cmp.Or(at["--heartbeat-interval"], p))
	switch {
	case heartbeat == 0 || election == 0:
	case election > 50000:
		f.fault(where, fmt.Sprintf("an election timeout of %d ms is more than the 50000 ms that etcd allows", election), "Ten times the round trip between the nodes is enough, at least 1000.")
	case election < 5*heartbeat:
		f.fault(where, fmt.Sprintf("an election timeout of %d ms is less than five heartbeats of %d ms, and etcd would not start", election, heartbeat),
			fmt.Sprintf("Set --election-timeout=%d or more.", 10*heartbeat))
	}
}

// reserved says why an argument is not for extra_args, or "" when it is.
func reserved(name string) string {
	const ours = "is set by cke itself"
	switch name {
	case "name", "data-dir", "auto-tls", "peer-auto-tls", "peer-cert-allowed-cn", "peer-cert-allowed-hostname", "client-cert-allowed-hostname",
		"initial-cluster", "initial-cluster-state", "initial-cluster-token":
		return ours
	case "wal-dir":
		return "would move the log out of the member's own volume, where cke checks it before every start"
	case "force-new-cluster":
		return "drops members and writes; cke uses it only in `recover`, on a copy"
	case "config-file":
		return "makes etcd ignore all other arguments"
	case "unsafe-no-fsync":
		return "loses acknowledged writes when a node loses power"
	case "experimental-initial-corrupt-check", "experimental-compact-hash-check-enabled":
		return "is turned on by cke itself, under the name that the version has"
	case "strict-reconfig-check":
		return "keeps quorum safe while members change; it stays on"
	case "version":
		return "makes etcd print its version and exit"
	case "help", "h":
		return "makes etcd print its arguments and exit"
	}
	for _, prefix := range []string{"listen-", "advertise-", "initial-advertise-"} {
		if strings.HasPrefix(name, prefix) {
			return ours
		}
	}
	if strings.HasPrefix(name, "discovery") {
		return "would let something other than the cluster file decide which nodes are members"
	}
	for _, suffix := range []string{"cert-file", "key-file", "trusted-ca-file", "client-cert-auth"} {
		if strings.HasSuffix(name, suffix) {
			return ours
		}
	}
	return ""
}

func reservedRemedy(name string) string {
	switch name {
	case "name":
		return "Remove it; the member's name is the node's hostname."
	case "data-dir", "wal-dir":
		return "Remove it; volume_root puts the volumes on a disk of your choice."
	case "listen-client-urls", "advertise-client-urls":
		return "Remove it; the port is client_port."
	case "listen-peer-urls", "initial-advertise-peer-urls":
		return "Remove it; the port is peer_port."
	case "config-file":
		return "Remove it and write its settings as extra_args."
	}
	return "Remove it."
}

// oneOf checks a value that must be one of a few words.
func oneOf(f *findings, at, value string, words ...string) {
	if slices.Contains(words, value) {
		return
	}
	message := fmt.Sprintf("%q is not known", shorten(value))
	if near := f.guess(value, words); near != "" {
		message += fmt.Sprintf(", did you mean %s?", near)
	}
	f.fault(at, message, "Write one of: "+strings.Join(words, ", ")+".")
}
