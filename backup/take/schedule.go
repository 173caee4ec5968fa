package take

import (
	"cke"
	"cke/internal/schedule"
)

// Schedule computes when something is due; nil: never.
type Schedule = schedule.Schedule

// ParseSchedule parses a schedule in its time zone. The zero BackupSchedule gives nil: never.
func ParseSchedule(s cke.BackupSchedule) (Schedule, error) {
	if s.Schedule == "" {
		return nil, nil
	}
	return schedule.Parse(s.Schedule, s.TimeZone)
}
