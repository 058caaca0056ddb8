package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestAgeHasAtMostTwoUnits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		d    time.Duration
		want string
	}{
		{-time.Hour, "0s"},
		{0, "0s"},
		{999 * time.Millisecond, "0s"},
		{59*time.Second + 999*time.Millisecond, "59s"},
		{time.Minute, "1m"},
		{59*time.Minute + 59*time.Second, "59m"},
		{time.Hour, "1h"},
		{2*time.Hour + 10*time.Minute + 59*time.Second, "2h10m"},
		{24 * time.Hour, "1d"},
		{24*time.Hour + 59*time.Minute, "1d"},
		{400*24*time.Hour + 5*time.Hour, "400d5h"},
	} {
		if got := age(c.d); got != c.want {
			t.Errorf("age(%s) = %q, want %q", c.d, got, c.want)
		}
	}
}

func TestEscapeJSONKeepsTheMeaning(t *testing.T) {
	t.Parallel()
	in := "a\u009b2J\u202e\x7fé漢\U000e0001\n"
	data, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	out := escapeJSON(data)
	if i := bytes.IndexAny(out, "\u009b\u202e\x7f"); i >= 0 {
		t.Errorf("%q still has an active character", out)
	}
	var back string
	if err := json.Unmarshal(out, &back); err != nil || back != in {
		t.Errorf("read back %q, %v; want %q", back, err, in)
	}
}

func TestTableKeepsNamesWholeWhateverTheirLength(t *testing.T) {
	t.Parallel()
	name := strings.Repeat("n", 100)
	tab := table{head: []string{"NAME", "STATE", "AGE"}}
	tab.row([]string{strings.Repeat("word ", 30)}, name, "ready", "")
	b := paper{width: usualWidth}
	tab.render(&b)
	if !strings.Contains(strings.Join(strings.Fields(b.String()), ""), name) {
		t.Errorf("the name is cut:\n%s", &b)
	}
	golden(t, "output/long-name.txt", b.String())
}

func TestTableFitsExactlyEightyColumns(t *testing.T) {
	t.Parallel()
	for n, lines := range map[int]int{73: 2, 74: 4} { // 73 + 2 + 5 = 80
		tab := table{head: []string{"NAME", "STATE"}}
		tab.row(nil, strings.Repeat("n", n), "ready")
		b := paper{width: usualWidth}
		tab.render(&b)
		if got := strings.Count(b.String(), "\n"); got != lines {
			t.Errorf("a name of %d: %d lines, want %d", n, got, lines)
		}
	}
}
