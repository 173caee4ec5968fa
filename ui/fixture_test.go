package ui_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/server/strategy"
	"cke/server/strategy/scenes"
	"cke/ui"
)

var noon = scenes.Noon

// page serves a world at noon.
func page(t testing.TB, w *world) *ui.Page {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	return ui.New(ctx, config(w))
}

func config(w *world) ui.Config {
	return ui.Config{Store: func() (ui.Store, error) { return w, nil }, Version: "1.2.3", Now: func() time.Time { return noon }, Log: slog.New(slog.DiscardHandler), Curves: w.curves}
}

// troubleAge is how long the problems of a cluster have been there.
const troubleAge = 40 * time.Minute

// spell gives nodes the names of control-plane nodes, anywhere in a value.
func spell[T any](v T) (out T) {
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(regexp.MustCompile(`\bn(\d)\b`).ReplaceAll(regexp.MustCompile(`"m(\d)"`).ReplaceAll(text, []byte(`"a$1"`)), []byte("cp$1")), &out)
	}
	if err != nil {
		panic(err)
	}
	return out
}

// scene is a cluster in a state: what is declared, what is observed, and what the strategy makes of it.
func scene(name string, members int, change func(*strategy.Input)) *stored {
	in := scenes.Formed(members)
	in.Spec.Name = name
	in.Spec.Options.Etcd.ExtraArgs = []string{"--quota-backend-bytes=2147483648"}
	in.Spec.Options.Etcd.ExtraEnv = map[string]string{"ETCD_LOGIN": "s3cr3t-of-env"}
	for i := range in.Seen.Nodes {
		in.Seen.Nodes[i].Containers[0].Cluster, in.Seen.Nodes[i].Volumes[0].Cluster = name, name
		in.Identity.Joins[i].Etcd = in.Spec.Options.Etcd
	}
	in.Identity.Incarnation.Founders = in.Identity.Joins
	in.Seen.ObservedAt = noon.Add(-2 * time.Second)
	in.Generation = 3
	for i := range in.Seen.Etcd.Endpoints {
		e := &in.Seen.Etcd.Endpoints[i]
		e.Version, e.StorageVersion, e.Revision = "3.6.16", "3.6.0", 184213
		e.DBSize, e.DBSizeInUse, e.RaftIndex, e.RaftApplied, e.RaftTerm = 105_000_000, 84_000_000, 190_000, 190_000, 4
		e.CertNotBefore, e.CertNotAfter = noon.Add(-53*24*time.Hour), noon.Add(time.Duration(312-i)*24*time.Hour)
	}
	for i := range in.Seen.Nodes {
		in.Seen.Nodes[i].Containers[0].Data = cke.DataPresent
	}
	in.Backup = scenes.SoundBackups()
	in.Backup.Target, in.Backup.Full.At, in.Backup.Time = "s3://backups/etcd", noon.Add(-9*time.Hour), noon.Add(-time.Minute)
	in.Backup.Since = noon.Add(-57 * time.Hour)
	for i := range 4 {
		in.Backup.Fulls = append(in.Backup.Fulls, noon.Add(-time.Duration(81-24*i)*time.Hour))
	}
	in.Backup.NextFull, in.Backup.NextVerify = noon.Add(15*time.Hour), noon.Add(17*time.Hour)
	in.Backup.Verified = &cke.VerifiedBackup{Revision: 118, At: noon.Add(-7 * time.Hour), HashChecked: true, Booted: "3.6.16"}
	in.Spec.Backup.Target = in.Backup.Target
	in.Identity.Compared = &cke.Comparison{At: noon.Add(-22 * time.Minute), Revision: 184100, Hashes: []cke.MemberHash{{Node: "n1", Hash: 7}, {Node: "n2", Hash: 7}, {Node: "n3", Hash: 7}}}
	in.Before.Members = nil
	if change != nil {
		change(in)
	}
	before := cke.Status{Leader: cke.Leader{Host: "boot-1", Term: 7, Since: noon.Add(-6 * 24 * time.Hour)}}
	c := &stored{led: true, requests: in.Requests, identity: in.Identity, records: records(name)}
	before.LastOperation = &cke.OperationStatus{ID: 41, Type: "restart-member", Targets: []string{"n2"}, State: cke.RecordCompleted, Time: noon.Add(-2 * time.Hour)}
	d := strategy.Decide(*in)
	st := spell(strategy.Report(*in, d, before))
	for i := range st.Members {
		if st.Members[i].Since = noon.Add(-time.Duration(12-i) * 24 * time.Hour); !st.Members[i].Ready {
			st.Members[i].Since = noon.Add(-troubleAge)
			if h := in.Requests.Hibernation; h != nil {
				st.Members[i].Since = h.Since
			}
		}
	}
	for i := range st.Problems {
		st.Problems[i].Since = noon.Add(-troubleAge)
	}
	st.Cluster = name
	c.status = &st
	c.identity = spell(c.identity)
	c.log = revisionsOf(name, in)
	return c
}

// revisionsOf are three revisions of a cluster file.
func revisionsOf(name string, in *strategy.Input) []cke.Spec {
	file := spell(in.Spec)
	log := []cke.Spec{}
	for i, version := range []string{"3.6.16", "3.6.15", "3.6.15"} {
		c := file
		c.Options.Etcd.Version, c.Options.Etcd.Image = version, ""
		if i == 2 {
			c.Options.Etcd.ExtraArgs = nil
		}
		log = append(log, cke.Spec{Cluster: c, Generation: int64(3 - i), SetAt: noon.Add(-time.Duration(i*40+2) * time.Hour), SetBy: "ann@boot-1"})
	}
	log[0].Cluster = file
	return log
}

// records are a history, newest first.
func records(name string) (all []cke.Record) {
	at := func(d time.Duration) time.Time { return noon.Add(-2 * time.Hour).Add(d) }
	steps := func(start time.Time, ms ...int) (all []cke.StepRecord) {
		for i, n := range []string{"image", "move-leader", "stop", "start", "serve", "verify"} {
			end := start.Add(time.Duration(ms[i]) * time.Millisecond)
			all = append(all, cke.StepRecord{Name: n, Node: "cp2", StartedAt: start, EndedAt: end})
			start = end
		}
		return all
	}
	one := cke.Record{ID: 41, Operation: "restart-member", Targets: []string{"cp2"}, Reason: "runs --quota-backend-bytes=2147483648, declared 8589934592", State: cke.RecordCompleted,
		StartedAt: at(0), EndedAt: at(3100 * time.Millisecond), Steps: steps(at(0), 100, 13, 900, 400, 1300, 380)}
	two, three := one, one
	two.ID, two.Targets, two.StartedAt, two.EndedAt = 40, []string{"cp3"}, at(-70*time.Second), at(-67*time.Second)
	three.ID, three.Targets, three.State, three.Error, three.Code = 39, []string{"cp3"}, cke.RecordFailed, "pull image v3.6.16 on cp3: no route to host", cke.CodeImage
	three.StartedAt, three.EndedAt = at(-90*time.Second), at(-81*time.Second)
	three.Steps = []cke.StepRecord{{Name: "image", Node: "cp3", StartedAt: three.StartedAt, EndedAt: three.EndedAt, Error: "no route to host"}}
	four := cke.Record{ID: 38, Operation: "backup", Reason: "a full is due", State: cke.RecordCompleted, StartedAt: at(-7 * time.Hour), EndedAt: at(-7*time.Hour + 1400*time.Millisecond),
		Backup: &cke.StoredBackup{Kind: "full", ID: "life/1", Revision: 100, At: at(-7 * time.Hour)}}
	five := four
	five.ID, five.StartedAt, five.EndedAt = 37, at(-31*time.Hour), at(-31*time.Hour+1300*time.Millisecond)
	five.Backup = &cke.StoredBackup{Kind: "full", ID: "life/0", Revision: 80, At: five.StartedAt}
	for _, r := range []cke.Record{one, two, three, four, five} {
		r.Cluster, r.Host, r.Term, r.Generation = name, "boot-1", 7, 3
		all = append(all, r)
	}
	return all
}

// silentNode is how a node that does not answer is observed.
func silentNode(in *strategy.Input, nodes ...int) {
	scenes.Silence(in, nodes...)
	for _, i := range nodes {
		n := &in.Seen.Nodes[i-1]
		n.Problem.Message = fmt.Sprintf("sshd at %s cannot be reached: no route to host", n.Node.SSHAddress())
		n.Problem.Remedy = "check power, network and sshd of " + n.Node.Name() + "; cke continues by itself once it answers; if the machine is gone for good: `ckecli replace " + n.Node.Name() + "`"
	}
}

// states has a cluster in each state, by its name.
func states() map[string]*stored {
	all := map[string]*stored{
		"healthy":  scene("healthy", 3, nil),
		"degraded": scene("degraded", 3, func(in *strategy.Input) { silentNode(in, 3) }),
		"lost": scene("lost", 3, func(in *strategy.Input) {
			scenes.Stop(in, 2, 3)
			scenes.LoseQuorum(in)
		}),
		"unseen": scene("unseen", 3, func(in *strategy.Input) {
			silentNode(in, 2, 3)
			scenes.LoseQuorum(in)
		}),
		"frozen": scene("frozen", 3, func(in *strategy.Input) {
			in.Identity.Freeze = &cke.Freeze{ID: "f1", At: noon.Add(-time.Hour), Problem: cke.Problem{Code: cke.CodeSplitBrain, Node: "n3", Message: "the member of n3 answers with cluster id c2, not c1",
				Remedy: "`ckecli cluster evidence` shows all that was found; keep every volume, and find the member with the wrong data"}}
			in.Seen.Etcd.Endpoints[2].ClusterID = "c2"
		}),
		"paused": scene("paused", 3, func(in *strategy.Input) {
			in.Requests.Hold = &cke.Hold{Reason: "switch maintenance", By: "ann@boot-1", Since: noon.Add(-time.Hour), Until: noon.Add(3 * time.Hour)}
			scenes.Stop(in, 2)
		}),
		"hibernated": scene("hibernated", 3, func(in *strategy.Input) {
			in.Requests.Hibernation = &cke.Hibernation{By: "ann@boot-1", Since: noon.Add(-5 * time.Hour)}
			scenes.Stop(in, 1, 2, 3)
			scenes.LoseQuorum(in)
		}),
		"restoring": scene("restoring", 3, func(in *strategy.Input) {
			in.Identity.Incarnation.State = cke.Restoring
			in.Identity.Incarnation.Restore = &cke.Restoration{ID: "t1", By: "ann@boot-1"}
			in.Identity.Joins, in.Seen.Etcd = nil, cke.EtcdStatus{}
			for i := range in.Seen.Nodes {
				in.Seen.Nodes[i].Containers, in.Seen.Nodes[i].Volumes = nil, nil
			}
		}),
		"bootstrapping": scene("bootstrapping", 3, func(in *strategy.Input) {
			blank := scenes.Blank(3)
			blank.Spec.Name = "bootstrapping"
			blank.Seen.ObservedAt, blank.Generation = in.Seen.ObservedAt, 1
			*in = *blank
		}),
		"zones": scene("zones", 3, func(in *strategy.Input) {
			for i := range in.Spec.Nodes {
				in.Spec.Nodes[i].Zone = fmt.Sprintf("rack%d", i+1)
			}
		}),
		"crowded": scene("crowded", 5, func(in *strategy.Input) {
			for i, zone := range []string{"rack1", "rack1", "rack1", "rack2", ""} {
				in.Spec.Nodes[i].Zone = zone
			}
		}),
		"seven": scene("seven", 7, func(in *strategy.Input) {
			for i := range in.Spec.Nodes {
				in.Spec.Nodes[i].Zone = fmt.Sprintf("rack%d", i%3+1)
			}
			scenes.Stop(in, 6)
		}),
	}
	for name, said := range inventories() {
		all[name] = scene(name, 3, func(in *strategy.Input) {
			said.Source, said.Hosts, said.Candidates = "sabakan at http://10.0.0.90:10080/graphql", map[cke.HostState]int{cke.HostHealthy: 15, cke.HostRetired: 1}, 4
			if said.ReadAt = noon.Add(-12 * time.Second); said.Failures > 0 {
				said.ReadAt = noon.Add(-26 * time.Minute)
			}
			in.Inventory = &said
			for i := range in.Spec.Nodes {
				in.Spec.Nodes[i].Annotations = map[string]string{cke.AnnotationSerial: fmt.Sprintf("1234ab%d", i+1)}
			}
		})
	}
	running := scene("updating", 3, func(in *strategy.Input) {
		for i := range in.Identity.Joins {
			in.Identity.Joins[i].Etcd.ExtraArgs = nil
		}
		scenes.Stop(in, 2)
	})
	running.status.Problems, running.status.Members[1].State = nil, "restarting"
	running.status.Health, running.status.Summary = cke.HealthUpdating, "revision 3 is being applied: 2 of 3 members serve"
	op := running.records[0]
	op.ID, op.State, op.EndedAt, op.StartedAt = 42, cke.RecordRunning, time.Time{}, noon.Add(-4*time.Second)
	op.Steps = []cke.StepRecord{{Name: "image", Node: "cp2", StartedAt: op.StartedAt, EndedAt: op.StartedAt.Add(time.Second)}, {Name: "stop", Node: "cp2", StartedAt: op.StartedAt.Add(time.Second), Progress: "waits for etcd"}}
	running.records = append([]cke.Record{op}, running.records...)
	running.status.Operation = &cke.OperationStatus{ID: 42, Type: op.Operation, Targets: op.Targets, State: cke.RecordRunning, Time: op.StartedAt}
	all["updating"] = running
	none := scene("undeclared", 3, nil)
	none.status, none.led, none.records = nil, false, nil
	all["undeclared"] = none
	broken := scene("holes", 3, func(in *strategy.Input) {
		in.Backup.Problem = &cke.BackupTrouble{Work: "store", Code: cke.CodeTarget, Message: "put deltas/184213 in s3://backups/etcd: no space left", Since: noon.Add(-90 * time.Minute)}
		in.Backup.Time, in.Backup.LagRevisions, in.Backup.Lag = noon.Add(-91*time.Minute), 4211, 5400
	})
	for i := range broken.status.Problems {
		broken.status.Problems[i].Remedy = "free space in the target, or give it more; cke continues by itself once there is some"
	}
	all["holes"] = broken
	stale := scene("stale", 3, nil)
	stale.led = false
	stale.status.ObservedAt = noon.Add(-7 * time.Minute)
	all["stale"] = stale
	silent := scene("silent", 3, nil)
	silent.status.ObservedAt = noon.Add(-7 * time.Minute)
	all["silent"] = silent
	return all
}

// inventories are inventories in each state, by the name of their cluster.
func inventories() map[string]cke.InventoryStatus {
	exchange := cke.InventoryProposal{Hash: "6611a4b66692a78b", Cause: cke.CauseRetired, Old: "1234ab2", New: "1234ab7", Reason: "machine 1234ab2 is retired: 1234ab7 in rack4 takes the place of cp2"}
	held := exchange
	held.Confirm = []string{"it overrides per-day: 2 changes moved members in the last 24h, as many as the template allows"}
	return map[string]cke.InventoryStatus{
		"machines": {Mode: cke.InventoryAuto, Reason: "the cluster file is as the inventory and the template say", Log: cke.InventoryLog{Changes: []cke.InventoryChange{
			{Cause: cke.CauseRetired, Old: "1234ab9", New: "1234ab3", Generation: 3, At: noon.Add(-2 * time.Hour)}}}},
		"proposed": {Mode: cke.InventoryPropose, Reason: exchange.Reason, Change: &exchange},
		"held": {Mode: cke.InventoryAuto, Reason: "2 changes moved members in the last 24h, as many as the template allows", Stop: "per-day", Override: &held,
			Notes: []cke.InventoryNote{{Node: "cp1", Text: "machine 1234ab1 is retiring; it is exchanged after 5m", Until: noon.Add(3 * time.Minute)}}},
		"unread": {Mode: cke.InventoryAuto, Failures: 50, Failure: "no whole answer within 5s", Stop: "read", Code: cke.CodeInventory,
			Reason: "the inventory cannot be read, the last good read is 26m old: sabakan at http://10.0.0.90:10080/graphql: no whole answer within 5s"},
	}
}

// everything is a world with a cluster in each state.
func everything() *world {
	w := newWorld()
	w.clusters = states()
	return w
}

// hostile is a cluster whose texts come from an enemy.
func hostile() *stored {
	c := scene("hostile", 3, func(in *strategy.Input) { silentNode(in, 3) })
	evil, long := `<script>alert(1)</script>" onload="x`, strings.Repeat("verylongword", 900)
	s := c.status
	s.Summary, s.Reason = evil+long, long+evil
	s.Problems[0].Message, s.Problems[0].Remedy = evil+long, "`ckecli replace "+evil+"` "+long
	s.Members[0].Name, s.Members[0].Reason, s.Members[1].CannotStopBecause = evil, long, long
	s.Members[1].CanStop = false
	s.Leader.Host, s.Members[2].Address = long, evil
	c.records[0].Reason, c.records[0].Operation, c.records[0].Steps[0].Name = long+evil, evil, long
	c.log[0].SetBy = evil + long
	s.Inventory = &cke.InventoryStatus{Source: evil + long, Mode: cke.InventoryMode(evil), Reason: long + evil, Notes: []cke.InventoryNote{{Text: evil + long}},
		Change: &cke.InventoryProposal{Hash: evil, Confirm: []string{long + evil}}, Log: cke.InventoryLog{Changes: []cke.InventoryChange{{Old: evil, New: long}}}}
	c.requests.Hold = &cke.Hold{Reason: evil + long, By: evil, Since: noon}
	return c
}

var errStore = errors.New("the store does not answer: context deadline exceeded")
