// Package body is the test of one version of NRI: the supervisor, as the binary that is released, beside the runtime side of that version.
//
// It requires the oldest version; each module beside it raises the version and calls Run. What a runtime does is done by reflection, since the types of requests differ between versions.
// Run also writes what it measured to the file named by COMPAT_ROW, one line of a table: see run.sh.
package body
