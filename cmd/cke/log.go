package main

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	welllog "github.com/cybozu-go/log"
)

// wellFormat passes what well logs (signals, HTTP) on to slog and leaves nothing for well's own output.
type wellFormat struct{ log *slog.Logger }

var _ welllog.Formatter = wellFormat{}

// String implements welllog.Formatter.
func (wellFormat) String() string { return "slog" }

// Format implements welllog.Formatter.
func (f wellFormat) Format(buf []byte, _ *welllog.Logger, _ time.Time, severity int, msg string, fields map[string]any) ([]byte, error) {
	level := slog.LevelInfo
	switch {
	case fields[welllog.FnType] == "access":
		level = slog.LevelDebug // probes and scrapes come every few seconds
	case severity <= welllog.LvError:
		level = slog.LevelError
	case severity <= welllog.LvWarn:
		level = slog.LevelWarn
	case severity >= welllog.LvDebug:
		level = slog.LevelDebug
	}
	var attrs []slog.Attr
	for _, k := range slices.Sorted(maps.Keys(fields)) {
		attrs = append(attrs, slog.Any(k, fields[k]))
	}
	f.log.LogAttrs(context.Background(), level, msg, attrs...)
	return buf[:0], nil
}
