package take

import (
	"fmt"
	"time"

	"github.com/netresearch/go-cron"

	"cke"
)

// ParseSchedule reads a cron schedule of five fields in its time zone. The zero BackupSchedule gives nil: never.
// On a day when the clock is put forward, what falls into the hour left out is due right after it.
func ParseSchedule(s cke.BackupSchedule) (Schedule, error) {
	if s.Schedule == "" {
		return nil, nil
	}
	zone := s.TimeZone
	if zone == "" {
		zone = "UTC"
	}
	loc, err := time.LoadLocation(zone)
	if err != nil {
		return nil, fmt.Errorf("time zone %q: %w", zone, err)
	}
	parser, err := cron.TryNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)
	if err != nil {
		return nil, err
	}
	sched, err := parser.Parse(s.Schedule)
	if err != nil {
		return nil, fmt.Errorf("schedule %q: %w", s.Schedule, err)
	}
	return zoned{sched, loc}, nil
}

type zoned struct {
	cron.Schedule
	loc *time.Location
}

func (z zoned) Next(t time.Time) time.Time { return z.Schedule.Next(t.In(z.loc)) }

// due is when the next full has to be taken after the last one. A last one in the future means that the clock was put
// back since: it counts as now.
func due(s Schedule, last, now time.Time) time.Time {
	if s == nil {
		return time.Time{}
	}
	if last.After(now) {
		last = now
	}
	return s.Next(last)
}
