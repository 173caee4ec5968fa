package ui_test

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/ui"
)

// curves are a day of a cluster that was not led for an hour, and got its problems a while ago. They end with the last observation.
// Those of "stale" are in another daemon.
func (w *world) curves(cluster string, now time.Time) (all []cke.Sample) {
	w.mu.Lock()
	last, before, trouble, answers, silent, deposed := 1, 1, troubleAge, true, time.Duration(0), time.Time{}
	if c := w.clusters[cluster]; c != nil && c.status != nil {
		last = c.status.Tolerance
		before = max((c.status.Declared-1)/2, last)
		if h := c.status.Hibernation; h != nil {
			trouble = now.Sub(h.Since)
		}
		answers = slices.ContainsFunc(c.status.Members, func(m cke.MemberStatus) bool { return m.DBSize > 0 })
		silent, deposed = now.Sub(c.status.ObservedAt), c.deposed
	}
	w.mu.Unlock()
	for i := range 2880 {
		s := cke.Sample{At: now.Add(-time.Duration(2879-i) * 30 * time.Second), Tolerance: before, DBSize: int64(60_000_000 + i%1900*22_000), Took: time.Duration(38+i*7%11) * time.Millisecond,
			Entries: 240 + 160*math.Sin(float64(i)/300) + float64(i*13%40)}
		if i%700 < 4 {
			s.Lag = int64(2000 - i%700*400)
		}
		if now.Sub(s.At) <= trouble && last < before {
			s.Tolerance, s.Took = last, 3*time.Second
			if last < 0 {
				s.Entries, s.Lag = 0, 0
			}
			if !answers {
				s.DBSize = 0
			}
		}
		if (i < 900 || i > 1020) && cluster != "stale" && now.Sub(s.At) >= silent.Truncate(time.Minute) && (deposed.IsZero() || s.At.Before(deposed)) {
			all = append(all, s)
		}
	}
	return all
}

func TestPage_CurvesHaveAGapWhereNoDaemonLed(t *testing.T) {
	p := page(t, everything())
	_, body := get(t, p, "/clusters/healthy")
	paths := regexp.MustCompile(`<path class="curve [^"]*" d="([^"]*)"`).FindAllStringSubmatch(body, -1)
	if len(paths) != 5 {
		t.Fatalf("%d curves", len(paths))
	}
	for _, m := range paths {
		if strings.Count(m[1], "M") != 2 || strings.Contains(m[1], "NaN") || strings.Contains(m[1], "Inf") {
			t.Errorf("%s", m[1])
		}
	}
	has(t, "healthy", body, "always 1")
	has(t, "healthy", body, "0 to 2000")
	_, body = get(t, p, "/clusters/stale")
	has(t, "stale", body, "keeps curves in memory, and none leads it now.")
}

// Where the data ends, the curve does, and says when.
func TestPage_CurvesEndWhereTheDataEnds(t *testing.T) {
	w := everything()
	p := page(t, w)
	drawn := regexp.MustCompile(`<p class="big">([^<]*)</p><p class="soft">([^<,]*[a-z])(?:, until <time[^>]*>([^<]*)</time> ago)?</p>\s*<svg[^>]*><path [^>]*L(\d+) [\d.]+"/>(?:<path class="end" d="M(\d+) 0v48"/>)?`)
	for name, want := range map[string]string{
		"healthy": "1 more member can be lost 1000; 82MB database 1000; 0 entries behind 1000; 240/s raft entries 1000; 39ms observation 1000",
		"silent":  "- more members can be lost 7m 995 995; - database 7m 995 995; - entries behind 7m 995 995; - raft entries 7m 995 995; - observation 7m 995 995",
		// No member answers, and the observations continue.
		"hibernated": "none more members can be lost 1000; - database 5h 791 791; - entries behind 5h 791 791; - raft entries 5h 791 791; 3.0s observation 1000",
	} {
		_, body := get(t, p, "/clusters/"+name)
		var all []string
		for _, m := range drawn.FindAllStringSubmatch(strings.ReplaceAll(body, ", slowest", ""), -1) {
			all = append(all, strings.Join(strings.Fields(strings.Join(m[1:], " ")), " "))
		}
		if got := strings.Join(all, "; "); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
	_, body := get(t, p, "/clusters/unseen")
	if !strings.Contains(body, `<p class="big">unknown</p><p class="soft">more members can be lost</p>`) {
		t.Error("a cluster that cannot be seen has a tolerance")
	}
	c := config(w)
	c.Curves = func(_ string, now time.Time) []cke.Sample { return []cke.Sample{{At: now, Tolerance: -1, DBSize: 1}} } // a moment ago
	_, body = get(t, ui.New(t.Context(), c), "/clusters/healthy")
	if !strings.Contains(body, `<p class="big">1</p><p class="soft">more member can be lost</p>`) {
		t.Error("the curve of the tolerance and the headline differ")
	}
	c.Curves = func(string, time.Time) []cke.Sample { return nil }
	for name, want := range map[string]string{"healthy": "keeps curves in memory: open the page of boot-1.", "silent": "keeps curves in memory, and it reports nothing now."} {
		_, body = get(t, ui.New(t.Context(), c), "/clusters/"+name)
		has(t, name, body, want)
	}
}
