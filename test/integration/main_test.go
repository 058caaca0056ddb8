// Package integration_test runs the supervisor's real binary against NRI's real adaptation.
package integration_test

import (
	"os"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }
