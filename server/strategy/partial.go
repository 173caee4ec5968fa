package strategy

import "time"

// LookAtOnce is the pause before a look after one that was not waited for.
const LookAtOnce = time.Millisecond

// lookInFull: members were not waited for, so that those that stopped could be started at once. What is due otherwise
// must not be decided by who happened to answer.
func lookInFull(in *Input) (Decision, bool) {
	if !in.Seen.Partial {
		return Decision{}, false
	}
	return Decision{Reason: "members are being asked", Again: LookAtOnce}, true
}
