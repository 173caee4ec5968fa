package local

import (
	"context"
	"log/slog"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// ZapToSlog makes etcd's logger speak through l. etcd is talkative: what it calls information is debugging here.
func ZapToSlog(l *slog.Logger, levels func(zapcore.Level) slog.Level) *zap.Logger {
	return zap.New(slogCore{l: l.With("component", "etcd"), level: levels})
}

// ServerLevel is for the embedded server: its warnings (slow disk, full quota) concern the operator.
func ServerLevel(l zapcore.Level) slog.Level {
	switch {
	case l >= zapcore.ErrorLevel:
		return slog.LevelError
	case l == zapcore.WarnLevel:
		return slog.LevelWarn
	default:
		return slog.LevelDebug
	}
}

// ClientLevel is for the client: its failures come back as errors, and its retries concern no operator.
func ClientLevel(zapcore.Level) slog.Level { return slog.LevelDebug }

type slogCore struct {
	l     *slog.Logger
	level func(zapcore.Level) slog.Level
}

var _ zapcore.Core = slogCore{}

// Enabled implements zapcore.Core.
func (c slogCore) Enabled(l zapcore.Level) bool {
	return c.l.Enabled(context.Background(), c.level(l))
}

// With implements zapcore.Core.
func (c slogCore) With(fields []zapcore.Field) zapcore.Core {
	c.l = c.l.With(attrs(fields)...)
	return c
}

// Check implements zapcore.Core.
func (c slogCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !c.Enabled(e.Level) || harmless(e.Message) {
		return ce
	}
	return ce.AddCore(e, c)
}

// Write implements zapcore.Core.
func (c slogCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	c.l.Log(context.Background(), c.level(e.Level), e.Message, attrs(fields)...)
	return nil
}

// Sync implements zapcore.Core.
func (slogCore) Sync() error { return nil }

func attrs(fields []zapcore.Field) []any {
	enc := zapcore.NewMapObjectEncoder()
	out := make([]any, 0, len(fields))
	for _, f := range fields {
		f.AddTo(enc)
		if v, ok := enc.Fields[f.Key]; ok {
			out = append(out, slog.Any(f.Key, v))
		}
	}
	return out
}

// harmless are complaints of etcd that do not apply to a store that listens on nothing but its socket, and those that
// every first start makes before there is anything to know.
func harmless(message string) bool {
	switch message {
	case "Running http and grpc server on single port. This is not recommended for production.",
		"simple token is not cryptographically signed",
		"Failed to detect schema version", "failed to update storage version":
		return true
	}
	// The only member, asked to elect itself before it has read its own membership, does so in the next tick.
	return strings.Contains(message, "cannot campaign at term")
}
