package clusterfile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// checkBothNames refuses an argument under its old and its new name: etcd 3.6 would not start.
func checkBothNames(f *findings, at, values map[string]string) {
	for _, flag := range etcdFlags() {
		if _, ok := values[flag.name]; !ok || flag.instead == "" {
			continue
		}
		name, gate, _ := splitArg(flag.instead)
		value, ok := values[name]
		if gate, _, _ = strings.Cut(gate, "="); ok && strings.Contains(value, gate) {
			f.fault(at["--"+flag.name], fmt.Sprintf("--%s is the old name of what --%s sets, and etcd does not start with both", flag.name, name), "Remove it.")
		}
	}
}

// featureGates are the gates that etcd 3.minor knows. Source: etcd 3.6.16 and 3.7.3, server/features.
func featureGates(minor int) []string {
	gates := []string{"AllAlpha", "AllBeta", "CompactHashCheck", "InitialCorruptCheck", "LeaseCheckpoint", "LeaseCheckpointPersist",
		"SetMemberLocalAddr", "StopGRPCServiceOnDefrag", "TxnModeWriteWithSharedBuffer"}
	if minor >= 7 {
		gates = append(gates, "FastLeaseKeepAlive", "PriorityRequest")
	}
	return gates
}

// checkGates checks the value of --feature-gates; at is empty where it is not given.
func checkGates(f *findings, at, value string, minor int) {
	if at == "" {
		return
	}
	const remedy = "Write NAME=true or NAME=false, with commas between several."
	on := map[string]bool{}
	for pair := range strings.SplitSeq(value, ",") {
		name, word, _ := strings.Cut(strings.TrimSpace(pair), "=")
		set, err := strconv.ParseBool(strings.TrimSpace(word))
		name = strings.TrimSpace(name)
		switch {
		case name == "" || err != nil:
			f.fault(at, fmt.Sprintf("%q sets no feature gate", shorten(pair)), remedy)
		case !slices.Contains(featureGates(minor), name):
			hint := ""
			if near := f.guess(name, featureGates(minor)); near != "" {
				hint = fmt.Sprintf("Did you mean %s?", near)
			}
			f.warn(at, fmt.Sprintf("etcd 3.%d is not known to have the feature gate %s; a member does not start with one that it does not know", minor, name), hint)
		}
		on[name] = set
	}
	if on["LeaseCheckpointPersist"] && !on["LeaseCheckpoint"] && !on["AllAlpha"] {
		f.fault(at, "LeaseCheckpointPersist needs LeaseCheckpoint, and etcd does not start without", "Add LeaseCheckpoint=true.")
	}
}
