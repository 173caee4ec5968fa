package strategy

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"cke"
	"cke/op"
)

// NoBackups returns why no backups are taken now; "" if they are. A pause is no reason: it protects the cluster from changes.
func NoBackups(in *Input) string {
	switch {
	case in.Deleting:
		return "the cluster is being deleted"
	case !in.Formed():
		return "the cluster has not been bootstrapped"
	case in.Requests.Hibernation != nil && !in.Seen.Etcd.Quorate:
		return "the cluster is hibernated: no member runs, and nothing changes"
	}
	// Which of two histories a member reports, or which of two data sets it holds, is for an operator to find out first.
	return frozen(in).Reason
}

// backupAfterAllElse leaves the turn to every other rule: whoever waits for a target must not keep a member down.
func backupAfterAllElse(*Input, cke.Task) Decision { return Decision{} }

// withBackup puts the oldest backup that an operator asked for in the place of doing nothing, also while the cluster is
// paused or waits for something.
func withBackup(in *Input, d Decision) Decision {
	if d.Operation != nil || in.Deleting {
		return d
	}
	i := slices.IndexFunc(in.Requests.Tasks, isBackup)
	if i < 0 {
		return d
	}
	t := in.Requests.Tasks[i]
	d.Operation, d.Task = op.Backup{Delta: t.Subject == "delta"}, t.ID
	d.Reason = askedFor(t, "a backup")
	return d
}

func isBackup(t cke.Task) bool { return t.Kind == cke.TaskBackup }

// Outrun returns why a running operation must stop for what is requested or known now: a deletion or a hibernation was withdrawn, others joined
// what a deletion stops or a restore replaces, or a backup, which may wait for its target, keeps another operation waiting. The backup is taken
// after that one.
func Outrun(running op.Operation, in *Input) error {
	if _, is := running.(op.DeleteCluster); is && !in.Deleting {
		return errors.New("the deletion was canceled")
	}
	if d, is := running.(op.DeleteCluster); is && !in.Sealed && !in.Seen.Partial {
		if foreign, _ := in.leftByDeletion(d.Joins); foreign != nil {
			return errors.New(foreign[0].Message)
		}
	}
	if _, is := running.(op.Hibernate); is && in.Requests.Hibernation == nil {
		return errors.New("the hibernation was ended")
	}
	begin, begins := running.(op.BeginRestore)
	if o := begin.Task.Restore; begins && o != nil && !in.Seen.Partial && in.seenThough(*o) != nil {
		for _, why := range []*cke.Error{stillThere(in.toRestore(), *o), couldServe(in.toRestore(), *o)} {
			if why != nil { // the order is refused for it
				return why
			}
		}
	}
	restore, is := running.(op.Restore)
	if begins || is && !restore.Started && !in.Identity.Started() {
		if why := in.Requests.EndsRestore(in.untilNow()); why != "" {
			return errors.New(why)
		}
	}
	if is && !restore.Started && in.readBeside(restore) {
		return errors.New("another member list was read of the cluster that the restore replaces")
	}
	if _, is := running.(op.Backup); !is {
		return nil
	}
	if next := decide(*in, omission{backups: true}); next.Operation != nil {
		return fmt.Errorf("%s comes first: %s", next.Operation.Name(), next.Reason)
	}
	return nil
}

// backupReady is True while all that the cluster held a moment ago can be restored, as far as is known.
func backupReady(in *Input) cke.Condition {
	say := func(status cke.Truth, reason, format string, args ...any) cke.Condition {
		return condition(cke.CondBackupReady, status, reason, format, args...)
	}
	s := in.Backup
	if in.Spec.Backup.Target == "" {
		return say(cke.False, "NotConfigured", "the cluster file declares no backup target")
	}
	if s == nil || s.Idle == "" && !s.Known && s.Problem == nil {
		return say(cke.Unknown, "NotSeen", "the target has not been read yet")
	}
	verify := s.Trouble("verify")
	switch late := lateness(in.Spec.Backup); {
	case s.Idle != "":
		return say(cke.False, "Suspended", "%s", s.Idle)
	case s.Problem != nil && s.Problem.Code == cke.CodeStaleBackup:
		return say(cke.False, "Gap", "%s", s.Problem.Message)
	case s.Problem != nil && s.Problem.Code == cke.CodeOtherHistory:
		return say(cke.False, "OtherHistory", "%s", s.Problem.Message)
	case s.Problem != nil:
		return say(cke.False, "Failing", "%s", s.Problem.Message)
	case s.Full.Revision == 0:
		return say(cke.False, "NoFull", "there is no full backup yet")
	case !s.Connected:
		return say(cke.False, "Gap", "changes are missing after the newest full backup; the next one is on its way")
	case s.Lag > late.Seconds():
		return say(cke.False, "Lagging", "changes have not been stored for more than %s", late)
	case verify != nil:
		return say(cke.False, "NotVerified", "the last restore to scratch failed: %s", verify.Message)
	}
	verified := "no restore has been tried yet"
	if s.Verified != nil {
		verified = "last verified at " + s.Verified.At.UTC().Format(time.RFC3339)
	}
	return say(cke.True, "UpToDate", "a full of %s and all changes since are stored; %s", s.Full.At.UTC().Format(time.RFC3339), verified)
}

// lateness is how long changes may wait for the target before that is called a fault.
func lateness(b cke.Backup) time.Duration { return max(time.Minute, 3*time.Duration(b.Delta.Period)) }

// lossShown is how long a loss of backups is reported. The full that follows ends the lack of a newest state, and brings
// nothing back.
const lossShown = 24 * time.Hour

// backupProblems are what is wrong with the backups.
func backupProblems(in *Input) []cke.Problem {
	if in.Backup == nil {
		return nil
	}
	var all []cke.Problem
	troubles := slices.Clone(in.Backup.Troubles)
	for _, t := range in.Before.KnownTargets(in.Backup) {
		if t.URL == in.Backup.Target && t.Lost != nil && in.Seen.ObservedAt.Sub(t.Lost.Since) < lossShown {
			troubles = append(troubles, *t.Lost)
		}
	}
	if p := in.Backup.Problem; p != nil {
		all = append(all, cke.Problem{Code: p.Code, Message: "backups: " + p.Message, Remedy: cke.WayOut(p.Code), Since: p.Since})
	}
	for _, t := range troubles {
		if !slices.ContainsFunc(all, func(p cke.Problem) bool { return p.Code == t.Code }) {
			all = append(all, cke.Problem{Code: t.Code, Message: "backups: " + t.Work + ": " + t.Message, Remedy: cke.WayOut(t.Code), Since: t.Since})
		}
	}
	return all
}

// firstOf reports whether no member runs a version yet. The backup that counts is the one before the first member gets
// it: a cluster that stays halfway for want of a target would be worse off.
func firstOf(in *Input, version string) bool {
	return !slices.ContainsFunc(in.Identity.Joins, func(j cke.Join) bool { return j.Etcd.Version == version })
}

// noFreshBackup is why a change has to wait that there ought to be a way back from; nil when there is one, or when the
// cluster has no backups.
func noFreshBackup(in *Input) error {
	if in.Spec.Backup.Target == "" {
		return nil
	}
	if in.Backup == nil {
		return errors.New("the state of the backups is not known yet")
	}
	if why := in.Backup.Stale(in.Seen.ObservedAt); why != "" {
		return errors.New(why)
	}
	return nil
}
