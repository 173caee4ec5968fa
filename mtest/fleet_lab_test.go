package mtest_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/mtest/rig"
)

// ledFleet is what `ckecli leader -o json` has.
type ledFleet struct {
	Daemons []struct {
		Host    string `json:"host"`
		Version string `json:"version"`
		Leads   int    `json:"leads"`
	} `json:"daemons"`
	Clusters []struct {
		Cluster string     `json:"cluster"`
		Leader  cke.Leader `json:"leader"`
	} `json:"clusters"`
}

// TestLabFleet_ThreeDaemonsShareClustersOnRealNodes lets three daemons with one store of three members share six clusters, while they are
// killed, frozen, stopped and asked to balance.
func TestLabFleet_ThreeDaemonsShareClustersOnRealNodes(t *testing.T) {
	extra(t)
	const clusters = 6
	l := borrow(t, 3)
	store, err := rig.StartStores(t.Context(), t.TempDir(), 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Stop)
	var hosts []*story
	for range 3 {
		s := storyOn(t, l, 3)
		over := store.Config(store.Addresses...)
		hosts = append(hosts, s)
		over["secret_key_file"] = filepath.Join(hosts[0].Dir, "secret.key") // the same on every management host
		s.must(s.WriteConfig(over))
	}
	s := hosts[0]
	fleet := func() (f ledFleet) {
		s.Helper()
		s.must(json.Unmarshal([]byte(s.do("leader", "--all", "-o", "json")), &f))
		return f
	}
	// share waits until these daemons lead all clusters alike.
	share := func(what string, names ...string) {
		s.Helper()
		began := time.Now()
		var loads map[string]int
		for {
			loads = map[string]int{}
			for _, c := range fleet().Clusters {
				loads[c.Leader.Host]++
			}
			all := slices.Collect(maps.Values(loads))
			if slices.Equal(slices.Sorted(maps.Keys(loads)), names) && slices.Max(all)-slices.Min(all) <= 1 {
				break
			}
			if time.Since(began) > time.Minute {
				s.Fatalf("%s: not within a minute: %v", what, loads)
			}
			time.Sleep(500 * time.Millisecond)
		}
		s.Logf("%s: after %s %v", what, since(began), loads)
	}

	first := s.daemon("boot-1")
	file := s.spec()
	var all []*story
	for i := range clusters {
		host := *s.Rig
		host.Cluster = fmt.Sprintf("c%d", i+1)
		one := *s
		one.Rig = &host
		c := file
		c.Name, c.Nodes = host.Cluster, file.Nodes
		c.Options.Etcd.ClientPort, c.Options.Etcd.PeerPort = 2379+10*i, 2380+10*i
		path, err := one.WriteSpec(c)
		s.must(err)
		one.do("cluster", "set", "--no-wait", "--yes", path)
		one.setKey()
		all = append(all, &one)
	}
	for _, one := range all {
		one.ready()
	}
	share("one daemon", "boot-1")
	done := map[string]int{}
	for _, one := range all {
		done[one.Cluster] = len(one.records())
	}
	second := hosts[1].daemon("boot-2")
	share("a second daemon", "boot-1", "boot-2")
	hosts[2].daemon("boot-3")
	share("a third daemon", "boot-1", "boot-2", "boot-3")
	first.Kill()
	share("one is killed", "boot-2", "boot-3")
	s.must(second.Freeze())
	share("one is frozen", "boot-3")
	s.must(second.Thaw())
	share("it is back", "boot-2", "boot-3")
	s.daemon("boot-1")
	s.do("leader", "--balance")
	share("asked to balance", "boot-1", "boot-2", "boot-3")
	began := time.Now()
	_, err = second.Stop(stopLimit)
	s.must(err)
	share("one stops", "boot-1", "boot-3")
	if took := time.Since(began); took > stopLimit {
		s.Errorf("handed over only after %s", took)
	}
	for _, one := range all {
		one.ready()
		records := one.records()
		if len(records) != done[one.Cluster] {
			s.Errorf("%s: something was done: %+v", one.Cluster, records[:len(records)-done[one.Cluster]])
		}
		for _, r := range records {
			if r.State != cke.RecordCompleted {
				s.Errorf("%s: %d %s %s", one.Cluster, r.ID, r.Operation, r.State)
			}
		}
	}
	if text := s.do("leader", "--all"); !strings.Contains(text, "BALANCED") || !strings.Contains(text, "boot-3") {
		s.Errorf("shown:\n%s", text)
	}
}
