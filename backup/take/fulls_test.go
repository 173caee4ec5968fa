package take

import (
	"context"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"cke"
	"cke/backup"
)

// clock is one that people put forward and back.
type clock struct {
	begun time.Time // of virtual time
	shows time.Time // what it showed then
	jumps map[time.Duration]time.Duration
}

func (c clock) now() time.Time {
	ran := time.Since(c.begun)
	shows := c.shows.Add(ran)
	for after, by := range c.jumps {
		if ran >= after {
			shows = shows.Add(by)
		}
	}
	return shows
}

// fullsOf runs a session's fulls, each of which succeeds at once, for a while of virtual time, and returns what the
// clock showed when each began.
func fullsOf(t *testing.T, s cke.BackupSchedule, last time.Time, c clock, during time.Duration) (shown []time.Time) {
	t.Helper()
	schedule, err := ParseSchedule(s)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		c.begun = time.Now()
		taker, err := New(Config{Bucket: &refusing{}, Cluster: "prod", Lineage: "a1b2", Endpoints: []string{"http://127.0.0.1:1"}, Fulls: schedule, Now: c.now, Scratch: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		nobody := &cluster{c: &Config{}}
		session := &session{t: taker, k: nobody, o: newObserver(nobody, &taker.c), ctx: ctx, fullTry: stopped(), at: position{lastFull: last}}
		session.planFull()
		end := time.NewTimer(during)
		for {
			select {
			case <-end.C:
				return
			case <-session.fullTry.C:
				session.fullDue()
			case <-session.full:
				shown = append(shown, c.now())
				if err := session.fullDone(result{header: backup.Header{Place: backup.FullPlace("prod", "a1b2", 1, c.now()), Last: 1}}); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
	return shown
}

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t
}

func TestFulls_AreTakenWhenTheScheduleSaysSo(t *testing.T) {
	if _, err := os.Stat("/usr/share/zoneinfo"); err != nil {
		t.Skip("this host has no time zones")
	}
	hourly := cke.BackupSchedule{Schedule: "0 * * * *"}
	nightly := cke.BackupSchedule{Schedule: "30 2 * * *", TimeZone: "Europe/Berlin"}
	for name, row := range map[string]struct {
		schedule cke.BackupSchedule
		last     string
		shows    string
		jumps    map[time.Duration]time.Duration
		during   time.Duration
		want     []string
	}{
		"every hour":              {hourly, "2026-05-01T10:20:00Z", "2026-05-01T10:20:05Z", nil, 3 * time.Hour, []string{"2026-05-01T11:00:00Z", "2026-05-01T12:00:00Z", "2026-05-01T13:00:00Z"}},
		"one was missed":          {hourly, "2026-05-01T08:20:00Z", "2026-05-01T10:20:00Z", nil, time.Hour, []string{"2026-05-01T10:20:00Z", "2026-05-01T11:00:00Z"}},
		"never":                   {cke.BackupSchedule{}, "2026-05-01T08:20:00Z", "2026-05-01T10:20:00Z", nil, 100 * time.Hour, nil},
		"in a time zone":          {nightly, "2026-05-01T10:00:00Z", "2026-05-01T10:00:00Z", nil, 48 * time.Hour, []string{"2026-05-02T00:30:00Z", "2026-05-03T00:30:00Z"}},
		"an hour is left out":     {nightly, "2026-03-28T10:00:00Z", "2026-03-28T10:00:00Z", nil, 48 * time.Hour, []string{"2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z"}},
		"an hour comes twice":     {nightly, "2026-10-24T10:00:00Z", "2026-10-24T10:00:00Z", nil, 48 * time.Hour, []string{"2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"}},
		"the clock is put ahead":  {hourly, "2026-05-01T10:20:00Z", "2026-05-01T10:20:00Z", map[time.Duration]time.Duration{90 * time.Second: 5 * time.Hour}, 3 * time.Minute, []string{"2026-05-01T15:22:00Z"}},
		"the clock is put back":   {hourly, "2026-05-01T10:20:00Z", "2026-05-01T10:20:00Z", map[time.Duration]time.Duration{90 * time.Second: -24 * time.Hour}, 45 * time.Minute, []string{"2026-04-30T11:00:00Z"}},
		"the last is from later":  {hourly, "2027-05-01T10:20:00Z", "2026-05-01T10:20:00Z", nil, time.Hour, []string{"2026-05-01T11:00:00Z"}},
		"put ahead and back soon": {hourly, "2026-05-01T10:20:00Z", "2026-05-01T10:20:00Z", map[time.Duration]time.Duration{10 * time.Second: time.Hour, 20 * time.Second: -time.Hour}, 45 * time.Minute, []string{"2026-05-01T11:00:00Z"}},
	} {
		t.Run(name, func(t *testing.T) {
			shown := fullsOf(t, row.schedule, at(row.last), clock{shows: at(row.shows), jumps: row.jumps}, row.during)
			var got []string
			for _, at := range shown {
				got = append(got, at.UTC().Format(time.RFC3339))
			}
			if !slices.Equal(got, row.want) {
				t.Errorf("fulls at %q, want %q", got, row.want)
			}
		})
	}
}
