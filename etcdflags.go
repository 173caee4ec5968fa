package cke

import (
	"slices"
	"strings"
)

// etcdFlag is an argument of etcd and the minors of 3.x that have it. What cke itself sets is left out.
type etcdFlag struct {
	name string
	// first and last are minors; 5 and newestMinor also stand for older and newer ones.
	first, last int
	boolean     bool // needs no value
	// instead is what to write in later minors.
	instead string
}

// etcdFlags is every argument that a person may set. Source: flag sets of etcd 3.5.35, 3.6.16 and 3.7.3.
func etcdFlags() []etcdFlag {
	var flags []etcdFlag
	add := func(first, last int, boolean bool, names string) {
		for _, name := range strings.Fields(names) {
			flags = append(flags, etcdFlag{name, first, last, boolean, insteadOf(name)})
		}
	}
	add(5, 7, false, `auth-token auth-token-ttl auto-compaction-mode auto-compaction-retention backend-batch-interval
		backend-batch-limit backend-bbolt-freelist-type bcrypt-cost cipher-suites client-crl-file cors election-timeout
		grpc-keepalive-interval grpc-keepalive-min-time grpc-keepalive-timeout heartbeat-interval host-whitelist log-level
		log-outputs log-rotation-config-json logger max-concurrent-streams max-request-bytes max-snapshots max-txn-ops max-wals
		metrics peer-crl-file quota-backend-bytes raft-read-timeout raft-write-timeout self-signed-cert-validity snapshot-count
		tls-max-version tls-min-version v2-deprecation`)
	add(5, 7, true, `enable-grpc-gateway enable-log-rotation enable-pprof initial-election-tick-advance pre-vote
		socket-reuse-address socket-reuse-port`)
	add(6, 7, false, `bootstrap-defrag-threshold-megabytes compact-hash-check-time compaction-batch-limit
		compaction-sleep-interval corrupt-check-time distributed-tracing-address distributed-tracing-instance-id
		distributed-tracing-sampling-rate distributed-tracing-service-name downgrade-check-time feature-gates log-format
		max-learners snapshot-catchup-entries warning-apply-duration warning-unary-request-duration
		watch-progress-notify-interval`)
	add(6, 7, true, `enable-distributed-tracing memory-mlock peer-skip-client-san-verification`)
	add(6, 6, false, `experimental-warning-unary-request-duration`)
	add(5, 6, false, `experimental-bootstrap-defrag-threshold-megabytes experimental-compact-hash-check-time
		experimental-compaction-batch-limit experimental-compaction-sleep-interval experimental-corrupt-check-time
		experimental-distributed-tracing-address experimental-distributed-tracing-instance-id
		experimental-distributed-tracing-sampling-rate experimental-distributed-tracing-service-name
		experimental-downgrade-check-time experimental-snapshot-catchup-entries experimental-warning-apply-duration
		experimental-watch-progress-notify-interval`)
	add(5, 6, true, `experimental-compact-hash-check-enabled experimental-enable-distributed-tracing
		experimental-enable-lease-checkpoint experimental-enable-lease-checkpoint-persist experimental-initial-corrupt-check
		experimental-memory-mlock experimental-peer-skip-client-san-verification experimental-stop-grpc-service-on-defrag
		experimental-txn-mode-write-with-shared-buffer`)
	add(5, 5, false, `experimental-enable-v2v3 proxy proxy-dial-timeout proxy-failure-wait proxy-read-timeout
		proxy-refresh-interval proxy-write-timeout`)
	add(5, 5, true, `enable-v2`)
	return flags
}

// insteadOf is what took the place of an experimental argument. Source: etcd 3.6, etcdmain.
func insteadOf(name string) string {
	plain, experimental := strings.CutPrefix(name, "experimental-")
	if !experimental {
		return ""
	}
	switch plain {
	case "enable-v2v3":
		return ""
	case "compact-hash-check-enabled":
		return "--feature-gates=CompactHashCheck=true"
	case "initial-corrupt-check":
		return "--feature-gates=InitialCorruptCheck=true"
	case "enable-lease-checkpoint":
		return "--feature-gates=LeaseCheckpoint=true"
	case "enable-lease-checkpoint-persist":
		return "--feature-gates=LeaseCheckpointPersist=true"
	case "stop-grpc-service-on-defrag":
		return "--feature-gates=StopGRPCServiceOnDefrag=true"
	case "txn-mode-write-with-shared-buffer":
		return "--feature-gates=TxnModeWriteWithSharedBuffer=true"
	}
	return "--" + plain
}

// lookupFlag returns nil for an argument that is in no table, or that cke itself sets.
func lookupFlag(name string) *etcdFlag {
	flags := etcdFlags()
	if i := slices.IndexFunc(flags, func(f etcdFlag) bool { return f.name == name }); i >= 0 {
		return &flags[i]
	}
	return nil
}

// flagNames are the arguments that etcd 3.minor has.
func flagNames(minor int) []string {
	var names []string
	for _, f := range etcdFlags() {
		if f.first <= minor && minor <= f.last {
			names = append(names, f.name)
		}
	}
	return names
}

// olderName is what an argument was called in etcd 3.minor, or "".
func olderName(name string, minor int) string {
	for _, f := range etcdFlags() {
		if f.instead == "--"+name && f.first <= minor && minor <= f.last {
			return "--" + f.name
		}
	}
	return ""
}
