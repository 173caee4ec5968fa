package ui_test

import (
	"errors"
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/server/strategy"
	"cke/ui"
)

// get asks for one page.
func get(t testing.TB, p *ui.Page, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	p.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'"
	if csp := w.Header().Get("Content-Security-Policy"); csp != policy {
		t.Errorf("%s: policy %q", path, csp)
	}
	if c := w.Header().Get("Set-Cookie"); c != "" {
		t.Errorf("%s sets a cookie: %s", path, c)
	}
	return w.Code, w.Body.String()
}

// text is what a page says, without its markup.
func text(page string) string {
	page = regexp.MustCompile(`<[^>]*>`).ReplaceAllString(page, "")
	return strings.Join(strings.Fields(html.UnescapeString(page)), " ")
}

// inPage finds what the policy forbids: a script or a style in the page itself.
func inPage(page string) string {
	for _, tag := range regexp.MustCompile(`<[^>]*>[^<]?`).FindAllString(page, -1) {
		tag = regexp.MustCompile(`"[^"]*"`).ReplaceAllString(tag, `""`)
		if found := regexp.MustCompile(`(?i)^<script(?: [^>]*)?>[^<]|<style|\sstyle=|\son[a-z]+=|javascript:`).FindString(tag); found != "" {
			return tag
		}
	}
	return ""
}

// has fails if a page lacks a text; the first letter may be a capital one.
func has(t *testing.T, where, page string, wants ...string) {
	t.Helper()
	said := text(page)
	for _, want := range wants {
		want = strings.Join(strings.Fields(strings.ReplaceAll(want, "`", "")), " ")
		if want != "" && !strings.Contains(said, want) && !strings.Contains(said, strings.ToUpper(want[:1])+want[1:]) {
			t.Errorf("%s lacks %q", where, want)
		}
	}
}

// saidOf is what the page says of a reason: how many members run is not beside how many serve.
func saidOf(reason string) string {
	if rest, is := strings.CutPrefix(reason, "quorum is lost, 1 of 3 members run and 2 are needed: "); is {
		return rest
	}
	return reason
}

func TestPage_ShowsEveryStateInTheWordsOfTheStatus(t *testing.T) {
	w := everything()
	p := page(t, w)
	_, list := get(t, p, "/")
	for name, c := range w.clusters {
		code, body := get(t, p, "/clusters/"+name)
		if code != http.StatusOK {
			t.Errorf("%s: %d", name, code)
		}
		if found := inPage(body); found != "" {
			t.Errorf("%s has %q in the page", name, found)
		}
		ids := map[string]bool{}
		for _, m := range regexp.MustCompile(` id="([^"]*)"`).FindAllStringSubmatch(body, -1) {
			if ids[m[1]] {
				t.Errorf("%s has the id %s twice", name, m[1])
			}
			ids[m[1]] = true
		}
		if c.status == nil {
			has(t, name, body, "undeclared has no status yet")
			has(t, name, body, "systemctl start cke")
			continue
		}
		s := *c.status
		was := ""
		if name == "stale" || name == "silent" {
			was = "was "
		}
		has(t, "/", list, name+" "+was+string(s.Health), s.Summary)
		wants := []string{string(s.Health), s.Summary, saidOf(s.Reason), s.Leader.Host}
		for _, p := range s.Problems {
			if name != "unseen" { // where one text is for two nodes, and no last resort is offered
				wants = append(wants, p.Message)
				wants = append(wants, regexp.MustCompile("[:;] ?`?").Split(p.Remedy, -1)...)
			}
			if !strings.Contains(body, `href="/help/`+string(p.Code)+`"`) {
				t.Errorf("%s does not link %s", name, p.Code)
			}
		}
		for _, m := range s.Members {
			wants = append(wants, m.State, m.Address, m.Version)
		}
		has(t, name, body, wants...)
	}
	for path, want := range map[string]string{
		"/clusters/stale":         "This is how it was 7m ago: no daemon leads stale now, so nothing is done for it.",
		"/clusters/stale?":        "stale was ready 7m ago Its present state is not known. Do not take nodes down. Last seen: all 3 members serve",
		"/clusters/paused":        "switch maintenance by ann@boot-1 since 2026-05-01 11:00:00Z (until 2026-05-01 15:00:00Z)",
		"/clusters/degraded?x":    "You: check power, network and sshd of cp3. ",
		"/clusters/stale?y":       "was READY seen 7m ago",
		"/clusters/stale?x":       "You: start a cke daemon, for example on boot-1.",
		"/clusters/holes?x":       "You: free space in the target, or give it more.",
		"/clusters/unseen":        "cp2, cp3: sshd at 10.0.0.2 and 10.0.0.3 cannot be reached: no route to host",
		"/clusters/unseen?x":      "Check power, network and sshd of cp2 and cp3; cke continues by itself once they answer",
		"/clusters/silent":        "You: check the cke daemon on boot-1.",
		"/clusters/frozen":        "You: judge what was found (ckecli cluster evidence frozen). cke changes nothing until you lift the freeze.",
		"/clusters/undeclared":    "You: start a cke daemon on a management host.",
		"/clusters/degraded":      "once it answers Only if the machine is gone for good: ckecli replace cp3 --cluster degraded",
		"/clusters/lost":          "cke starts cp2 and cp3 next. You do not have to do anything.",
		"/clusters/lost?x":        "cp2, cp3: etcd ended with exit code 2: killed",
		"/clusters/lost?y":        "all must stay up: start-members comes next",
		"/clusters/paused?x":      "ckecli resume --cluster paused",
		"/clusters/restoring":     "ckecli restore --cluster restoring",
		"/clusters/hibernated?x":  "ckecli cluster resume hibernated",
		"/clusters/healthy?x":     "Nothing to do All is as declared Last: #41 restart-member completed 2h ago",
		"/clusters/healthy":       "Any one of the nodes may be taken down now.",
		"/clusters/zones":         "Zones any one can be lost rack1 cp1 rack2 cp2 rack3 cp3",
		"/clusters/zones?x":       "rack1 cp110.0.0.1",
		"/clusters/crowded":       "cp5 has no zone and counts as in every zone: declare its zone",
		"/clusters/machines":      "Inventory mode auto · last read 12s ago No change follows The cluster file is as the inventory and the template say",
		"/clusters/machines?x":    "sabakan at http://10.0.0.90:10080/graphql",
		"/clusters/machines?y":    "16 machines: 15 healthy, 1 retired; 4 can carry a further member",
		"/clusters/machines?z":    "1234ab1, 1234ab2, 1234ab3",
		"/clusters/machines?c":    "revision 3: 1234ab3 in place of 1234ab9 (retired) 2h ago",
		"/clusters/proposed":      "A change follows, and waits for you Machine 1234ab2 is retired: 1234ab7 in rack4 takes the place of cp2",
		"/clusters/proposed?x":    "ckecli sabakan apply 6611a4b66692a78b --cluster proposed",
		"/clusters/held":          "A change is held back 2 changes moved members in the last 24h, as many as the template allows In spite of that: machine 1234ab2 is retired",
		"/clusters/held?x":        "You confirm: it overrides per-day: 2 changes moved",
		"/clusters/held?y":        "machine 1234ab1 is retiring; it is exchanged after 5m, in 3m",
		"/clusters/unread":        "Inventory mode auto · last read 26m ago Nothing is changed The reason is above.",
		"/clusters/unread?x":      "inventory: the inventory cannot be read, the last good read is 26m old",
		"/clusters/updating":      "under way, waits for etcd",
		"/clusters/updating?x":    "Steps of operation 42, which took 4.0s",
		"/clusters/holes":         "no space left",
		"/clusters/hibernated":    "by ann@boot-1 since 2026-05-01 07:00:00Z",
		"/clusters/degraded/":     "There is no such page",
		"/clusters/none":          "cluster none",
		"/clusters/healthy/x":     "There is no such page",
		"/help/CKE104":            "Way out",
		"/help/cke104":            "Way out",
		"/help/CKE999":            "There is no such page",
		"/?q=" + "x" + "&health=": "No cluster fits the filter",
	} {
		_, body := get(t, p, path)
		has(t, path, body, want)
	}
}

func TestPage_EveryLinkAnswers(t *testing.T) {
	p := page(t, everything())
	seen := map[string]bool{"/status": true, "/metrics": true} // of the daemon, not of the page
	queue := []string{"/"}
	for len(queue) > 0 {
		path := queue[0]
		queue = queue[1:]
		code, body := get(t, p, path)
		if code != http.StatusOK {
			t.Errorf("%s: %d", path, code)
		}
		if strings.Contains(body, "s3cr3t-of-env") {
			t.Errorf("%s has a secret", path)
		}
		for _, m := range regexp.MustCompile(`(?:href|src)="(/[^"#]*)"`).FindAllStringSubmatch(body, -1) {
			if link := html.UnescapeString(m[1]); !seen[link] {
				seen[link] = true
				queue = append(queue, link)
			}
		}
	}
	if len(seen) < 100 {
		t.Errorf("%d links", len(seen))
	}
	for _, want := range []string{"/clusters/healthy/history", "/clusters/healthy/history/41", "/clusters/healthy/revisions/3", "/help/CKE201"} {
		if !seen[want] {
			t.Errorf("nothing leads to %s: %v", want, slices.Sorted(maps.Keys(seen)))
		}
	}
}

func TestPage_ShowsWhatARevisionChangedWithoutSecrets(t *testing.T) {
	w := everything()
	c := w.clusters["healthy"]
	again := c.log[0]
	again.Generation = 4
	again.Cluster.Options.Etcd.ExtraEnv = map[string]string{"ETCD_LOGIN": "an0ther-s3cr3t"}
	again.Cluster.Options.Etcd.ExtraArgs = []string{"--auth-token=jwt,sign-key=/k", "--x-password=hunter2"}
	c.log = append([]cke.Spec{again}, c.log...)
	p := page(t, w)
	for path, wants := range map[string][]string{
		"/clusters/healthy":             {"options.etcd.version: 3.6.15 → 3.6.16"},
		"/clusters/healthy/revisions":   {"options.etcd.version: 3.6.15 → 3.6.16", "the oldest one that is kept"},
		"/clusters/healthy/revisions/3": {"- version: 3.6.15", "+ version: 3.6.16", "ETCD_LOGIN: (left out)"},
		"/clusters/healthy/revisions/4": {"--auth-token"},
	} {
		_, body := get(t, p, path)
		has(t, path, body, wants...)
		for _, secret := range []string{"an0ther-s3cr3t", "s3cr3t-of-env", "hunter2"} {
			if strings.Contains(body, secret) {
				t.Errorf("%s has %s", path, secret)
			}
		}
	}
}

func TestPage_HostileTextsAreOnlyText(t *testing.T) {
	w := newWorld()
	w.clusters["hostile"] = hostile()
	w.clusters["<script>alert(2)</script>"] = hostile()
	p := page(t, w)
	for _, path := range []string{"/", "/clusters/hostile", "/clusters/hostile/history", "/clusters/hostile/history/41", "/clusters/hostile/revisions", "/?q=%3Cscript%3E&health=%22%3E%3Cscript%3E", "/clusters/%3Cscript%3Ealert(2)%3C%2Fscript%3E"} {
		code, body := get(t, p, path)
		if code != http.StatusOK || strings.Contains(body, "<script>") || strings.Contains(body, `onload="x`) || inPage(body) != "" {
			t.Errorf("%s: %d, %q", path, code, inPage(body))
		}
		if len(body) > 120_000 {
			t.Errorf("%s has %d bytes", path, len(body))
		}
	}
	if code, _ := get(t, p, "/?q="+strings.Repeat("x", 10_000)); code != http.StatusNotFound {
		t.Errorf("a long filter: %d", code)
	}
}

func TestPage_SaysWhyItCannotShowAnything(t *testing.T) {
	w := everything()
	p := page(t, w)
	w.breaks(&cke.Error{Code: cke.CodeStore, What: "the store does not answer", Facts: []string{"etcd at 10.0.0.9: no route"}, Try: "systemctl status cke"})
	for _, path := range []string{"/", "/clusters/healthy", "/clusters/healthy/history/41", "/clusters/healthy/revisions"} {
		code, body := get(t, p, path)
		if code != http.StatusServiceUnavailable {
			t.Errorf("%s: %d", path, code)
		}
		for _, want := range []string{"the store does not answer", "etcd at 10.0.0.9: no route", "systemctl status cke", "CKE102"} {
			has(t, path, body, want)
		}
	}
	closed := config(w)
	closed.Store = func() (ui.Store, error) { return nil, errors.New("the store is not open: waiting for the key file") }
	code, body := get(t, ui.New(t.Context(), closed), "/")
	if code != http.StatusServiceUnavailable {
		t.Errorf("no store: %d", code)
	}
	has(t, "no store", body, "waiting for the key file")
	if code, body := get(t, page(t, newWorld()), "/"); code != http.StatusOK || !strings.Contains(body, "No cluster is declared") {
		t.Errorf("an empty store: %d", code)
	}
	r := httptest.NewRecorder()
	p.Handler().ServeHTTP(r, httptest.NewRequest(http.MethodPost, "/clusters/healthy", nil))
	if r.Code != http.StatusMethodNotAllowed {
		t.Errorf("a POST: %d", r.Code)
	}
}

func TestPage_Filters(t *testing.T) {
	p := page(t, everything())
	for query, want := range map[string]string{
		"health=LOST": "lost", "q=sev": "seven", "health=HIBERNATED": "hibernated", "q=10.0.0.7": "seven", "health=RESTORING": "restoring",
	} {
		_, body := get(t, p, "/?"+query)
		var rows []string
		for _, m := range regexp.MustCompile(`<tr data-seen="([^"]*)"`).FindAllStringSubmatch(body, -1) {
			rows = append(rows, m[1])
		}
		if !slices.Equal(rows, []string{want}) {
			t.Errorf("%s: %v, want %s", query, rows, want)
		}
	}
	_, body := get(t, p, "/")
	has(t, "/", body, "13 of 21 clusters need attention", "8 need no attention", "was READY 7m ago")
	if strings.Index(body, `data-seen="unseen"`) > strings.Index(body, `data-seen="undeclared"`) {
		t.Error("what has never been seen is above what is wrong")
	}
	for name, mark := range map[string]string{"holes": "warn\" aria-hidden=\"true\"><use href=\"#h-warning", "stale": "unknown", "healthy": "ready"} {
		if _, row, _ := strings.Cut(body, `data-seen="`+name+`"`); !strings.Contains(row[:200], mark+`"/>`) {
			t.Errorf("%s has another mark than %s: %s", name, mark, row[:200])
		}
	}
	has(t, "/", body, "backups: put deltas/184213 in s3://backups/etcd: no space left")
	rest := body[strings.Index(body, `class="divide"`):]
	for name, calm := range map[string]bool{"updating": true, "healthy": true, "hibernated": true, "zones": true, "stale": false, "holes": false} {
		if is := strings.Contains(rest, `data-seen="`+name+`"`); is != calm {
			t.Errorf("%s is below the line: %v", name, is)
		}
	}
	_, body = get(t, p, "/?health=unhealthy")
	if strings.Contains(body, `class="divide"`) {
		t.Error("a line with nothing below it")
	}
	if strings.Contains(body, `data-seen="healthy"`) || !strings.Contains(body, `data-seen="stale"`) {
		t.Error("the filter for unhealthy clusters is wrong")
	}
}

// Weight: the first page of a cluster with style and script, and a list of 300 clusters.
func TestPage_Weighs(t *testing.T) {
	w := everything()
	p := page(t, w)
	for name := range w.clusters {
		_, body := get(t, p, "/clusters/"+name)
		all := len(body)
		for _, m := range regexp.MustCompile(`(?:href|src)="(/ui/[^"]*)"`).FindAllStringSubmatch(body, -1) {
			code, asset := get(t, p, m[1])
			if code != http.StatusOK || asset == "" {
				t.Errorf("%s: %d", m[1], code)
			}
			all += len(asset)
		}
		if all > 60_000 {
			t.Errorf("%s weighs %d bytes", name, all)
		}
	}
	many := newWorld()
	for i := range 300 {
		name := fmt.Sprintf("cluster-%03d", i)
		many.clusters[name] = scene(name, 3, func(in *strategy.Input) {
			if i%50 == 0 {
				silentNode(in, 1+i%3)
			}
		})
	}
	p = page(t, many)
	_, body := get(t, p, "/")
	if len(body) > 200_000 || strings.Count(body, "<tr data-seen") != 300 {
		t.Errorf("300 clusters weigh %d bytes in %d rows", len(body), strings.Count(body, "<tr data-seen"))
	}
	has(t, "/", body, "6 of 300 clusters need attention")
}

func TestPage_OfAThousandRecordsIsBounded(t *testing.T) {
	w := everything()
	c := w.clusters["healthy"]
	for i := range 1000 {
		r := c.records[len(c.records)-1]
		r.ID, r.StartedAt = int64(2000-i), noon.Add(-time.Duration(i)*time.Minute)
		r.EndedAt = r.StartedAt.Add(time.Second)
		c.records = slices.Insert(c.records, i, r)
	}
	p := page(t, w)
	if _, body := get(t, p, "/clusters/healthy"); len(body) > 45_000 {
		t.Errorf("the page has %d bytes", len(body))
	}
	if _, body := get(t, p, "/clusters/healthy/history"); len(body) > 400_000 || !strings.Contains(body, "/history/2000") {
		t.Errorf("the history has %d bytes", len(body))
	}
}

// A clock that is behind, or a status from the future, shows no negative age, and nothing as old.
func TestPage_TimesInTheFuture(t *testing.T) {
	w := everything()
	c := w.clusters["healthy"]
	ahead := noon.Add(time.Hour)
	c.status.ObservedAt, c.status.Leader.Since, c.status.Backup.Time, c.status.Backup.Full.At = ahead, ahead, ahead, ahead
	c.status.LastOperation.Time = ahead
	for i := range c.records {
		c.records[i].StartedAt, c.records[i].EndedAt = ahead.Add(time.Minute), ahead
	}
	for i := range c.status.Members {
		c.status.Members[i].Since = ahead
	}
	code, body := get(t, page(t, w), "/clusters/healthy")
	if code != http.StatusOK || regexp.MustCompile(` -[0-9]`).MatchString(text(body)) || strings.Contains(body, `width="-`) || strings.Contains(body, ` old"`) {
		t.Errorf("%d\n%s", code, text(body))
	}
	has(t, "page", body, "seen 0s ago")
	// Where the clock is wrong by years, everything is still there.
	w.clusters["healthy"].status.ObservedAt = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	if code, body := get(t, page(t, w), "/clusters/healthy"); code != http.StatusOK {
		t.Errorf("%d: %s", code, text(body))
	}
}

// The time axis has each full, and the band starts where nothing is missing any more.
func TestPage_TheTimeAxisOfBackups(t *testing.T) {
	w := everything()
	p := page(t, w)
	_, body := get(t, p, "/clusters/healthy")
	has(t, "healthy", body, "any moment from 2026-04-29 03:00:00Z to 2s ago can be restored")
	if n := strings.Count(body, `<path class="tick" d="M`); n != 5 { // four fulls, and the legend
		t.Errorf("%d ticks", n)
	}
	for name, hole := range map[string]bool{"healthy": false, "holes": true} {
		_, body := get(t, p, "/clusters/"+name)
		if is := strings.Contains(body, `<g class="hole">`); is != hole {
			t.Errorf("%s: hole %v", name, is)
		}
	}
	w.clusters["healthy"].status.Backup.Connected = false
	_, body = get(t, p, "/clusters/healthy")
	has(t, "healthy", body, "any moment from 2026-05-01 03:00:00Z to 9h ago can be restored")
}

func TestPage_WhatIsOldIsMarked(t *testing.T) {
	for age, old := range map[time.Duration]bool{14 * time.Second: false, 16 * time.Second: true} {
		w := newWorld()
		w.clusters["prod"] = scene("prod", 3, nil)
		w.clusters["prod"].status.ObservedAt = noon.Add(-age)
		p := page(t, w)
		for _, path := range []string{"/", "/clusters/prod"} {
			_, body := get(t, p, path)
			if is := regexp.MustCompile(`<(main|tr) [^>]*\bold\b`).MatchString(body); is != old {
				t.Errorf("%s after %s: old %v", path, age, is)
			}
			has(t, path, body, age.String()+" ago")
		}
	}
}
