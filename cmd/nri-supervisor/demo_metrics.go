package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// demoSeries is one line of Prometheus' text format.
type demoSeries struct {
	name   string
	labels map[string]string
	value  float64
}

// demoMetrics is one scrape.
type demoMetrics []demoSeries

// scrapeDemo reads the supervisor's metrics as a Prometheus server does.
func scrapeDemo(ctx context.Context, address string) (demoMetrics, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return nil, fmt.Errorf("scrape the supervisor's metrics: %w", err)
	}
	rsp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("scrape the supervisor's metrics: %w", err)
	}
	defer rsp.Body.Close()
	body, err := io.ReadAll(rsp.Body)
	if err != nil {
		return nil, fmt.Errorf("scrape the supervisor's metrics: %w", err)
	}
	if rsp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("scrape the supervisor's metrics: %s", rsp.Status)
	}
	return parseDemoMetrics(string(body))
}

// parseDemoMetrics reads the text format of the exposition: comments, and NAME{LABEL="VALUE",…} NUMBER.
func parseDemoMetrics(text string) (demoMetrics, error) {
	var out demoMetrics
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		s, err := parseDemoSeries(line)
		if err != nil {
			return nil, fmt.Errorf("read metric %q: %w", line, err)
		}
		out = append(out, s)
	}
	return out, nil
}

func parseDemoSeries(line string) (demoSeries, error) {
	s := demoSeries{labels: map[string]string{}}
	end := strings.IndexAny(line, "{ ")
	if end < 0 {
		return s, errors.New("no value")
	}
	s.name = line[:end]
	rest := line[end:]
	if rest[0] == '{' {
		rest = rest[1:]
		for !strings.HasPrefix(rest, "}") {
			key, after, ok := strings.Cut(rest, "=")
			if !ok {
				return s, errors.New("a label without a value")
			}
			quoted, err := strconv.QuotedPrefix(after)
			if err != nil {
				return s, fmt.Errorf("the value of label %q: %w", key, err)
			}
			if s.labels[key], err = strconv.Unquote(quoted); err != nil {
				return s, fmt.Errorf("the value of label %q: %w", key, err)
			}
			rest = strings.TrimPrefix(after[len(quoted):], ",")
		}
		rest = rest[1:]
	}
	number, _, _ := strings.Cut(strings.TrimSpace(rest), " ") // a time stamp may follow
	value, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return s, fmt.Errorf("the value: %w", err)
	}
	s.value = value
	return s, nil
}

// with returns the series of a metric that have the labels, pairs of name and value. The name is without the prefix that all have.
func (m demoMetrics) with(name string, labels ...string) demoMetrics {
	var out demoMetrics
series:
	for _, s := range m {
		if s.name != "nri_supervisor_"+name {
			continue
		}
		for i := 0; i+1 < len(labels); i += 2 {
			if s.labels[labels[i]] != labels[i+1] {
				continue series
			}
		}
		out = append(out, s)
	}
	return out
}

// sum adds the values up, to a whole number.
func (m demoMetrics) sum() int {
	total := 0.0
	for _, s := range m {
		total += s.value
	}
	return int(total)
}

// by adds the values up by a label, without those that are zero.
func (m demoMetrics) by(label string) map[string]int {
	out := map[string]int{}
	for _, s := range m {
		out[s.labels[label]] += int(s.value)
	}
	maps.DeleteFunc(out, func(_ string, n int) bool { return n == 0 })
	return out
}
