package mtest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/mtest/lab"
	"cke/mtest/rig"
)

func TestLabDaemon_StopsAtOnceInTheMiddleOfAnOperation(t *testing.T) {
	h := newHosts(t, borrow(t, 3), 3) // the store outlives the daemon and tells what it left
	s := h.two
	d := s.daemon("boot-1")
	s.setKey()
	s.apart(s.nodes[0], s.nodes[1], s.nodes[2]) // members start and cannot elect a leader: the operation lasts
	s.set(s.spec())
	s.awaitStep("serve")

	took, err := d.Stop(stopLimit)
	s.must(err)
	t.Logf("stopped in %s", took.Round(time.Millisecond))
	r := s.records()[0]
	if r.State != cke.RecordInterrupted || r.EndedAt.IsZero() || r.Error == "" {
		t.Errorf("what was under way: %+v", r)
	}
	s.refused(4, []string{"no daemon leads prod"}, "leader")
	s.refused(4, nil, "status", "--check")

	s.together(s.nodes...)
	s.daemon("boot-1")
	s.ready()
	s.oneCluster()
}

func TestLabDaemon_StopsAtOnceWhile(t *testing.T) {
	stops := func(s *story, d *rig.Daemon) {
		s.Helper()
		took, err := d.Stop(stopLimit)
		s.must(err)
		s.Logf("stopped in %s", took.Round(time.Millisecond))
	}
	t.Run("its store does not answer", func(t *testing.T) {
		h := newHosts(t, borrow(t, 1), 1)
		d := h.one.daemon("boot-1")
		h.one.found()
		h.wire.Cut()
		stops(h.one, d)
	})
	t.Run("another daemon has the store", func(t *testing.T) {
		s := newStory(t, 1)
		s.daemon("boot-1")
		stops(s, s.heir("boot-2"))
	})
	t.Run("a node is silent", func(t *testing.T) {
		s := newStory(t, 1)
		d := s.daemon("boot-1")
		s.found()
		s.must(s.Lab.Pause(s.ctx, s.nodes[0].Name))
		stops(s, d)
	})
}

// apart cuts the cables between nodes; the management host still reaches all of them.
func (s *story) apart(nodes ...lab.Node) {
	s.Helper()
	for i, n := range nodes {
		for _, other := range nodes[:i] {
			s.must(s.Lab.Cut(s.ctx, n.Name, lab.Cut{From: other.Name}))
		}
	}
}

// together mends all cables of nodes.
func (s *story) together(nodes ...lab.Node) {
	s.Helper()
	for _, n := range nodes {
		s.must(s.Lab.Heal(s.ctx, n.Name))
	}
}

func TestLabDaemon_WaitsForAConfigurationAndSaysWhatIsWrongWithIt(t *testing.T) {
	s := newStory(t, 1)
	good, err := os.ReadFile(s.Config)
	s.must(err)
	s.must(os.Remove(s.Config))
	d := s.launch("cke1", "--http", s.HTTP)
	waits := func(what, words string) {
		t.Helper()
		h, err := d.AwaitHealth(s.within(seenLimit), what, func(h rig.Health) bool { return strings.Contains(h.Waiting, words) })
		s.must(err)
		if h.Status != "waiting" || h.Code != cke.CodeConfig {
			t.Errorf("health %+v", h)
		}
	}
	waits("a missing file to be told", s.Config+" cannot be read")
	s.must(os.WriteFile(s.Config, []byte(string(good)+"sesion_ttl: 3s\n"), 0o600))
	waits("a wrong key to be told", "sesion_ttl")
	s.must(os.WriteFile(s.Config, good, 0o600))
	s.well(d)
	s.found()
	s.oneCluster()
}

func TestLabDaemon_TakesUpACorrectedSettingOfAStoreThatItCouldNotOpen(t *testing.T) {
	s := storyOn(t, borrow(t, 1), 1)
	store, err := rig.StartStore(t.Context(), t.TempDir())
	s.must(err)
	t.Cleanup(store.Stop)
	nobody, err := rig.FreeAddress()
	s.must(err)
	s.must(s.WriteConfig(store.Config(nobody)))
	d := s.launch("cke1")
	h, err := d.AwaitHealth(s.within(seenLimit), "the store to be missed", func(h rig.Health) bool { return h.Code == cke.CodeStore })
	s.must(err)
	if !strings.Contains(h.Waiting, nobody) {
		t.Errorf("health %+v does not name %s", h, nobody)
	}
	s.must(s.WriteConfig(store.Config(store.Address)))
	s.well(d)
}

func TestLabDaemon_WaitsForTheSecretKeyOfAnOldStore(t *testing.T) {
	s := newStory(t, 1)
	d := s.daemon("cke1")
	before := s.found()
	_, err := d.Stop(stopLimit)
	s.must(err)

	key := filepath.Join(s.Dir, "secret.key")
	s.must(os.Rename(key, key+".safe"))
	d = s.launch("cke1")
	h, err := d.AwaitHealth(s.within(seenLimit), "the key file to be missed", func(h rig.Health) bool { return h.Code == cke.CodeSecret })
	s.must(err)
	if h.Status != "waiting" || !strings.Contains(h.Waiting, key) {
		t.Errorf("health %+v", h)
	}
	if _, err := os.Stat(key); err == nil {
		t.Error("a new key was made over old data")
	}
	s.must(os.Rename(key+".safe", key))
	s.well(d)
	s.nudge()
	s.stillMembers(before)
}

// well waits until a daemon waits for nothing any more.
func (s *story) well(d *rig.Daemon) {
	s.Helper()
	_, err := d.AwaitHealth(s.within(seenLimit), "cke to be well", func(h rig.Health) bool { return h.Status == "ok" })
	s.must(err)
}
