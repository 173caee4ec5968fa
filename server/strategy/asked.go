package strategy

import (
	"fmt"
	"strings"

	"cke"
	"cke/op"
)

// asking chooses what to do for a task of one kind. What cannot be done, now or ever, is an op.Refuse with the reason:
// the person who asked waits for an answer. A decision without an operation leaves the turn to the rules below, and the
// task is asked about again: only for a task that was started and whose next step those rules lead to.
type asking func(in *Input, t cke.Task) Decision

// askings holds what is chosen for each kind of task.
var askings = map[cke.TaskKind]asking{
	cke.TaskBackup:     backupAfterAllElse,
	cke.TaskReplace:    replaceAsked,
	cke.TaskAdopt:      adoptAsked,
	cke.TaskMoveLeader: moveLeaderAsked,
	cke.TaskDefragment: defragmentAsked,
	cke.TaskDisarm:     disarmAsked,
	cke.TaskDrain:      drainAsked,
	cke.TaskUnfreeze:   unfreezeAsked,
	cke.TaskReclaim:    reclaimAsked,
	cke.TaskAuth:       authAsked,
	cke.TaskUser:       userAsked,
	cke.TaskCompare:    compareAsked,
	cke.TaskPurge:      purgeAsked,
	cke.TaskUndelete:   undeleteAsked,
	cke.TaskRotate:     rotateAsked,
	cke.TaskFinish:     finishAsked,
	cke.TaskImport:     importAsked,
}

// asked: an operator wants something done once. The oldest task goes first.
func asked(in *Input) verdict {
	for _, t := range in.Requests.Tasks {
		if d := ask(in, t); d.Operation != nil {
			d.Task = t.ID
			return decides(d)
		}
	}
	return pass()
}

func ask(in *Input, t cke.Task) Decision {
	if !in.Formed() {
		return refuse(t, &cke.Error{Code: cke.CodeUnformed, What: fmt.Sprintf("cluster %s is not formed", in.Spec.Name), Unchanged: true})
	}
	if p := in.misnamed(t.Node); p != nil {
		return refuse(t, notCertain(t.Node, p))
	}
	choose, known := askings[t.Kind]
	if !known {
		return refuse(t, &cke.Error{Code: cke.CodeCannot, What: fmt.Sprintf("this version of cke does not support the task %q", t.Kind), Unchanged: true,
			Try: "run ckecli and cke of the same version"})
	}
	return choose(in, t)
}

// refuse answers a task with the reason why it is not done.
func refuse(t cke.Task, why *cke.Error) Decision {
	return Decision{Operation: op.Refuse{Task: t, Why: why}, Reason: askedFor(t, "refused")}
}

// refuseGate answers a task that the quorum gate does not let pass.
func refuseGate(t cke.Task, what string, g gate) Decision {
	return refuse(t, &cke.Error{Code: cke.CodeQuorum, What: what, Facts: strings.Split(string(g), "; "), Unchanged: true, Try: "ckecli status"})
}

// askedFor is the reason of an operation that serves a task.
func askedFor(t cke.Task, what string) string {
	if t.By == "" {
		return what + "; requested by an operator"
	}
	return what + "; requested by " + t.By
}
