package sabakan_test

import (
	"testing"

	"cke/sabakan"
)

// What inventories got wrong elsewhere, and what may follow from it here: a stop, a cause, or nothing.
func TestChoose_BadCases(t *testing.T) {
	for _, group := range []struct {
		name  string
		cases []struct{ name, scene, want string }
	}{
		{"answers", []struct{ name, scene, want string }{
			{"an answer lacks one member", "formed 3 8; lacks 2", ""},
			{"it lacks two", "formed 5 12; lacks 2; lacks 3", "many"},
			{"it lacks all", "formed 3 3; lacks 1; lacks 2; lacks 3", "many"},
			{"it lacks the only one", "formed 1 8; lacks 1", ""},
			{"the filter is edited to nothing", "formed 3 8; having 99", ""},
			{"and a member's machine is retired then", "formed 3 8; having 99; host 2 retired 1h", ""},
			{"a machine without IPv4 address", "formed 3 4; address 4 fd00::4; host 2 retired 1h", ""},
			{"a member's machine has no address", "formed 3 8; addressless 2", ""},
			{"it has no address, and its node does not answer", "formed 3 8; addressless 2; silent 2 1h", ""},
			{"it has no address and is retired", "formed 3 8; addressless 2; host 2 retired 1h", "retired"},
			{"a spare's machine has no address", "formed 3 8; spares 1; spare 8; addressless 8", ""},
			{"it has no address, and it would have to carry a member", "formed 3 4; spare 4; addressless 4; host 2 retired 1h", ""},
			{"an unknown state", "formed 3 8; host 2 unknown 50h", ""},
			{"the server is away for a day", "formed 3 8; fails no answer; read 24h; host 2 retired 1h", "read"},
		}},
		{"identity", []struct{ name, scene, want string }{
			{"another serial at a member's address, which serves", "formed 3 8; gone 2 5m; successor 2", ""},
			{"another serial, and the member is silent for minutes", "formed 3 8; gone 2 5m; successor 2; silent 2 5m", ""},
			{"another serial, and the member is dead", "formed 3 8; gone 2 30m; successor 2; silent 2 30m", "successor"},
			{"the machine is in another rack now", "formed 3 8; rack 2 9", "described"},
			{"it has another address and answers at the old one", "formed 3 8; address 2 10.0.9.9", ""},
			{"it has another address and is silent", "formed 3 8; address 2 10.0.9.9; silent 2 1h; checked 2", "moved"},
			{"two have exchanged their addresses", "formed 3 8; address 2 10.0.0.3; address 3 10.0.0.2; silent 2 1h", ""},
			{"its new address is a member's", "formed 3 8; spare 8; address 8 10.0.0.1; silent 8 1h", ""},
			{"it moved, and another cluster has its second address", "formed 3 8; address 2 10.0.9.9; second 2 10.0.9.10; silent 2 1h; checked 2; theirs 10.0.9.10", ""},
			{"it moved, and our own node is at its second address", "formed 3 8; address 2 10.0.9.9; second 2 10.0.9.10; silent 2 1h; checked 2; at 3 10.0.9.10", ""},
			{"an old machine is powered on again", "formed 3 8; changed 8 1h; spares 1; without 4", "spare"},
		}},
		{"contradictions", []struct{ name, scene, want string }{
			{"unreachable, and its member serves", "formed 3 8; host 2 unreachable 50h", ""},
			{"healthy, and its member is dead", "formed 3 8; silent 2 50h", ""},
			{"it flaps", "formed 3 8; flaps 2; host 2 unreachable 1h; silent 2 1h", "node"},
			{"a rack is down", "formed 5 12; now 1 unreachable 1m; now 5 unreachable 1m; silent 1 1m; silent 5 1m", "many"},
			{"two of five are bad", "formed 5 12; host 1 unreachable 5m; host 2 unreachable 5m; silent 1 1h; silent 2 1h", "many"},
			{"two of five failed hours apart", "formed 5 12; host 1 unreachable 5h; host 2 unreachable 1h; silent 1 5h; silent 2 1h", "unreachable"},
			{"all retire within a minute", "formed 3 8; now 1 retiring 1m; now 2 retiring 1m; now 3 retiring 1m", "many"},
		}},
		{"candidates", []struct{ name, scene, want string }{
			{"none is left", "formed 3 3; host 2 retired 1h", ""},
			{"it is another cluster's", "formed 3 4; host 2 retired 1h; taken 4", ""},
			{"another cluster has it by its second address", "formed 3 4; host 2 retired 1h; second 4 10.0.1.4; theirs 10.0.1.4", ""},
			{"another cluster has it by its serial", "formed 3 4; host 2 retired 1h; theirs s4", ""},
			{"a spare is another cluster's by its second address", "formed 3 4; host 2 retired 1h; spare 4; second 4 10.0.1.4; theirs 10.0.1.4", ""},
			{"our own node is at its second address", "formed 3 4; now 3 healthy 1m; byhand 3; second 4 10.0.1.4; at 3 10.0.1.4; host 2 retired 1h", "described"},
			{"our own node is at the second address of a spare", "formed 3 4; now 3 healthy 1m; spare 4; byhand 3; second 4 10.0.1.4; at 3 10.0.1.4; host 2 retired 1h", "described"},
			{"a member that left the file has its serial as its name", "formed 3 4; host 2 retired 1h; leaves 4 10.0.1.4", ""},
			{"it is being repaired by its second address", "formed 3 4; host 2 retired 1h; second 4 10.0.1.4; repairing 10.0.1.4", ""},
			{"its check failed", "formed 3 4; host 2 retired 1h; failed 4", ""},
			{"it was not checked", "formed 3 4; host 2 retired 1h; unchecked 4", ""},
			{"it died between choice and start", "formed 3 8; unapplied; unjoined 3; silent 3 1h; host 3 unreachable 1h; changed 9 1h", "unreachable"},
			{"only one zone is left", "formed 3 12; having 1; host 2 retired 1h", "retired"},
			{"three to five", "formed 3 12; wanted 5", "more"},
			{"five to three", "formed 5 12; wanted 3", "fewer"},
			{"one member", "formed 1 8; host 1 retiring 1h", "retiring"},
			{"one member that is dead", "formed 1 8; host 1 unreachable 1h; silent 1 1h", "quorum"},
			{"two members", "formed 2 8; host 2 retiring 1h", "retiring"},
			{"two members, one of them dead", "formed 2 8; host 2 retired 1h; silent 2 1h; lost", "quorum"},
		}},
		{"edits and clocks", []struct{ name, scene, want string }{
			{"the exchange was rolled back", "formed 3 8; rolledback 2 1h; host 2 retired 1h", "node"},
			{"and that is a day ago", "formed 3 8; rolledback 2 25h; host 2 retired 1h", "retired"},
			{"one member more was rolled back", "formed 4 8; wanted 4; undid 4 1h more; wanted 5", "node"},
			{"the file was edited a moment ago", "formed 3 8; unobserved; host 2 retired 1h", "in-flight"},
			{"the store's clock is an hour behind", "formed 3 8; status 1h; host 2 retired 1h", "status"},
			{"it is an hour ahead", "formed 3 8; status -1h; host 2 retired 1h", "status"},
			{"the last read is of an hour ahead", "formed 3 8; read -1h; host 2 retired 1h", "read"},
			{"the daemon's clock is a day ahead of the nodes'", "formed 3 8; host 2 retired 1h; changed 9 23h; changed 8 2h; ahead 23h; clocks False DaemonOff", "status"},
			{"it is an hour ahead, and the last change settles", "formed 3 8; host 2 retired 1h; changed 9 5m; ahead 1h; clocks False DaemonOff", "status"},
			{"too few nodes say what time it is", "formed 3 8; host 2 retired 1h; changed 9 5m; ahead 1h; clocks Unknown TooFew", "status"},
			{"one node's clock is off", "formed 3 8; host 2 retired 1h; clocks False NodeOff", "retired"},
			{"the clocks agree", "formed 3 8; host 2 retired 1h; clocks True Agree", "retired"},
			{"the clock is set ahead, and a machine that moved was silent for a minute", "formed 3 8; address 2 10.0.9.2; silent 2 1m; checked 2; ahead 1h", ""},
			{"and the machine of a spare was silent for a minute", "formed 3 8; spares 1; spare 8; host 8 unreachable 31m; silent 8 1m; ahead 1h", ""},
			{"the spare was silent for half an hour", "formed 3 8; spares 1; spare 8; host 8 unreachable 31m; silent 8 30m", "spare"},
			{"a moved machine's old address was rolled back", "formed 3 8; address 2 10.0.9.2; silent 2 1h; checked 2; undid 2 1h moved", "node"},
			{"what the inventory says of a node was rolled back", "formed 3 8; rack 2 9; undid 2 1h described", "node"},
			{"the last change is of an hour ahead", "formed 3 8; changed 9 -1h; host 2 retired 1h", "settle"},
		}},
		{"zones", []struct{ name, scene, want string }{
			{"a voter without a zone", "formed 3 8; byhand 2; without 2; host 3 retired 1h", "retired"},
			{"a learner", "formed 3 8; learner 3; unapplied; host 2 retired 1h", "in-flight"},
			{"four voters", "formed 4 12; host 2 retired 1h", "retired"},
			{"two zones", "formed 3 12; racked 3 1; having 1 2; host 2 retired 1h", "retired"},
			{"a zone is lost", "formed 5 12; racked 5 1; now 1 unreachable 1m; now 5 unreachable 1m", "many"},
			{"and is back", "formed 5 12; racked 5 1; now 1 healthy 1m; now 5 healthy 1m", ""},
		}},
	} {
		for _, c := range group.cases {
			t.Run(group.name+"/"+c.name, func(t *testing.T) {
				w := read(t, c.scene)
				got := sabakan.Choose(w.Input)
				is := string(got.Stop)
				if got.Change != nil {
					is = string(got.Change.Cause)
				}
				if is != c.want {
					t.Errorf("%s: %q, want %q\n%s", c.scene, is, c.want, told(w, got))
				}
			})
		}
	}
}
