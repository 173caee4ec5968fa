package mtest_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"cke"
	"cke/mtest/rig"
	"cke/storage"
)

// TestLabRecord_OlderStoreNeighborsAndNames brings a store back from a copy that is older than its cluster, declares a
// second cluster on ports of one that does not run, and exchanges hostnames. Nobody is stopped by any of it.
func TestLabRecord_OlderStoreNeighborsAndNames(t *testing.T) {
	s := newStory(t, 3)
	host := s // daemons outlast the parts that start them
	d := host.daemon("cke1")
	s.setKey()
	founded := s.found()
	tls := s.clientTLS()
	w, err := rig.StartWriter(s.urls(), tls, "w/")
	s.must(err)
	t.Cleanup(w.Stop)
	store, copied, newer := filepath.Join(s.Dir, "store"), filepath.Join(s.Dir, "store.copy"), filepath.Join(s.Dir, "store.newer")
	ended := func() {
		_, err := d.Stop(stopLimit)
		s.must(err)
	}

	s.part("members that were replaced since the copy was made serve on, and are reclaimed", func(s *story) {
		ended()
		s.must(os.CopyFS(copied, os.DirFS(store)))
		s.must(os.Chmod(copied, 0o700))
		d = host.daemon("cke2")
		s.ready()
		for _, n := range s.nodes[1:] {
			s.do("replace", n.Name, "--yes")
		}
		s.ready()
		ended()
		s.must(os.Rename(store, newer))
		s.must(os.Rename(copied, store))
		before := s.running()
		d = host.daemon("cke3")
		st := s.await("the freeze", readyLimit, func(st cke.Status) bool { return st.Health == cke.HealthFrozen })
		if _, told := problemOf(st, s.nodes[1].Name, cke.CodeOlderStore); !told {
			s.Errorf("problems %+v", st.Problems)
		}
		time.Sleep(15 * time.Second) // in which nothing may happen: there is no event to wait for
		if now := s.running(); now != before {
			s.Errorf("containers changed:\n%s\nwere\n%s", now, before)
		}
		s.must(w.Await(s.within(seenLimit), 20))
		s.refused(6, []string{"CKE309"}, "etcd", "defrag")
		var rows []struct{ Then string }
		s.must(json.Unmarshal([]byte(s.do("cluster", "reclaim", s.Cluster, "--plan", "-o", "json")), &rows))
		members := 0
		for _, r := range rows {
			if r.Then == "member" {
				members++
			}
		}
		if members != 2 || len(rows) > 4 { // of those before them some may have ended while their nodes did not answer yet
			s.Errorf("plan %+v", rows)
		}
		began := time.Now()
		s.do("cluster", "reclaim", s.Cluster, "--confirm", s.Cluster)
		if st := s.ready(); st.ClusterID != founded.ClusterID || len(st.Members) != 3 {
			s.Errorf("cluster id %s, %d members", st.ClusterID, len(st.Members))
		}
		s.Logf("ready %s after reclaim was asked for", since(began))
		s.must(w.Check(s.within(seenLimit), s.urls(), tls))
	})

	s.part("hostnames that mean other machines are refused", func(s *story) {
		c := s.spec()
		c.Nodes[0].Hostname, c.Nodes[1].Hostname = c.Nodes[1].Hostname, c.Nodes[0].Hostname
		path, err := s.WriteSpec(c)
		s.must(err)
		s.refused(6, []string{"CKE220"}, "cluster", "set", "--no-wait", path)

		// One that an earlier ckecli stored names no machine that may be stopped.
		before := s.running()
		s.stores(c)
		for _, n := range s.nodes[:2] {
			s.awaitProblem(n.Name, cke.CodeMisnamed)
			s.refused(6, []string{"CKE220"}, "node", "drain", n.Name, "--yes")
			s.refused(6, []string{"CKE220"}, "replace", n.Name, "--yes")
			if res, err := s.CLI(s.ctx, "etcd", "can-stop", n.Name); err != nil || res.Code == 0 {
				s.Errorf("%s may be stopped: %v: %s", n.Name, err, res.Stdout)
			}
		}
		s.do("etcd", "can-stop", s.nodes[2].Name)
		s.set(s.spec())
		s.ready()
		if now := s.running(); now != before {
			s.Errorf("containers changed:\n%s\nwere\n%s", now, before)
		}
		s.do("etcd", "can-stop", s.nodes[0].Name)
	})

	s.part("a second cluster does not get the ports of one that is hibernated", func(s *story) {
		w.Stop()
		s.do("cluster", "hibernate", s.Cluster, "--confirm", s.Cluster)
		twin := s.spec()
		twin.Name = "twin"
		path, err := s.WriteSpec(twin)
		s.must(err)
		s.do("cluster", "set", "--no-wait", "--cluster", "twin", path)
		other := *s.Rig
		other.Cluster = "twin"
		st, err := other.Await(s.within(readyLimit), "the owner of the ports to be reported", func(st cke.Status) bool {
			_, told := problemOf(st, s.nodes[0].Name, cke.CodePortTaken)
			return told
		})
		s.must(err)
		if p, _ := problemOf(st, s.nodes[0].Name, cke.CodePortTaken); !strings.Contains(p.Message, "cluster "+s.Cluster) {
			s.Errorf("the owner is not named: %s", p.Message)
		}
		for _, n := range s.nodes {
			if out := s.on(n, "docker ps -aq --filter label=cke.cluster=twin"); strings.TrimSpace(out) != "" {
				s.Errorf("%s carries containers of twin: %s", n.Name, out)
			}
		}
		s.do("cluster", "delete", "twin", "--confirm", "twin")
	})
}

// stores stores a cluster file without the checks of ckecli.
func (s *story) stores(c cke.Cluster) {
	s.Helper()
	text, err := yaml.Marshal(c)
	s.must(err)
	store, err := storage.Open(s.ctx, storage.Config{Embedded: storage.EmbeddedConfig{DataDir: filepath.Join(s.Dir, "store")}, SecretKeyFile: filepath.Join(s.Dir, "secret.key")})
	s.must(err)
	defer store.Close()
	_, err = store.SetSpec(s.ctx, s.Cluster, c, text, "test@host", storage.SetOptions{})
	s.must(err)
}

// running lists the containers that run on all nodes, with since when.
func (s *story) running() string {
	var all strings.Builder
	for _, n := range s.nodes {
		all.WriteString(s.on(n, "docker inspect -f '{{.Name}} {{.State.StartedAt}}' $(docker ps -q)"))
	}
	return all.String()
}
