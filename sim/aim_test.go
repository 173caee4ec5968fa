package sim_test

import (
	"slices"
	"strings"

	"cke/sim"
)

// focuses are what schedules are about: the rarer an operation is reached, the more often.
var focuses = slices.Concat(operations, more(1, `begin-recovery cancel-restore move-leader replace`),
	more(2, `advance-authority change-address disable-authentication disarm enable-authentication promote-member stuck-learner stop-stray`),
	more(6, `adopt adopt-member clean-up compare purge purge-volume reclaim start-changed undelete undelete-volume`), more(8, `unfreeze record-start freeze`),
	more(12, `allow-writes end-finding finish-authority`))

// seldom are steps that few schedules come to, by operation: the rarer, the more often.
var seldom = slices.Concat(
	stepsOf(1, "adopt-member", "find-container", "move-leader", "remove"), stepsOf(3, "adopt-member", "stop-container"), stepsOf(3, "allow-writes", "disarm"), stepsOf(1, "auth", "check"),
	stepsOf(1, "begin-recovery", "check-fence", "check-quorum", "fence", "fetch", "record-restoring"), stepsOf(2, "begin-recovery", "final-backup"),
	stepsOf(1, "begin-restore", "fetch", "final-backup"), stepsOf(3, "cancel-restore", "record-cancelled", "start-again", "mark-over"), stepsOf(1, "cancel-restore", "check"),
	stepsOf(1, "change-address", "certificates", "move-leader", "same-machine", "start", "stop", "update-member"), stepsOf(2, "change-address", "image", "record-address"), stepsOf(3, "change-address", "serve"),
	stepsOf(2, "compare", "check"), stepsOf(2, "delete-cluster", "seal"), stepsOf(4, "delete-cluster", "archive-record"), stepsOf(1, "disarm", "check"), stepsOf(3, "disarm", "disarm NOSPACE"),
	stepsOf(1, "defragment", "check", "move-leader", "serve"), stepsOf(1, "drain-node", "move-leader", "stop"), stepsOf(3, "end-finding", "record-end"), stepsOf(1, "end-membership", "stop"), stepsOf(2, "end-membership", "record-end"), stepsOf(2, "unfreeze", "check"), stepsOf(3, "finish-authority", "check"),
	stepsOf(1, "finish-restore", "check-fence", "forget-snapshot", "keep-running", "record-formed", "verify"), stepsOf(2, "finish-restore", "serve", "mark-over", "remove-replaced", "start"),
	stepsOf(2, "hibernate", "check", "last-backup"), stepsOf(1, "promote-member", "promote"), stepsOf(2, "promote-member", "serve"),
	stepsOf(3, "purge-volume", "record-purge", "record-removed", "remove"), stepsOf(1, "reclaim", "check-container", "record-lift"), stepsOf(2, "reclaim", "check", "record-memberships"),
	stepsOf(3, "record-start", "record-start"), stepsOf(2, "remove-member", "move-leader", "record-end"), stepsOf(1, "restart-member", "image", "snapshot"), stepsOf(2, "restart-member", "last-backup"), stepsOf(1, "add-member", "serve"),
	stepsOf(1, "restore", "check-fence", "fence", "forget-snapshot", "keep-running", "mark-over", "record-formed", "record-start", "remove-replaced", "serve"),
	stepsOf(2, "restore", "check", "start", "verify"), stepsOf(2, "abandon-bootstrap", "record-abandoned"), stepsOf(1, "resume-bootstrap", "prepare", "record-formed"),
	stepsOf(2, "resume-bootstrap", "keep-running", "record-incarnation", "start"), stepsOf(4, "resume-bootstrap", "record-start"), stepsOf(1, "rotate-authority", "check"),
	stepsOf(3, "start-changed", "end-restarts", "image", "start"), stepsOf(4, "start-changed", "serve"), stepsOf(2, "undelete", "check"))

type stepOf struct{ operation, name string }

func stepsOf(times int, operation string, names ...string) (all []stepOf) {
	for _, n := range names {
		all = append(all, slices.Repeat([]stepOf{{operation, n}}, times)...)
	}
	return all
}

// deep is how many steps operations have of which faults before them let few come to the last.
var deep = map[string]int{"add-member": 8, "adopt-member": 5, "begin-recovery": 8, "begin-restore": 6, "bootstrap": 9, "cancel-restore": 4, "change-address": 10,
	"defragment": 4, "delete-cluster": 6, "enable-authentication": 5, "finish-restore": 11, "promote-member": 5, "purge-volume": 4, "reclaim": 4, "remove-member": 5,
	"restart-member": 8, "restore": 17, "resume-bootstrap": 9, "start-changed": 5}

// more are names, each of them so many times.
func more(times int, names string) []string { return slices.Repeat(strings.Fields(names), times) }

// aimed are the faults of a schedule that is about an operation: they come often while that is under way. Which of them comes next follows
// from the seed in turn, and not by chance: so that each is tried in each operation by as few schedules as can be.
type aimed struct {
	// often is the rate of faults in it; turn is which one is next, fates what becomes of the next call.
	often       float64
	turn, fates int
	// late is how many of its steps pass without a fault: few operations would come to their last steps otherwise.
	late int
	// at is the step in which calls fail; empty: any.
	at string
	// operation and step were under way at the last call, and so many of the operation's steps had been.
	operation, step string
	steps           int
}

// stuckLearner is what a schedule may be about beside operations: a learner that comes no further.
const stuckLearner = "stuck-learner"

// aim chooses what a schedule is about: four of eight are about an operation, three about what becomes of the calls in one step.
func (n *nemesis) aim(seed uint64) {
	k, slot := int(seed/8), int(seed%8)
	switch {
	case slot == 0:
		return
	case slot < 4:
		k = 3*k + slot - 1
		at, round := k%len(seldom), k/len(seldom)
		n.focus, n.at = seldom[at].operation, seldom[at].name
		n.fates, n.often, n.rate = round+3*at, 0.5, 0.01
		if n.founds() {
			n.rate = 0.05
		}
		return
	}
	k = 4*k + slot - 4
	at, round := k%len(focuses), k/len(focuses)
	n.focus, n.turn, n.fates = focuses[at], round+7*at, round+3*at
	n.often, n.rate = []float64{0.3, 0.6, 0.9}[n.IntN(3)], min(n.rate, 0.03)
	deep := deep[n.focus]
	if deep > 0 { // or it would never come to its end
		n.often /= 2
	}
	if deep > 0 && n.IntN(2) == 0 {
		n.late, n.often, n.rate = 1+max(n.IntN(deep), n.IntN(deep)), 0.6, 0.01
	}
}

// founds reports whether the schedule is about the first days of a cluster.
func (n *nemesis) founds() bool { return strings.HasSuffix(n.focus, "-bootstrap") }

// focused reports whether the operation is under way that the schedule is about, and whether its faults wait for a later step.
func (n *nemesis) focused() (under, waits bool) {
	if n.focus == "" {
		return false, false
	}
	operation, step := n.s.Store().Running()
	if operation != n.operation {
		n.steps = 0
	}
	if operation != n.operation || step != n.step {
		n.operation, n.step = operation, step
		n.steps++
	}
	under = operation == n.focus
	return under, under && (n.steps <= n.late || n.at != "" && n.at != step)
}

// fate is what becomes of a call next.
func (n *nemesis) fate(focused bool) sim.Verdict {
	const fates = int(sim.Freeze)
	if !focused {
		return sim.Refuse + sim.Verdict(n.IntN(fates))
	}
	n.fates++
	return sim.Refuse + sim.Verdict(n.fates%fates)
}

// atOnce is how many faults come together: where none waits for a later step, often more than one.
func (n *nemesis) atOnce(focused bool) int {
	if !focused || n.late > 0 || n.at != "" {
		return 1
	}
	return 1 + n.IntN(8)
}

// nextOf is the fault that comes next, of some.
func (n *nemesis) nextOf(from []event, focused bool) event {
	if !focused {
		return from[n.IntN(len(from))]
	}
	n.turn++
	return from[n.turn%len(from)]
}
