package main

import (
	"fmt"
	"io"
	"os"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// newLogger builds the log: one line for each event, JSON unless a person reads it on a terminal.
func newLogger(w io.Writer, level, format string) (*zap.Logger, error) {
	lvl, err := zapcore.ParseLevel(level)
	if err != nil {
		return nil, fmt.Errorf("--log-level %q is not one of debug, info, warn, error", level)
	}
	enc := encoderConfig()
	var encoder zapcore.Encoder
	switch {
	case format == "console", format == "auto" && terminal(w):
		encoder = zapcore.NewConsoleEncoder(enc)
	case format == "json", format == "auto":
		encoder = zapcore.NewJSONEncoder(enc)
	default:
		return nil, fmt.Errorf("--log-format %q is not one of json, console, auto", format)
	}
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), lvl)), nil
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
