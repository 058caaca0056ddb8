// Package monitoring holds alerts for Prometheus and a dashboard for Grafana. It has no code: its tests hold the files against the metrics that there are and the runbook.
package monitoring
