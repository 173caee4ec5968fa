package clusterfile

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// etcdFlag is an argument of etcd and the minors of 3.x that have it. What cke itself sets is left out.
type etcdFlag struct {
	name string
	// first and last are minors; 5 and NewestMinor also stand for older and newer ones.
	first, last int
	kind        flagKind
	// instead is what to write in later minors.
	instead string
}

// flagKind is what etcd reads the value of an argument as.
type flagKind int

const (
	flagText     flagKind = iota
	flagBool              // needs no value
	flagNumber            // a whole number
	flagCount             // a whole number from 0
	flagDuration          // as 100ms or 1h
)

// etcdFlags is every argument that a user may set. Source: flag sets of etcd 3.5.35, 3.6.16 and 3.7.3, see KnownFlags.
var etcdFlags = sync.OnceValue(func() []etcdFlag {
	var flags []etcdFlag
	add := func(first, last int, kind flagKind, names string) {
		for _, name := range strings.Fields(names) {
			flags = append(flags, etcdFlag{name, first, last, kind, insteadOf(name)})
		}
	}
	add(5, 7, flagText, `auth-token auto-compaction-mode auto-compaction-retention backend-bbolt-freelist-type cipher-suites
		client-crl-file cors host-whitelist log-level log-outputs log-rotation-config-json logger metrics peer-crl-file
		tls-max-version tls-min-version v2-deprecation`)
	add(5, 7, flagNumber, `backend-batch-limit quota-backend-bytes`)
	add(5, 7, flagCount, `auth-token-ttl bcrypt-cost election-timeout heartbeat-interval max-concurrent-streams max-request-bytes
		max-snapshots max-txn-ops max-wals self-signed-cert-validity snapshot-count`)
	add(5, 7, flagDuration, `backend-batch-interval grpc-keepalive-interval grpc-keepalive-min-time grpc-keepalive-timeout
		raft-read-timeout raft-write-timeout`)
	add(5, 7, flagBool, `enable-grpc-gateway enable-log-rotation enable-pprof initial-election-tick-advance pre-vote
		socket-reuse-address socket-reuse-port`)
	add(6, 7, flagText, `distributed-tracing-address distributed-tracing-instance-id distributed-tracing-service-name feature-gates
		log-format`)
	add(6, 7, flagNumber, `compaction-batch-limit distributed-tracing-sampling-rate max-learners`)
	add(6, 7, flagCount, `bootstrap-defrag-threshold-megabytes snapshot-catchup-entries`)
	add(6, 7, flagDuration, `compact-hash-check-time compaction-sleep-interval corrupt-check-time downgrade-check-time
		warning-apply-duration warning-unary-request-duration watch-progress-notify-interval`)
	add(6, 7, flagBool, `enable-distributed-tracing memory-mlock peer-skip-client-san-verification`)
	add(6, 6, flagDuration, `experimental-warning-unary-request-duration`)
	add(5, 6, flagText, `experimental-distributed-tracing-address experimental-distributed-tracing-instance-id
		experimental-distributed-tracing-service-name`)
	add(5, 6, flagNumber, `experimental-compaction-batch-limit experimental-distributed-tracing-sampling-rate`)
	add(5, 6, flagCount, `experimental-bootstrap-defrag-threshold-megabytes experimental-snapshot-catchup-entries`)
	add(5, 6, flagDuration, `experimental-compact-hash-check-time experimental-compaction-sleep-interval
		experimental-corrupt-check-time experimental-downgrade-check-time experimental-warning-apply-duration
		experimental-watch-progress-notify-interval`)
	add(5, 6, flagBool, `experimental-compact-hash-check-enabled experimental-enable-distributed-tracing
		experimental-enable-lease-checkpoint experimental-enable-lease-checkpoint-persist experimental-initial-corrupt-check
		experimental-memory-mlock experimental-peer-skip-client-san-verification experimental-stop-grpc-service-on-defrag
		experimental-txn-mode-write-with-shared-buffer`)
	add(5, 5, flagText, `experimental-enable-v2v3 proxy`)
	add(5, 5, flagCount, `proxy-dial-timeout proxy-failure-wait proxy-read-timeout proxy-refresh-interval proxy-write-timeout`)
	add(5, 5, flagBool, `enable-v2`)
	return flags
})

// reads says what etcd wants where it would not read a value of the kind; "" where it does.
func (k flagKind) reads(value string) string {
	var err error
	switch k {
	case flagBool:
		if _, err = strconv.ParseBool(value); err != nil {
			return "true or false"
		}
	case flagNumber:
		if _, err = strconv.ParseInt(value, 0, 64); err != nil {
			return "a whole number"
		}
	case flagCount:
		if _, err = strconv.ParseUint(value, 0, 64); err != nil {
			return "a whole number from 0"
		}
	case flagDuration:
		if _, err = time.ParseDuration(value); err != nil {
			return "a duration, as 100ms or 1h"
		}
	}
	return ""
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
