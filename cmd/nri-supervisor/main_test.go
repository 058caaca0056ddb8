package main

import (
	"os"
	"testing"

	"github.com/nri-supervisor/nri-supervisor/isolation"
)

// TestMain makes this test binary what the program is: it calls itself as a helper.
func TestMain(m *testing.M) {
	if args := os.Args[1:]; len(args) > 0 && args[0] == helperCommand {
		os.Exit(isolation.RunHelper(args[1:]))
	}
	os.Exit(m.Run())
}
