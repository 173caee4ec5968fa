package strategy_test

import (
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// ended puts a membership on record that ended on the ith node, with its volume still there; it is kept until a time
// before or after the observation, or for ever.
func (s *scene) ended(i int, keep *time.Duration) *scene {
	n := s.node(i)
	j := cke.Join{ID: "old", Incarnation: "life", Node: n.Node, Member: n.Node.Name(), Volume: "etcd-cke.old", MemberID: "m9", StartedAt: noon.Add(-time.Hour), EndedAt: noon.Add(-30 * time.Minute)}
	if keep != nil {
		j.KeepUntil = noon.Add(*keep)
	}
	s.end(j)
	n.Volumes = append(n.Volumes, cke.Volume{Name: j.Volume, Cluster: "demo", Incarnation: j.Incarnation, Join: j.ID})
	return s
}

func in(d time.Duration) *time.Duration { return &d }

// Requirements I7, A14: archived data goes when its time is over and everything serves without it, never before.
func TestDecide_RemovesArchivedVolumesWhenTheirTimeIsOver(t *testing.T) {
	purge := func(s *scene) op.PurgeVolume { return op.PurgeVolume{Join: s.Identity.Ended[0]} }
	over := func() *scene { return formed(3).ended(2, in(-time.Second)) }
	target := func(s *scene) { s.Spec.Backup.Target = "file:///backups" }
	atOnce := func() *scene { return formed(3).ended(2, in(-30*time.Minute)).with(target) }
	verified := func(ago time.Duration) func(*scene) {
		return func(s *scene) {
			s.Backup = &cke.BackupStatus{Target: "file:///backups", Known: true, Connected: true, Time: noon, Verified: &cke.VerifiedBackup{At: noon.Add(-ago)}, Full: cke.StoredBackup{Revision: 7}}
		}
	}
	begun := formed(3).ended(2, nil)
	begun.Identity.Ended[0].PurgedAt = noon
	gone := over()
	gone.Identity.Ended[0].RemovedAt = noon
	check(t, []row{
		{"its time is over", over(), purge(over()), "its time is over", nil},
		{"not before", formed(3).ended(2, in(time.Second)), nil, "nothing to do", nil},
		{"kept until a person purges it", formed(3).ended(2, nil), nil, "nothing to do", nil},
		{"a removal that was begun is finished", begun, purge(begun), "its time is over", nil},
		{"one that is done is not", gone, nil, "nothing to do", nil},
		{"not while a member is away", over().silent(3), nil, "waiting for n3", []string{"CKE201 n3"}},
		{"not while the quorum is lost", over().silent(1, 3).lost(), nil, "n1 and n3 do not answer", []string{"CKE201 n1", "CKE215 n2", "CKE201 n3"}},
		{"not while its own node is silent", formed(3).ended(2, in(-time.Second)).silent(2), nil, "waiting for n2", []string{"CKE201 n2"}},
		{"archived for a while it needs no backup", over().with(target), purge(over()), "its time is over", nil},
		{"at once not without a verified backup", atOnce(), nil, "nothing to do", nil},
		{"nor with one that is old", atOnce().with(verified(72 * time.Hour)), nil, "nothing to do", nil},
		{"nor with one dated in the future", atOnce().with(verified(-8760 * time.Hour)), nil, "nothing to do", nil},
		{"at once with a fresh one", atOnce().with(verified(time.Hour)), purge(atOnce()), "its time is over", nil},
	})
	if d := strategy.Decide(over().Input); !d.Converged {
		t.Error("an old volume keeps the cluster from being as declared")
	}
}

// Requirement I7: what persons may do to archived data.
func TestDecide_PurgesAndUndeletesForPersons(t *testing.T) {
	refused := func(s *scene, code cke.Code, what string, facts ...string) op.Refuse {
		return op.Refuse{Task: s.Requests.Tasks[0], Why: &cke.Error{Code: code, What: what, Facts: facts, Unchanged: true, Try: "ckecli volume list"}}
	}
	keeps := "volume etcd-cke.old is not removed"
	purge := func(s *scene) *scene { return s.task(cke.TaskPurge, "", "etcd-cke.old") }
	kept := purge(formed(3).ended(2, nil))
	present := formed(3).task(cke.TaskPurge, "", "etcd-cke.join2")
	other := purge(formed(3).ended(2, nil).with(func(s *scene) {
		s.Identity.Ended, s.node(2).Volumes[1].Cluster = nil, "other"
	}))
	foreign := purge(formed(3).ended(2, nil).with(func(s *scene) {
		s.Identity.Ended, s.node(2).Volumes[1].Cluster = nil, ""
	}))
	leftover := purge(formed(3).ended(2, nil).with(func(s *scene) { s.Identity.Ended, s.node(2).Volumes[1].Incarnation = nil, "before" }))
	used := purge(formed(3).ended(2, nil).with(func(s *scene) {
		s.Identity.Ended, s.node(2).Volumes[1].Incarnation = nil, "before"
		s.node(2).Containers = append(s.node(2).Containers, cke.Container{Name: "etcd-cke.old", Cluster: "demo", Incarnation: "before", Join: "old", KeptDown: true})
	}))
	away := purge(formed(3).ended(2, nil).silent(3))
	none := formed(3).task(cke.TaskPurge, "", "etcd-cke.none")
	undelete := formed(3).ended(2, in(time.Hour)).task(cke.TaskUndelete, "", "etcd-cke.old")
	keptAlready := formed(3).ended(2, nil).task(cke.TaskUndelete, "", "etcd-cke.old")
	inUse := formed(3).task(cke.TaskUndelete, "", "etcd-cke.join2")
	lost := formed(3).ended(2, in(time.Hour)).with(func(s *scene) { s.node(2).Volumes = s.node(2).Volumes[:1] }).task(cke.TaskUndelete, "", "etcd-cke.old")
	unseen := formed(3).ended(2, in(time.Hour)).silent(2).task(cke.TaskUndelete, "", "etcd-cke.old")
	check(t, []row{
		{"an archived one", kept, op.PurgeVolume{Join: kept.Identity.Ended[0], Asked: true}, "requested by eve@host", nil},
		{"that of a present member", present, refused(present, cke.CodeVolume, "volume etcd-cke.join2 is not removed", "it holds the data of the present member on n2"), "refused", nil},
		{"of another cluster", other, refused(other, cke.CodeVolume, keeps, "it belongs to cluster other"), "refused", nil},
		{"without label", foreign, refused(foreign, cke.CodeVolume, keeps, "it has no label of cke"), "refused", nil},
		{"of a life that nobody knows", leftover, op.PurgeVolume{Join: cke.Join{ID: "old", Incarnation: "before", Node: formed(3).node(2).Node, Volume: "etcd-cke.old", Etcd: leftover.Spec.Options.Etcd}, Asked: true}, "requested", nil},
		{"of a life that nobody knows, in use", used, refused(used, cke.CodeVolume, keeps, "container etcd-cke.old uses it, and is not on record"), "refused", nil},
		{"while a member is away", away, refused(away, cke.CodeVolume, keeps, "2 of 3 voters are healthy, 0 members are being added: it may still be needed"), "refused", nil},
		{"that is not there", none, refused(none, cke.CodeCannot, "there is no archived volume etcd-cke.none"), "refused", nil},
		{"undeleted", undelete, op.UndeleteVolume{Join: undelete.Identity.Ended[0]}, "requested", nil},
		{"undeleted twice", keptAlready, op.Settled{Task: keptAlready.Requests.Tasks[0]}, "kept already", nil},
		{"undeleted, though in use", inUse, refused(inUse, cke.CodeVolume, "volume etcd-cke.join2 is in use", "it holds the data of the present member on n2"), "refused", nil},
		{"undeleted, though somebody removed it", lost, refused(lost, cke.CodeVolume, "volume etcd-cke.old cannot be kept", "n2 answers, and it is not there"), "refused", nil},
		{"undeleted, on a node that is silent", unseen, op.UndeleteVolume{Join: unseen.Identity.Ended[0]}, "requested", nil},
	})
}
