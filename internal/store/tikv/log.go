package tikv

import (
	"context"
	"log/slog"

	"github.com/pingcap/log"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// routeLogs sends what the client library logs, which it does through a global
// of its own, to our log. It calls errors what it mends by itself, so all of it
// is a step less grave here.
func routeLogs(to *slog.Logger) {
	logger := zap.New(sink{to})
	log.ReplaceGlobals(logger, &log.ZapProperties{Core: logger.Core(), Level: zap.NewAtomicLevelAt(zap.WarnLevel)})
}

type sink struct{ to *slog.Logger }

func level(l zapcore.Level) slog.Level {
	switch {
	case l >= zapcore.DPanicLevel:
		return slog.LevelError
	case l == zapcore.ErrorLevel:
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

// Enabled tells whether a message of that level is wanted.
func (s sink) Enabled(l zapcore.Level) bool {
	return l >= zapcore.WarnLevel && s.to.Enabled(context.Background(), level(l))
}

// With adds fields to all messages that follow.
func (s sink) With(fields []zapcore.Field) zapcore.Core {
	return sink{s.to.With(attributes(fields)...)}
}

// Check takes a message if it is wanted.
func (s sink) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if s.Enabled(entry.Level) {
		return checked.AddCore(entry, s)
	}
	return checked
}

// Write logs a message.
func (s sink) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	s.to.Log(context.Background(), level(entry.Level), "tikv client: "+entry.Message, attributes(fields)...)
	return nil
}

// Sync has nothing to do.
func (s sink) Sync() error { return nil }

func attributes(fields []zapcore.Field) []any {
	values := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(values)
	}
	var all []any
	for name, value := range values.Fields {
		all = append(all, slog.Any(name, value))
	}
	return all
}
