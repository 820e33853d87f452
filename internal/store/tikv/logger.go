package tikv

import (
	"context"
	"log/slog"

	"github.com/pingcap/log"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// routeLogs redirects the log of the client library, which is a global of its own. The
// library logs errors that it handles by itself, so every level is lowered by one.
func routeLogs(to *slog.Logger) {
	logger := zap.New(zapCore{to})
	log.ReplaceGlobals(logger, &log.ZapProperties{Core: logger.Core(), Level: zap.NewAtomicLevelAt(zap.WarnLevel)})
}

type zapCore struct{ to *slog.Logger }

func level(l zapcore.Level) slog.Level {
	switch {
	case l >= zapcore.DPanicLevel:
		return slog.LevelError
	case l == zapcore.ErrorLevel:
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

// Enabled reports whether messages of a level are logged.
func (s zapCore) Enabled(l zapcore.Level) bool {
	return l >= zapcore.WarnLevel && s.to.Enabled(context.Background(), level(l))
}

// With returns a core that adds fields to all messages.
func (s zapCore) With(fields []zapcore.Field) zapcore.Core {
	return zapCore{s.to.With(attributes(fields)...)}
}

// Check adds the core to a message if it is logged.
func (s zapCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if s.Enabled(entry.Level) {
		return checked.AddCore(entry, s)
	}
	return checked
}

// Write logs a message.
func (s zapCore) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	s.to.Log(context.Background(), level(entry.Level), "tikv client: "+entry.Message, attributes(fields)...)
	return nil
}

// Sync does nothing.
func (s zapCore) Sync() error { return nil }

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
