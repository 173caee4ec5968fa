package keep

import (
	"testing"
	"time"

	"cke"
	"cke/backup/take"
)

// A clock that was ahead when a drill was dated must not keep the next one waiting for as long.
func TestAfter_ComesAlthoughTheClockWasPutBack(t *testing.T) {
	hourly, err := take.ParseSchedule(cke.BackupSchedule{Schedule: "0 * * * *", TimeZone: "UTC"})
	if err != nil {
		t.Fatal(err)
	}
	noon := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	l := &line{begun: noon.AddDate(1, 0, 0)}
	last := noon.AddDate(1, 0, 0)
	if next := l.after(hourly, last, noon); !next.Equal(noon.Add(time.Hour)) {
		t.Errorf("next at %s", next)
	}
	if next := l.after(hourly, last, noon.Add(2*time.Hour)); next.After(noon.Add(2 * time.Hour)) {
		t.Errorf("two hours later not due: %s", next)
	}
	if next := l.after(hourly, noon, noon.Add(time.Minute)); !next.Equal(noon.Add(time.Hour)) {
		t.Errorf("usually: %s", next)
	}
}
