package strategy

import "time"

// LookAtOnce is the pause before the observation that follows one that did not wait for the members.
const LookAtOnce = time.Millisecond

// lookInFull: the observation did not wait for members, so that stopped ones could be started at once. Nothing else may be
// decided by which members happened to answer.
func lookInFull(in *Input) verdict {
	if !in.Seen.Partial {
		return pass()
	}
	return wait("members are being asked").again(LookAtOnce)
}
