package preflight

import (
	"testing"

	"cke"
	"cke/preflight/probe"
)

// A firewall of the node rejects the other nodes, and one on the way discards what this host sends. The probe listened on the
// node: that nobody reaches it is a failure, and not a consequence of the warning.
func TestJudge_AWarningHidesNoFailure(t *testing.T) {
	c, seen, keys, visits := lookedAt(t)
	seen.Nodes[0].ClientPort, seen.Nodes[0].PeerPort = cke.PortUnknown, cke.PortUnknown
	for _, from := range []string{"10.0.0.12", "10.0.0.13"} {
		for _, address := range portsOf(c.Options.Etcd, c.Nodes[0]) {
			visits[from].Dialled[address] = probe.Refused
		}
	}
	all := Judge(c, Members{}, seen, keys, visits)
	failed := 0
	for _, check := range all {
		if check.Result == Fail && check.Because == "" {
			failed++
		}
		if check.Node == "cp1" && check.Result != OK {
			t.Logf("%s %s: %s (because %q)", check.Check, check.Result, check.Detail, check.Because)
		}
	}
	if failed == 0 {
		t.Error("no check counts as failed: ckecli preflight says \"No check failed.\" and exits with 0")
	}
	for _, cause := range Causes(all) {
		t.Logf("%v %v %s %s", cause.Nodes, cause.Checks, cause.Result, cause.Detail)
	}
}
