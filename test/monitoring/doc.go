// Package monitoring runs a real Prometheus with the alerts of deploy/monitoring against a real supervisor. Its tests have the build tag monitoring: they need Prometheus,
// which `make monitoring` brings.
package monitoring
