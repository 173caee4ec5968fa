package sim_test

import (
	"math/rand/v2"
	"slices"
	"strings"

	"cke/sim"
)

// focuses are what schedules are about: the rarer an operation is reached, the more often.
var focuses = slices.Concat(operations, more(1, `cancel-restore defragment move-leader replace`),
	more(2, `advance-authority begin-recovery change-address disable-authentication disarm enable-authentication end-membership promote-member remove-member stuck-learner stop-apart stop-stray`),
	more(6, `adopt adopt-member clean-up compare purge purge-volume reclaim undelete undelete-volume`), more(8, `unfreeze record-start freeze`),
	more(8, olderBeside), more(12, wrongWord), more(10, agentsReboot), more(12, `allow-writes end-finding finish-authority mark-ended start-changed`))

// seldom are steps that few schedules come to: how often each is aimed at, by operation.
var seldom = aims(`
abandon-bootstrap: 2 record-abandoned
add-member: 2 serve
adopt-member: 1 find-container, 1 move-leader, 1 remove, 6 stop-container
allow-writes: 3 disarm
auth: 1 check
begin-recovery: 1 certificate-authorities, 1 check-fence, 1 check-quorum, 1 fence, 1 fetch, 1 record-restoring, 2 final-backup
begin-restore: 1 fetch, 1 final-backup
cancel-restore: 3 record-cancelled, 2 record-request, 3 start-again, 3 check-started, 3 mark-over, 1 check
change-address: 1 certificates, 1 move-leader, 1 same-machine, 1 stop, 1 update-member, 2 image, 2 record-address, 2 start, 3 serve
compare: 2 check
defragment: 3 check, 1 move-leader, 1 serve
delete-cluster: 2 seal, 4 archive-record
disarm: 1 check, 3 disarm NOSPACE
drain-node: 1 lease, 1 move-leader, 1 stop
enable-authentication: 1 verify
end-finding: 3 record-end
end-membership: 1 stop, 2 record-end
finish-authority: 3 check
finish-restore: 1 check-fence, 1 forget-snapshot, 1 keep-running, 1 record-formed, 1 verify, 2 serve, 2 mark-over, 2 remove-replaced, 2 start
hibernate: 2 check, 2 last-backup
promote-member: 1 promote, 2 serve
purge-volume: 3 record-purge, 3 record-removed, 3 remove
reclaim: 1 check-container, 1 record-lift, 2 record-memberships, 4 check
record-start: 3 record-start
remove-member: 2 move-leader, 2 record-end
restart-member: 1 image, 1 snapshot, 2 last-backup
restore: 1 check-fence, 1 fence, 1 forget-snapshot, 1 keep-running, 1 mark-over, 1 record-formed, 1 record-start, 1 remove-replaced, 1 serve, 2 check, 2 start, 2 verify
resume-bootstrap: 1 prepare, 1 record-formed, 2 keep-running, 2 record-incarnation, 2 start, 4 record-start
rotate-authority: 1 check
start-changed: 4 end-restarts, 4 image, 6 serve, 6 start
undelete: 2 check
unfreeze: 2 check`)

// stepOf is a step of an operation.
type stepOf struct{ operation, name string }

func aims(table string) (all []stepOf) {
	for line := range strings.Lines(strings.TrimSpace(table)) {
		operation, steps, _ := strings.Cut(strings.TrimSpace(line), ": ")
		for s := range strings.SplitSeq(steps, ", ") {
			times, name, _ := strings.Cut(s, " ")
			all = append(all, slices.Repeat([]stepOf{{operation, name}}, int(times[0]-'0'))...)
		}
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

// agentsReboot is what a schedule may be about: agents that ask for the reboots of their own machines.
const agentsReboot = "agents"

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

// aboutOf is the operation that the schedule of a seed is about.
func aboutOf(seed uint64) string {
	n := &nemesis{Rand: rand.New(rand.NewPCG(seed, 1))}
	n.aim(seed)
	return n.focus
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
