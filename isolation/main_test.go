package isolation_test

import (
	"os"
	"testing"
)

// modeEnv makes this test binary behave as a plugin.
const modeEnv = "ISOLATION_TEST_MODE"

func TestMain(m *testing.M) {
	if mode := os.Getenv(modeEnv); mode != "" {
		os.Exit(beAPlugin(mode))
	}
	os.Exit(m.Run())
}
