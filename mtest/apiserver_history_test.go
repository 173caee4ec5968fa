package mtest_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// kubeWrite is one write of an object, with content that no other write has.
type kubeWrite struct {
	content string
	// revision is that of its acknowledgment; 0: there was none, so it may have taken effect.
	revision int64
}

// kubeHistory has the writes of objects that have one writer each, in their order. Its methods may be called side by side.
type kubeHistory struct {
	mu     sync.Mutex
	writes map[string][]kubeWrite // by name
	acked  int
}

func newKubeHistory() *kubeHistory { return &kubeHistory{writes: map[string][]kubeWrite{}} }

// asked notes that a write was asked for, before it is.
func (h *kubeHistory) asked(name, content string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.writes[name] = append(h.writes[name], kubeWrite{content: content})
}

// acknowledged notes that the last write of an object took effect at a revision.
func (h *kubeHistory) acknowledged(name string, revision int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.writes[name]
	all[len(all)-1].revision = revision
	h.acked++
}

// refused notes that the last write of an object had no effect.
func (h *kubeHistory) refused(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.writes[name] = h.writes[name][:len(h.writes[name])-1]
}

// mayChange reports whether a write before the last one of an object, that was not acknowledged, may have taken effect since it was read.
func (h *kubeHistory) mayChange(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.writes[name]
	return len(all) > 1 && all[len(all)-2].revision == 0
}

// revisions are those after From up to To, as those that a restore leaves out.
type revisions struct{ From, To int64 }

func (s revisions) has(revision int64) bool { return revision > s.From && revision <= s.To }

// read fails unless an object, of which the revision is 0 if it does not exist, is what its writes but for those in lost make of it: its last
// acknowledged one, or a later one without an acknowledgment, which is then known to have taken effect.
func (h *kubeHistory) read(name, content string, revision int64, lost revisions) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.writes[name]
	found, last := -1, -1 // the write that was found, and the last one that has to be there
	for i, w := range all {
		if revision > 0 && w.content == content {
			found = i
		}
		if w.revision > 0 && !lost.has(w.revision) {
			last = i
		}
	}
	switch {
	case revision > 0 && found < 0:
		return fmt.Errorf("%s is %q at revision %d, which was never written", name, content, revision)
	case found < last:
		return fmt.Errorf("%s is %q at revision %d, and %q was acknowledged at revision %d", name, content, revision, all[last].content, all[last].revision)
	case found < 0:
		return nil
	case lost.has(revision):
		return fmt.Errorf("%s is %q of revision %d, which was to be lost", name, content, revision)
	case all[found].revision > 0 && all[found].revision != revision:
		return fmt.Errorf("%s is %q at revision %d, and was acknowledged at revision %d", name, content, revision, all[found].revision)
	}
	all[found].revision = revision
	return nil
}

// each calls f with each acknowledged write.
func (h *kubeHistory) each(f func(name string, w kubeWrite)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, all := range h.writes {
		for _, w := range all {
			if w.revision > 0 {
				f(name, w)
			}
		}
	}
}

// count returns how many writes were acknowledged.
func (h *kubeHistory) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.acked
}

// names are those of all objects.
func (h *kubeHistory) names() (all []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name := range h.writes {
		all = append(all, name)
	}
	return all
}

// What a client of kube-apiserver may be answered follows from the writes of an object, of which some were not acknowledged.
func TestKubeHistory_FindsWhatMustNotBeRead(t *testing.T) {
	// Writes are "content@revision", with 0 for one that was not acknowledged. Read is the same; "" is an object that does not exist.
	for name, tt := range map[string]struct {
		writes, read string
		lost         revisions
		wrong        string
	}{
		"the last one":                                  {writes: "a@5 b@7", read: "b@7"},
		"an earlier one":                                {writes: "a@5 b@7", read: "a@5", wrong: `"b" was acknowledged at revision 7`},
		"nothing":                                       {writes: "a@5", wrong: `"a" was acknowledged`},
		"nothing, and nothing was acknowledged":         {writes: "a@0"},
		"what was never written":                        {writes: "a@5", read: "x@6", wrong: "never written"},
		"one that was not acknowledged":                 {writes: "a@5 b@0", read: "b@9"},
		"the one before it":                             {writes: "a@5 b@0", read: "a@5"},
		"one that a later one had to exclude":           {writes: "a@5 b@0 c@8", read: "b@9", wrong: `"c" was acknowledged`},
		"another revision than the acknowledged one":    {writes: "a@5", read: "a@6", wrong: "was acknowledged at revision 5"},
		"restored: the last one before":                 {writes: "a@5 b@7 c@9", read: "b@7", lost: revisions{8, 1 << 30}},
		"restored: one that was to be lost":             {writes: "a@5 b@7 c@9", read: "c@9", lost: revisions{8, 1 << 30}, wrong: "which was to be lost"},
		"restored: one that was to be kept is not":      {writes: "a@5 b@7 c@9", read: "a@5", lost: revisions{8, 1 << 30}, wrong: `"b" was acknowledged`},
		"restored: unknown, and to be lost":             {writes: "a@5 b@0", read: "b@9", lost: revisions{8, 1 << 30}, wrong: "which was to be lost"},
		"restored: an object that did not exist":        {writes: "a@9", lost: revisions{8, 1 << 30}},
		"restored: an object that existed is not there": {writes: "a@8", lost: revisions{8, 1 << 30}, wrong: `"a" was acknowledged`},
		"restored: written since":                       {writes: "a@5 b@9 c@2000000000", read: "c@2000000000", lost: revisions{8, 1 << 30}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newKubeHistory()
			for w := range strings.FieldsSeq(tt.writes) {
				content, revision := atRevision(t, w)
				h.asked("o", content)
				if revision > 0 {
					h.acknowledged("o", revision)
				}
			}
			content, revision := atRevision(t, tt.read)
			err := h.read("o", content, revision, tt.lost)
			if (err != nil) != (tt.wrong != "") || err != nil && !strings.Contains(err.Error(), tt.wrong) {
				t.Errorf("%v, want %q", err, tt.wrong)
			}
		})
	}
}

func atRevision(t *testing.T, text string) (content string, revision int64) {
	t.Helper()
	if text == "" {
		return "", 0
	}
	if _, err := fmt.Sscanf(strings.Replace(text, "@", " ", 1), "%s %d", &content, &revision); err != nil {
		t.Fatal(err)
	}
	return content, revision
}

// What was read of a write without an acknowledgment is what every later answer has to be.
func TestKubeHistory_LearnsFromWhatIsRead(t *testing.T) {
	h := newKubeHistory()
	h.asked("o", "a")
	if err := h.read("o", "a", 5, revisions{}); err != nil || h.mayChange("o") {
		t.Fatalf("%v", err)
	}
	if err := h.read("o", "", 0, revisions{}); err == nil {
		t.Error("it is gone")
	}
}
