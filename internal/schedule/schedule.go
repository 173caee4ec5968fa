// Package schedule reads cron schedules, as cluster files name them, with the time zone that they are in.
package schedule

import (
	"fmt"
	"time"

	"github.com/netresearch/go-cron"
)

// Schedule says when something is due.
type Schedule interface {
	// Next returns the first time after t; zero: never.
	Next(t time.Time) time.Time
}

// Parse reads a schedule of five fields; an empty zone is UTC. What falls into an hour that is left out when summer time starts is due an
// hour later by the clock; what falls into one that comes twice is due twice.
func Parse(text, zone string) (Schedule, error) {
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
	s, err := parser.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("schedule %q: %w", text, err)
	}
	return zoned{s, loc}, nil
}

type zoned struct {
	cron.Schedule
	loc *time.Location
}

func (z zoned) Next(t time.Time) time.Time { return z.Schedule.Next(t.In(z.loc)) }
