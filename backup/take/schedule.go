package take

import (
	"fmt"
	"time"

	"github.com/netresearch/go-cron"

	"cke"
)

// ParseSchedule reads a cron schedule of five fields in its time zone. The zero BackupSchedule gives nil: never.
// What falls into an hour that is left out when summer time begins is due an hour later by the clock; what falls into one
// that comes twice is due twice.
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
