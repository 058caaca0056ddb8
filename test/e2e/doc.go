// Package e2e runs the supervisor beside a real containerd that creates real containers.
//
// TestMain builds what is needed (see prepare.sh) and needs root. Each test starts a containerd of its own in a temporary root, with its own NRI socket, and drives it over CRI; the
// supervisor runs as the binary that is released. At the end of each test nothing of its containerd may be left: no process, mount or control group. What a killed run left is removed by
// the next one.
package e2e
