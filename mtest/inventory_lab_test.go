package mtest_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cke"
	"cke/mtest/lab"
	"cke/mtest/rig"
	"cke/storage"
	"cke/storage/embedded"
)

// racks is an inventory file of the machines of a lab.
type racks struct {
	*story
	path   string
	states map[string]cke.HostState
}

func newRacks(s *story) *racks {
	return &racks{story: s, path: filepath.Join(s.Dir, "hosts.yml"), states: map[string]cke.HostState{}}
}

// write replaces the file in one step.
func (r *racks) write() {
	r.Helper()
	text := "hosts:\n"
	for i, n := range r.nodes {
		text += fmt.Sprintf("  - {id: %s, address: %s, role: cs, zone: rack%d", n.Name, n.Address, i+1)
		if state := r.states[n.Name]; state != "" {
			text += ", state: " + string(state)
		}
		text += "}\n"
	}
	r.file("hosts.yml.new", text)
	r.must(os.Rename(r.path+".new", r.path))
}

// template is that of a cluster of three on the racks.
func (r *racks) template(mode cke.InventoryMode, more string) string {
	n := r.nodes[0]
	return fmt.Sprintf(`name: prod
nodes:
  - {control_plane: true, user: %s, ssh: {port: %d}}
options: {etcd: {version: %s}}
inventory: {source: file, mode: %s, interval: 5s, limits: {settle: 1m}%s}
`, n.User, n.Port, rig.EtcdVersion, mode, more)
}

// watchedForAnHour stores what a daemon would have stored that had read the file for an hour. No daemon runs.
func (r *racks) watchedForAnHour() {
	r.Helper()
	ctx := r.within(seenLimit)
	c := storage.Config{Embedded: storage.EmbeddedConfig{DataDir: filepath.Join(r.Dir, "store")}, SecretKeyFile: filepath.Join(r.Dir, "secret.key"),
		SessionTTL: 3 * time.Second, Log: slog.New(slog.DiscardHandler)}
	inside, err := embedded.Start(ctx, c.Embedded.DataDir, c.Log, func(string) {})
	r.must(err)
	defer inside.Close()
	store, err := storage.Open(ctx, c)
	r.must(err)
	defer store.Close()
	past, err := store.InventoryPast(ctx, r.Cluster)
	r.must(err)
	past.ReadAt, past.Hosts = time.Now().UTC(), map[string]cke.HostPast{}
	for _, n := range r.nodes {
		past.Hosts[n.Name] = cke.HostPast{State: cke.HostHealthy, Address: n.Address, Reads: 100, Watched: cke.Duration(time.Hour), Accepted: cke.HostHealthy}
	}
	term, err := store.Campaign(ctx, r.Cluster, "earlier")
	r.must(err)
	r.must(term.PutInventoryPast(ctx, past))
	r.must(term.Resign(ctx))
}

// patientWrite is how long a client of the story waits for a write.
const patientWrite = 10 * time.Second

// writesEachOf writes again and again through members, as a client that waits. end ends that and returns how many writes there were; failed
// returns why some of them were not acknowledged.
func (s *story) writesEachOf(urls []string) (end func() int, failed func() []error) {
	s.Helper()
	ctx, cancel := context.WithCancel(s.ctx)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	n := 0
	for i, url := range urls {
		c, err := rig.Client(url, s.clientTLS())
		s.must(err)
		s.Cleanup(func() { c.Close() })
		wg.Go(func() {
			for tick := time.NewTicker(50 * time.Millisecond); ctx.Err() == nil; <-tick.C {
				ctx, cancel := context.WithTimeout(s.ctx, patientWrite)
				_, err := c.Put(ctx, fmt.Sprintf("patient/%d", i), time.Now().String())
				cancel()
				mu.Lock()
				if n++; err != nil {
					errs = append(errs, err)
				}
				mu.Unlock()
			}
		})
	}
	end = func() int { cancel(); wg.Wait(); return n }
	s.Cleanup(func() { end() })
	return end, func() []error { return errs }
}

// sortedNames are those of the nodes with a member.
func sortedNames(st cke.Status) []string {
	all := names(st)
	slices.Sort(all)
	return all
}

// worthNaming is how long clients must have had no write acknowledged that the story says what was done meanwhile.
const worthNaming = 200 * time.Millisecond

// exchangedUnderLoad does something to the inventory, and waits until these members serve. Meanwhile clients write, and those whose history is
// checked, through members that stay. Unless a member is killed, none of the writes may fail that wait for their answer.
func (s *story) exchangedUnderLoad(stay, want []string, clusterID string, killed bool, do func()) cke.Status {
	s.Helper()
	slices.Sort(want)
	load, err := rig.StartLoad(stay, s.clientTLS())
	s.must(err)
	s.Cleanup(load.Stop)
	s.must(load.Await(s.within(seenLimit), 50))
	load.TakeGap()
	writes, failed := s.writesEachOf(stay)
	began := time.Now()
	do()
	st := s.await(fmt.Sprintf("the members %v", want), readyLimit, func(st cke.Status) bool { return rig.Ready(st) && slices.Equal(sortedNames(st), want) })
	s.Logf("exchanged after %s; the longest time without an acknowledged write: %s", since(began), load.TakeGap().Round(time.Millisecond))
	records := s.records()
	load.Silences(func(from, to time.Time) {
		if from.After(began) && to.Sub(from) >= worthNaming {
			s.Logf("no write was acknowledged for %s: %s", to.Sub(from).Round(time.Millisecond), stepsWithin(records, from, to))
		}
	})
	if n, errs := writes(), failed(); n == 0 || len(errs) > 0 && !killed {
		s.Errorf("of %d writes %d failed: %v", n, len(errs), errs)
	} else {
		s.Logf("%d writes, %d failed", n, len(errs))
	}
	v, err := load.Finish(s.within(readyLimit), stay, clusterID)
	s.must(err)
	s.Logf("%s", v)
	return st
}

// stepsWithin names the steps that were under way between two times, with when each started after the first one and how long it took.
func stepsWithin(records []cke.Record, from, to time.Time) string {
	all := []string{}
	for _, r := range slices.Backward(records) {
		for _, step := range r.Steps {
			end := step.EndedAt
			if end.IsZero() {
				end = time.Now()
			}
			if step.StartedAt.Before(to) && end.After(from) {
				all = append(all, fmt.Sprintf("%s %s (%s, %s)", r.Operation, step.Name, step.StartedAt.Sub(from).Round(time.Millisecond), end.Sub(step.StartedAt).Round(time.Millisecond)))
			}
		}
	}
	if len(all) == 0 {
		return "no step was under way"
	}
	return strings.Join(all, ", ")
}

// restarted stops a daemon, does something, and starts another one.
func (s *story) restarted(d *rig.Daemon, name string, do func()) *rig.Daemon {
	s.Helper()
	_, err := d.Stop(stopLimit)
	s.must(err)
	do()
	return s.daemon(name)
}

// TestLabInventory_ExchangesARetiredMachine bootstraps a cluster from a template, and retires the machine of a member while clients read and
// write: the leader daemon exchanges it for the spare by itself. An inventory that cannot be read changes nothing, and what the
// operator rolls back is not done again.
func TestLabInventory_ExchangesARetiredMachine(t *testing.T) {
	extra(t)
	s := newStory(t, 4)
	r := newRacks(s)
	r.write()
	d := s.daemon("cke1")
	s.setKey()
	s.do("sabakan", "set-template", s.file("template.yml", r.template(cke.InventoryPropose, "")))
	s.do("sabakan", "set-url", r.path)
	s.do("sabakan", "enable")
	var founded cke.Status
	s.part("an operator confirms the bootstrap", func(s *story) {
		hash := strings.TrimSpace(s.do("sabakan", "preview", "-o", "name"))
		s.refused(6, []string{"was not confirmed", "a bootstrap is always confirmed"}, "sabakan", "apply", hash)
		s.refused(6, []string{"not 0123456789abcdef"}, "sabakan", "apply", "0123456789abcdef", "--yes")
		s.do("sabakan", "apply", hash, "--yes")
		founded = s.await("the inventory to be read", seenLimit, func(st cke.Status) bool {
			return rig.Ready(st) && st.Inventory != nil && !st.Inventory.ReadAt.IsZero()
		})
		if len(founded.Members) != 3 || founded.Inventory.Change != nil || founded.Inventory.Hosts[cke.HostHealthy] != 4 {
			s.Errorf("%d members, %+v", len(founded.Members), founded.Inventory)
		}
	})
	members := sortedNames(founded)
	var old, spare lab.Node
	var stay []string
	for i, n := range s.nodes {
		switch {
		case !slices.Contains(members, n.Name):
			spare = n
		case old.Name == "":
			old = n
		default:
			stay = append(stay, s.urls()[i])
		}
	}
	s.restarted(d, "cke2", r.watchedForAnHour)
	s.do("sabakan", "set-template", s.file("template.yml", r.template(cke.InventoryAuto, ", spares: 1")))
	s.part("the other machine becomes the spare", func(s *story) {
		st := s.await("a spare", seenLimit, func(st cke.Status) bool {
			return slices.ContainsFunc(st.Nodes, func(n cke.NodeStatus) bool { return n.Node.Name() == spare.Name && n.Answered() })
		})
		if !slices.Equal(sortedNames(st), members) {
			s.Errorf("members %v, before %v", sortedNames(st), members)
		}
	})
	s.part("an inventory that cannot be read changes nothing", func(s *story) {
		revision := s.now().Generation
		s.must(os.Rename(r.path, r.path+".away"))
		s.awaitProblem("", cke.CodeInventory)
		gone := time.Now()
		st := s.await("the age of the last read to show", seenLimit, func(st cke.Status) bool {
			return st.Inventory != nil && time.Since(gone) > 30*time.Second && st.ObservedAt.After(gone.Add(30*time.Second))
		})
		if i := st.Inventory; st.Generation != revision || i.Stop != "read" || i.Change != nil || st.ObservedAt.Sub(i.ReadAt) < 30*time.Second || !strings.Contains(i.Reason, "the last good read is") {
			s.Errorf("revision %d, was %d: %+v", st.Generation, revision, i)
		}
		s.must(os.Rename(r.path+".away", r.path))
		s.await("it to be read again", seenLimit, func(st cke.Status) bool {
			return st.Inventory != nil && st.Inventory.Failures == 0 && st.Inventory.Stop != "read"
		})
	})
	s.part("a retired machine is exchanged for the spare", func(s *story) {
		want := append(slices.DeleteFunc(slices.Clone(members), func(name string) bool { return name == old.Name }), spare.Name)
		s.exchangedUnderLoad(stay, want, founded.ClusterID, false, func() {
			r.states[old.Name] = cke.HostRetired
			r.write()
		})
		log := s.do("cluster", "log", "-o", "json")
		if !strings.Contains(log, `"cause": "retired"`) {
			s.Errorf("no revision names the cause: %s", log)
		}
	})
	s.part("what is rolled back is not done again", func(s *story) {
		before := s.now().Generation - 1
		s.do("cluster", "rollback", fmt.Sprint(before), "--yes")
		st := s.await("the exchange to be held", readyLimit, func(st cke.Status) bool {
			return rig.Ready(st) && st.Inventory != nil && st.Inventory.Stop == "node"
		})
		if !slices.Equal(sortedNames(st), members) || !strings.Contains(st.Inventory.Reason, "rolled back") {
			s.Errorf("members %v: %s", sortedNames(st), st.Inventory.Reason)
		}
	})
}

// TestLabInventory_ChecksMachinesBeforeOneIsChosen exchanges a retired machine without a spare: of two candidates one has another program at
// etcd's port. The leader daemon finds that out through SSH, shows the change to the other one, and stores it once the operator applies it.
func TestLabInventory_ChecksMachinesBeforeOneIsChosen(t *testing.T) {
	extra(t)
	s := newStory(t, 5)
	r := newRacks(s)
	d := s.daemon("cke1")
	s.setKey()
	s.set(s.of(0, 1, 2))
	s.ready()
	r.write()
	s.restarted(d, "cke2", r.watchedForAnHour)
	s.do("sabakan", "set-template", s.file("template.yml", r.template(cke.InventoryPropose, "")))
	s.do("sabakan", "set-url", r.path)
	s.do("sabakan", "enable")
	shown := func(what string, cause cke.InventoryCause) *cke.InventoryProposal {
		return s.await(what, readyLimit, func(st cke.Status) bool {
			return st.Inventory != nil && st.Inventory.Change != nil && st.Inventory.Change.Cause == cause
		}).Inventory.Change
	}
	s.part("what the template says is applied first", func(s *story) {
		// The nodes were declared without an inventory: each gets the serial and the zone of its machine.
		s.do("sabakan", "apply", shown("the serials", cke.CauseDescribed).Hash)
	})
	s.part("the machine whose port is taken is not chosen", func(s *story) {
		busy, free, old := s.nodes[3], s.nodes[4], s.nodes[1]
		s.on(busy, "docker run -d --restart=always --network=host --entrypoint=/usr/local/bin/etcd "+cke.DefaultImage+":v"+rig.EtcdVersion+
			" --data-dir=/tmp/d --listen-client-urls=http://0.0.0.0:2379 --advertise-client-urls=http://127.0.0.1:2379 --listen-peer-urls=http://127.0.0.1:12380")
		r.states[old.Name] = cke.HostRetired
		r.write()
		p := shown("the exchange", cke.CauseRetired)
		if p.Old != old.Name || p.New != free.Name {
			s.Errorf("%+v", p)
		}
		s.do("sabakan", "apply", p.Hash)
		st := s.ready()
		if st.Inventory.Log.Answer == nil || st.Inventory.Log.Answer.Refused != "" || !slices.ContainsFunc(st.Members, func(m cke.MemberStatus) bool { return m.Name == free.Name && m.Ready }) {
			s.Errorf("%+v", st.Inventory)
		}
	})
}
