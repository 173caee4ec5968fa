package clusterfile

import (
	"strings"
	"testing"
	"time"

	cron "github.com/netresearch/go-cron"
	"pgregory.net/rapid"
)

func TestSchedule_WhatIsAcceptedIsDueOneDay(t *testing.T) {
	parser, err := cron.TryNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)
	if err != nil {
		t.Fatal(err)
	}
	parser = parser.WithMaxSearchYears(40) // a 29 February on a certain day of the week is rare
	field := rapid.StringMatching(`(\*|[0-9]{1,2}|[0-9]{1,2}-[0-9]{1,2}|jan|SUN|mon-fri)(/[0-9]{1,2})?(,[0-9]{1,2})?`)
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		var fields []string
		for range 5 {
			fields = append(fields, rapid.OneOf(rapid.Just("*"), field).Draw(t, "field"))
		}
		s := strings.Join(fields, " ")
		if message, _ := scheduleTrouble(s); message != "" {
			return
		}
		accepted++
		schedule, err := parser.Parse(s)
		if err != nil {
			t.Fatalf("%q: the scheduler says %v", s, err)
		}
		if schedule.Next(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
			t.Fatalf("%q is never due", s)
		}
	})
	if accepted == 0 && !testing.Short() { // rapid draws few under -short
		t.Error("nothing was accepted")
	}
}

func TestSchedule_Refuses(t *testing.T) {
	for s, says := range map[string]string{
		"":                "has 0 fields",
		"0 * * * * *":     "has 6 fields",
		"60 * * * *":      `minute "60"`,
		"* 24 * * *":      `hour "24"`,
		"* * 0 * *":       `day of month "0"`,
		"* * * 13 *":      `month "13"`,
		"* * * * 8":       `day of week "8"`,
		"5-1 * * * *":     "5 is after 1",
		"*/0 * * * *":     "invalid step",
		"*/99 * * * *":    "invalid step",
		"5/10 * * * *":    "needs * or a range",
		"1, * * * *":      "is not a number",
		"H * * * *":       "is not a number",
		"* * L * *":       "is not a number",
		"* * * * MON#1":   "is not a number",
		"+1 * * * *":      "is not a number",
		"-1 * * * *":      "is not a number",
		"0 0 30 2 *":      "never be due",
		"0 0 31 4,6,9 *":  "never be due",
		"@daily":          "abbreviation",
		"CRON_TZ=UTC * *": "cannot have a time zone",
	} {
		if message, _ := scheduleTrouble(s); !strings.Contains(message, says) {
			t.Errorf("%q: got %q, want … %s …", s, message, says)
		}
	}
}
