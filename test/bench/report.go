package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// machine is where it was measured.
type machine struct {
	CPU    string `json:"cpu"`
	CPUs   int    `json:"cpus"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
}

// report is everything that a full run found.
type report struct {
	Machine  machine           `json:"machine"`
	Bars     []outcome         `json:"bars,omitempty"`
	Rows     []row             `json:"rows,omitempty"`
	Slow     []timing          `json:"slowOnStock,omitempty"`
	Flood    []timing          `json:"flood,omitempty"`
	Upstream []timing          `json:"upstream,omitempty"`
	Facts    []fact            `json:"facts,omitempty"`
	Full     []fullStartReport `json:"startOnAFullNode,omitempty"`
}

func thisMachine() machine {
	m := machine{CPUs: runtime.NumCPU(), Go: runtime.Version(), CPU: "unknown", Kernel: "unknown"}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				m.CPU = strings.TrimSpace(value)
				break
			}
		}
	}
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(text))
	}
	return m
}

// write writes the report as JSON into the folder, and the plot if there is something to draw.
func (r *report) write(dir string, out io.Writer) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // results are for everybody
		return err
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "results.json")
	if err := os.WriteFile(path, append(data, '\n'), 0o644); err != nil { //nolint:gosec // as above
		return err
	}
	fmt.Fprintf(out, "written: %s\n", path)
	svg, err := r.plot()
	if err != nil || svg == nil {
		return err
	}
	path = filepath.Join(dir, "performance.svg")
	if err := os.WriteFile(path, svg, 0o644); err != nil { //nolint:gosec // as above
		return err
	}
	fmt.Fprintf(out, "written: %s\n", path)
	return nil
}
