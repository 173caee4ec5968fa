package mtest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"filippo.io/age"
	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
	"cke/backup"
	"cke/monitoring"
	"cke/mtest/lab"
	"cke/mtest/rig"
	"cke/storage"
)

func (a *alerted) everythingIsCollected() {
	a.may("CkeNoLeaderDaemon") // until the daemon is scraped first
	a.awaitQuery(`up{job="cke"} == 1`, 1)
	a.awaitQuery(`up{job="etcd-prod",cluster="prod",member=~".+"} == 1`, 3)
	a.awaitQuery(`etcd_server_has_leader{job="etcd-prod",cluster="prod"} == 1`, 3)
	a.awaitQuery("cke_leader == 1", 1)
	for name, who := range named() {
		if got := a.query(name); len(got) == 0 && seenLater[name] == "" {
			a.Errorf("%s names %s, which has no series", who, name)
		}
	}
	empty := []string{}
	for _, p := range monitoring.NewDashboard().Panels {
		for _, q := range p.Targets {
			if got := a.query(strings.ReplaceAll(q.Expr, "$cluster", "prod")); len(got) == 0 {
				empty = append(empty, p.Title)
			}
		}
	}
	a.Logf("%d metrics; panels that are empty now: %q", len(named()), empty)
	a.resolves()
}

func (a *alerted) aNodeLosesPower() {
	a.may("CkeQuorumUnknown") // until another leader is elected
	n := a.nodes[1]
	a.must(a.Lab.Kill(a.ctx, n.Name))
	a.fires("CkeNodeUnreachable", "node", n.Name)
	a.fires("CkeNoTolerance", "cluster", "prod")
	a.awaitQuery(fmt.Sprintf(`up{job="etcd-prod",member=%q} == 0`, n.Name), 1)
	a.must(a.Lab.Start(a.ctx, n.Name))
	a.resolves()
	a.awaitQuery(`up{job="etcd-prod"} == 1`, 3)
}

func (a *alerted) noNodeCanBeSeen() {
	a.may("CkeNoTolerance") // while one of three cannot be seen
	for _, n := range a.nodes[:3] {
		a.must(a.Lab.Cut(a.ctx, n.Name, lab.Cut{From: lab.FromHost}))
	}
	a.fires("CkeQuorumUnknown")
	for _, n := range a.nodes[:3] {
		a.fires("CkeNodeUnreachable", "node", n.Name)
		a.must(a.Lab.Heal(a.ctx, n.Name))
	}
	a.resolves()
}

// aClockIsOff: the nodes share one clock, so only what an engine says of it is changed, which is what a daemon reads.
func (a *alerted) aClockIsOff() {
	n := a.nodes[2]
	a.must(a.Lab.SetClock(a.ctx, n.Name, 2*time.Hour))
	a.fires("CkeClockOff", "cluster", "prod")
	p := a.awaitProblem(n.Name, cke.CodeClock)
	a.Logf("%s: %s", p.Node, p.Message)
	a.must(a.Lab.SetClock(a.ctx, n.Name, 0))
	a.resolves()
}

// aRebootFails: the command that reboots or repairs a node fails, and an operator takes the node out of the queue.
func (a *alerted) aRebootFails() {
	c, none := a.file(4), 0
	c.Nodes[3].ControlPlane = false
	c.Reboot = cke.RebootOptions{Command: "fails", Retries: &none}
	c.Repair = cke.RepairOptions{Procedures: []cke.RepairProcedure{{On: "dead", Steps: []cke.RepairStep{{Command: "fails", Watch: cke.Duration(time.Second)}}}}}
	a.set(c)
	node := c.Nodes[3].Name()
	a.do("reboot-queue", "add", node)
	a.fires("CkeRebootQueueStuck")
	a.do("reboot-queue", "cancel", node)
	a.do("repair-queue", "add", node)
	a.fires("CkeRepairQueueStuck")
	a.do("repair-queue", "cancel", node)
	a.resolves()
	a.set(a.file(3))
}

// anInventoryWaits: at first it is not where it is said to be. Then it has the machines, and what follows is not applied.
func (a *alerted) anInventoryWaits() {
	r := newRacks(a.story)
	a.do("sabakan", "set-template", a.story.file("template.yml", r.template(cke.InventoryPropose, "")))
	a.do("sabakan", "set-url", r.path)
	a.do("sabakan", "enable")
	a.fires("CkeInventoryUnread")
	r.write()
	a.fires("CkeInventoryChangeWaits")
	a.do("sabakan", "disable")
	a.resolves()
}

// changesArePaused: meanwhile certificates are not renewed, and members that stopped are not started.
func (a *alerted) changesArePaused() {
	a.may("CkeNoLeaderDaemon", "CkeNoTolerance", "CkeQuorumUnknown") // the test leads for a while, and members start again
	a.do("pause", "--reason", "a test")
	a.await("the pause", seenLimit, func(st cke.Status) bool { c, _ := st.Condition(cke.CondPaused); return c.Status == cke.True })
	a.pausedSince(time.Now().Add(-25 * time.Hour))
	a.fires("CkePausedTooLong")

	members := *a.story
	members.nodes = a.nodes[:3]
	members.certify(time.Now().Add(20*time.Minute), func() {}) // of an hour and twenty minutes
	a.restart(func() {})                                       // it reads all files again
	a.fires("CkeCertificateExpiring", "member", a.nodes[0].Name)

	for _, n := range a.nodes[:2] {
		a.on(n, killContainer)
	}
	a.fires("CkeQuorumLost")
	a.do("resume")
	a.ready()
	a.resolves()
}

// pausedSince sets back the time at which the pause was noticed, which a daemon takes from the stored status.
func (a *alerted) pausedSince(t time.Time) {
	a.Helper()
	store, err := storage.Open(a.ctx, storage.Config{Embedded: storage.EmbeddedConfig{DataDir: filepath.Join(a.Dir, "store")}, SecretKeyFile: filepath.Join(a.Dir, "secret.key")})
	a.must(err)
	defer store.Close()
	won := make(chan *storage.Term)
	go func() {
		term, err := store.Campaign(a.ctx, a.Cluster, "a test")
		if err != nil {
			a.Error(err)
		}
		won <- term
	}()
	var term *storage.Term
	for term == nil {
		a.do("leader", "--resign", "--no-wait")
		select {
		case term = <-won:
			if term == nil {
				a.FailNow()
			}
		case <-time.After(2 * time.Second): // it was not in the queue yet
		}
	}
	st, err := store.Status(a.ctx, a.Cluster)
	a.must(err)
	for i := range st.Conditions {
		if st.Conditions[i].Type == cke.CondPaused {
			st.Conditions[i].Since = t
		}
	}
	a.must(term.PutStatus(a.ctx, st))
	a.must(term.Resign(a.ctx))
}

func (a *alerted) dataDiffers() {
	a.may("CkeNoTolerance", "CkeQuorumUnknown") // a member is stopped while its data is altered
	was, is := "a value as it was", "a value as it is!"
	c := a.client()
	a.must(rig.PutThrough(a.within(seenLimit), c, "precious", was))
	a.alter(a.nodes[1], was, is)
	a.refusedWith(1, "CKE306", "etcd", "compare")
	a.fires("CkeFrozen")
	a.alter(a.nodes[1], is, was)
	a.do("cluster", "unfreeze", a.Cluster, "--reason", "a disk was altered by a test", "--confirm", a.Cluster)
	a.ready()
	a.resolves()
}

// client is a client of all members.
func (a *alerted) client() *clientv3.Client {
	a.Helper()
	c, err := rig.Client(rig.URL(a.nodes[0]), a.clientTLS())
	a.must(err)
	a.Cleanup(func() { c.Close() })
	c.SetEndpoints(rig.URL(a.nodes[0]), rig.URL(a.nodes[1]), rig.URL(a.nodes[2]))
	return c
}

func (a *alerted) aDatabaseIsNearlyFull() {
	c, ctx := a.client(), a.within(readyLimit)
	for i, full := 0, false; !full; i++ { // the file grows by some MiB at a time
		if i == alertsQuota>>20 {
			a.Fatalf("%d MiB make no database of %d MiB", i, alertsQuota>>20)
		}
		a.must(rig.PutThrough(ctx, c, fmt.Sprint("large/", i), strings.Repeat("x", 1<<20)))
		st, err := c.Status(ctx, rig.URL(a.nodes[0]))
		a.must(err)
		full = st.DbSize > alertsQuota*8/10
	}
	a.fires("CkeDatabaseNearQuota", "member", a.nodes[0].Name)
	a.insist(ctx, func() error {
		gone, err := c.Delete(ctx, "large/", clientv3.WithPrefix())
		if err == nil {
			_, err = c.Compact(ctx, gone.Header.Revision, clientv3.WithCompactPhysical())
		}
		return err
	})
	a.do("etcd", "defrag")
	a.resolves()
}

// theTargetIsGone: the daemon that stored the backups knows a state that is new enough, for an hour. Another one knows none.
func (a *alerted) theTargetIsGone() {
	a.may("CkeNoLeaderDaemon", "CkeDrillFailed")
	aside := a.target + ".aside"
	a.must(os.Rename(a.target, aside))
	a.awaitQuery(`cke_backup_failing{cluster="prod",work="take"} == 1`, 1)
	a.restart(func() {})
	a.fires("CkeBackupTooOld")
	a.must(os.RemoveAll(a.target))
	a.must(os.Rename(aside, a.target))
	a.awaitBackups("True UpToDate")
	a.resolves()
}

// aDrillFails: the body of each full is damaged. Its header, which is read when a daemon starts, is right.
func (a *alerted) aDrillFails() {
	a.may("CkeNoLeaderDaemon", "CkeBackupTooOld") // a daemon that starts reads first what the target holds
	a.restart(func() {
		n := 0
		for _, name := range files(a.story, a.target) {
			if strings.Contains(name, "/full/") && strings.HasSuffix(name, ".cke") {
				n++
				file := filepath.Join(a.target, name)
				b, err := os.ReadFile(file)
				a.must(err)
				b[len(b)-100]++
				a.must(os.WriteFile(file, b, 0o600))
			}
		}
		if n == 0 {
			a.Fatalf("no full in %q", files(a.story, a.target))
		}
	})
	a.fires("CkeDrillFailed")
	a.restart(func() {}) // it repeats a drill that failed at once, from a full that the one before it took
	a.resolves()
}

// aDrillIsOverdue: only a key that this host does not have opens the backups. Where it is, a drill succeeded two days ago.
func (a *alerted) aDrillIsOverdue() {
	a.may("CkeNoLeaderDaemon", "CkeBackupTooOld", "CkeDrillFailed")
	elsewhere, err := age.GenerateX25519Identity()
	a.must(err)
	c := a.file(3)
	c.Backup.Encryption.Recipients = []string{elsewhere.Recipient().String()}
	a.becomes(c)
	a.now()
	own, err := storage.ReadKeyFile(filepath.Join(a.Dir, "secret.key"))
	a.must(err)
	a.restart(func() {
		host := &backup.Store{Bucket: backup.Dir(a.target), Cluster: a.Cluster, Scratch: a.TempDir(), Identities: []age.Identity{elsewhere},
			Signer: backup.NewSigner(own), Trusted: backup.SignersOf([]age.Identity{own}), Now: func() time.Time { return time.Now().Add(-49 * time.Hour) }}
		x, err := host.Drill(a.ctx, backup.At{}, nil)
		a.must(err)
		a.Logf("a drill restored revision %d from %s", x.Revision, x.Full)
	})
	a.fires("CkeDrillStale", "cluster", a.Cluster)
	a.becomes(a.file(3))
	a.now()
	a.restart(func() {})                                                                                           // it does not wait for the pause after a drill that failed
	a.awaitQuery(fmt.Sprintf("cke_backup_next_drill_timestamp_seconds{cluster=%q} > time() - 3600", a.Cluster), 1) // one succeeded
	a.resolves()
}

// aLearnerIsStuck: a new member reaches no other one, and loses what it had, twice. To add it fails, too.
func (a *alerted) aLearnerIsStuck() {
	n := a.nodes[3]
	for _, other := range a.nodes[:3] {
		a.must(a.Lab.Cut(a.ctx, n.Name, lab.Cut{From: other.Name}))
	}
	a.set(a.file(4))
	gone := ""
	for range 2 {
		a.await("a new member's volume", readyLimit, func(cke.Status) bool {
			now := rig.Lines(a.carried(n), "container ")
			return len(now) == 1 && strings.Fields(now[0])[1] != gone
		})
		gone = strings.Fields(rig.Lines(a.carried(n), "container ")[0])[1]
		a.on(n, fmt.Sprintf("docker rm -f %[1]s && docker volume rm %[1]s", gone))
	}
	a.fires("CkeLearnerStuck")
	a.set(a.file(3))
	a.must(a.Lab.Heal(a.ctx, n.Name))
	a.ready()
	a.resolves()
}

func (a *alerted) noDaemonRuns() {
	a.restart(func() { a.fires("CkeNoLeaderDaemon") })
	a.resolves()
}

// operationsFail: etcd does not take an argument. The alert counts for an hour.
func (a *alerted) operationsFail() {
	a.may("CkeNoTolerance", "CkeQuorumUnknown") // the member that is restarted with it does not start
	c := a.file(3)
	c.Options.Etcd.ExtraArgs = append(c.Options.Etcd.ExtraArgs, "--cipher-suites=NO_SUCH_CIPHER")
	a.set(c)
	a.fires("CkeOperationsFailing")
	a.lasting = append(a.lasting, "CkeOperationsFailing")
	a.becomes(a.file(3))
	a.resolves()
}
