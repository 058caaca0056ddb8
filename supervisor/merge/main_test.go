package merge_test

import (
	"context"
	"os"
	"testing"

	"github.com/containerd/nri/pkg/log"
)

// TestMain routes NRI's logger, as every program must that uses this package.
func TestMain(m *testing.M) {
	log.Set(silence{})
	os.Exit(m.Run())
}

type silence struct{}

func (silence) Debugf(context.Context, string, ...any) {}
func (silence) Infof(context.Context, string, ...any)  {}
func (silence) Warnf(context.Context, string, ...any)  {}
func (silence) Errorf(context.Context, string, ...any) {}
