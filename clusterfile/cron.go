package clusterfile

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"cke"
)

// cronField is one of the five fields of a schedule.
type cronField struct {
	name     string
	min, max int
	words    []string // names of the values from min on, or none
}

func cronFields() []cronField {
	return []cronField{
		{"minute", 0, 59, nil},
		{"hour", 0, 23, nil},
		{"day of month", 1, 31, nil},
		{"month", 1, 12, []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
		{"day of week", 0, 7, []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
	}
}

// checkSchedule checks a cron schedule and its time zone; both may be empty.
func checkSchedule(f *findings, at, schedule, zone string) {
	if schedule != "" {
		message, remedy := scheduleTrouble(schedule)
		fields := strings.Fields(schedule)
		switch {
		case message != "":
			f.fault(at+".schedule", message, remedy)
		case fields[2] != "*" && fields[4] != "*":
			f.warn(at+".schedule", "names both a day of month and a day of week, which cron programs understand differently", "Let one of them be *.")
		}
	}
	if zone == "" {
		return
	}
	if _, err := time.LoadLocation(zone); err != nil || strings.EqualFold(zone, "local") {
		f.fault(at+".time_zone", fmt.Sprintf("unknown time zone %q", shorten(zone)), "Write an IANA name, as Asia/Tokyo or UTC.")
	}
}

// scheduleTrouble says what is wrong with a schedule of five fields, or "".
func scheduleTrouble(s string) (message, remedy string) {
	const form = "Write minute, hour, day of month, month and day of week, as \"30 3 * * *\"."
	switch {
	case strings.HasPrefix(s, "@"):
		return fmt.Sprintf("%q is an abbreviation, which is not supported", shorten(s)), form
	case strings.Contains(s, "TZ="):
		return "a schedule cannot have a time zone", "Write it as time_zone."
	case len(s) > 1024:
		return "is too long for a schedule", form
	}
	parts := strings.Fields(s)
	if len(parts) != 5 {
		return fmt.Sprintf("has %s, a schedule has five", cke.Count(len(parts), "field")), form
	}
	var days, months uint64
	for i, field := range cronFields() {
		bits, err := field.parse(parts[i])
		if err != nil {
			return fmt.Sprintf("%s %q: %v", field.name, shorten(parts[i]), err),
				fmt.Sprintf("Write *, a number from %d to %d, a range as 1-5, a list as 1,3 or a step as */2.", field.min, field.max)
		}
		switch i {
		case 2:
			days = bits
		case 3:
			months = bits
		}
	}
	if !anyDate(days, months) {
		return fmt.Sprintf("month %s has no day %s: it would never be due", parts[3], parts[2]), form
	}
	return "", ""
}

// anyDate reports whether one of the months has one of the days.
func anyDate(days, months uint64) bool {
	for m := 1; m <= 12; m++ {
		last := time.Date(2024, time.Month(m)+1, 0, 0, 0, 0, 0, time.UTC).Day() // 2024: a leap year
		if months&(1<<m) != 0 && days&(1<<(last+1)-1)&^1 != 0 {
			return true
		}
	}
	return false
}

// parse returns the values of a field as a set of bits.
func (c cronField) parse(s string) (uint64, error) {
	var bits uint64
	for _, part := range strings.Split(s, ",") {
		span, stepText, stepped := strings.Cut(part, "/")
		low, high := c.min, c.max
		if span != "*" {
			from, to, isRange := strings.Cut(span, "-")
			var err error
			if low, err = c.number(from); err != nil {
				return 0, err
			}
			switch {
			case isRange:
				if high, err = c.number(to); err != nil {
					return 0, err
				}
			case stepped:
				return 0, errors.New("a step needs * or a range before it")
			default:
				high = low
			}
		}
		if low > high {
			return 0, fmt.Errorf("%d is after %d", low, high)
		}
		step := 1
		if stepped {
			n, err := strconv.Atoi(stepText)
			if err != nil || n < 1 || n > 1 && n > high-low {
				return 0, fmt.Errorf("invalid step %q: want a number from %d to %d", stepText, low, high)
			}
			step = n
		}
		for v := low; v <= high; v += step {
			bits |= 1 << v
		}
	}
	return bits, nil
}

func (c cronField) number(s string) (int, error) {
	for i, w := range c.words {
		if strings.EqualFold(s, w) {
			return c.min + i, nil
		}
	}
	n, err := strconv.Atoi(s)
	if err != nil || strings.HasPrefix(s, "+") {
		return 0, fmt.Errorf("%q is not a number", s)
	}
	if n < c.min || n > c.max {
		return 0, fmt.Errorf("%d is not within %d–%d", n, c.min, c.max)
	}
	return n, nil
}
