package main

import (
	"fmt"
	"io"
	"os"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// newLogger builds the log: one line for each event, JSON unless a person reads it on a terminal. Lines that repeat are sampled.
func newLogger(w io.Writer, level zap.AtomicLevel, format string) (*zap.Logger, *sampler, error) {
	enc := encoderConfig()
	var encoder zapcore.Encoder
	switch {
	case format == "console", format == "auto" && terminal(w):
		encoder = zapcore.NewConsoleEncoder(enc)
	case format == "json", format == "auto":
		encoder = zapcore.NewJSONEncoder(enc)
	default:
		return nil, nil, fmt.Errorf("--log-format %q is not one of json, console, auto", format)
	}
	log, s := sampled(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), level))
	return log, s, nil
}

// sampled is a log whose repeated lines are sampled; flush the sampler when it ends.
func sampled(core zapcore.Core) (*zap.Logger, *sampler) {
	s := newSampler()
	return zap.New(sampledCore{core, s}), s
}

// parseLevel reads a level of the log.
func parseLevel(text string) (zapcore.Level, error) {
	switch text {
	case "debug", "info", "warn", "error":
		return zapcore.ParseLevel(text)
	}
	return 0, fmt.Errorf("%q is not one of debug, info, warn, error", text)
}

// encoderConfig is how a line looks, wherever it goes.
func encoderConfig() zapcore.EncoderConfig {
	enc := zap.NewProductionEncoderConfig()
	enc.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	enc.EncodeDuration = zapcore.StringDurationEncoder
	enc.TimeKey = "time"
	return enc
}

// terminal reports whether a person reads w.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}
