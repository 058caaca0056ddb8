// Package body is what all versions of NRI are tested with: it requires the oldest one, and each module beside it raises the version.
package body

import "testing"

// Run is the test of one version.
func Run(t *testing.T) { t.Helper() }
