package isolation

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestALineIsParsedWithItsLevel(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		raw  string
		want Line
	}{
		"hclog":               {`{"@level":"warn","@message":"disk full","@module":"gpu","@timestamp":"2024","free":0}`, Line{Level: "warn", Text: `disk full @module=gpu free=0`}},
		"slog":                {`{"time":"2024","level":"ERROR","msg":"no","err":"a b","n":{"x":1}}`, Line{Level: "error", Text: `no err="a b" n={"x":1}`}},
		"slog's own level":    {`{"level":"DEBUG-4","msg":"x"}`, Line{Level: "trace", Text: "x"}},
		"JSON without a text": {`{"level":"info"}`, Line{Text: `{"level":"info"}`}},
		"JSON of other types": {`{"level":3,"msg":"x"}`, Line{Text: `{"level":3,"msg":"x"}`}},
		"broken JSON":         {`{"level":"info","msg":`, Line{Text: `{"level":"info","msg":`}},
		"logrus":              {`time="2024" level=warning msg="Created plugin"`, Line{Level: "warn", Text: `time="2024" level=warning msg="Created plugin"`}},
		"level first":         {`level=info msg=x`, Line{Level: "info", Text: `level=info msg=x`}},
		"part of a word":      {`sealevel=info level=debug`, Line{Level: "debug", Text: `sealevel=info level=debug`}},
		"brackets":            {`[WARN] careful`, Line{Level: "warn", Text: `[WARN] careful`}},
		"other brackets":      {`[gpu] careful`, Line{Text: `[gpu] careful`}},
		"unknown level":       {`level=loud`, Line{Text: `level=loud`}},
		"plain":               {"hello", Line{Text: "hello"}},
		"empty":               {"", Line{}},
		"carriage return":     {"hello\r", Line{Text: "hello"}},
		"terminal control":    {"a\x1b[2Jb\x7f\x00\tc", Line{Text: "a\\u001b[2Jb\\u007f\\u0000\tc"}},
		"broken UTF-8":        {"a\xff\xc3b", Line{Text: `a\xff\xc3b`}},
		"reordering marks":    {"a\u202eb\u2028c\u0085", Line{Text: `a\u202eb\u2028c\u0085`}},
		"control inside JSON": {`{"level":"info","msg":"a\u001bb\nc"}`, Line{Level: "info", Text: `a\u001bb\u000ac`}},
		"other languages":     {"Grüße, 世界 \ufffd", Line{Text: "Grüße, 世界 \ufffd"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, parseLine([]byte(tt.raw))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzOutputNeverCarriesControlCharacters(f *testing.F) {
	for _, seed := range []string{"", "a\nb", "\x1b[31m", `{"@level":"info","@message":"\u0000","k":"\u202e"}`, "\xff\n", "level=info \x07"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		o := &output{sink: func(l Line) {
			if !utf8.ValidString(l.Text) {
				t.Errorf("invalid UTF-8: %q", l.Text)
			}
			if i := strings.IndexFunc(l.Text, func(r rune) bool { return r != '\t' && unicode.IsControl(r) }); i >= 0 {
				t.Errorf("control character at %d: %q", i, l.Text)
			}
		}}
		o.drain(Stderr, bytes.NewReader(data), nil)
	})
}

func TestOutputIsCutIntoLinesWhateverTheReadsAre(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("z", MaxLine+1)
	const text = "one\n\ntwo\nlast without end"
	for name, tt := range map[string]struct {
		chunks []string
		want   []Line
	}{
		"at once":       {[]string{text}, []Line{{Text: "one"}, {}, {Text: "two"}, {Text: "last without end"}}},
		"byte by byte":  {strings.Split(text, ""), []Line{{Text: "one"}, {}, {Text: "two"}, {Text: "last without end"}}},
		"just fits":     {[]string{long[:MaxLine] + "\nx\n"}, []Line{{Text: long[:MaxLine]}, {Text: "x"}}},
		"too long":      {[]string{long, "more", "\nx\n"}, []Line{{Text: long[:MaxLine], Truncated: true}, {Text: "x"}}},
		"only newlines": {[]string{"\n\n"}, []Line{{}, {}}},
		"a panic":       {[]string{"panic: oops\n\ngoroutine 1\n"}, []Line{{Text: "panic: oops", Level: "error"}, {Level: "error"}, {Text: "goroutine 1", Level: "error"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []Line
			o := &output{sink: func(l Line) {
				l.Stream = ""
				got = append(got, l)
			}}
			d := drainer{o: o, stream: Stderr, limit: newLimiter(LineRate, LineBurst, time.Now())}
			for _, c := range tt.chunks {
				d.write([]byte(c))
			}
			d.end()
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTheFirstLineIsHandedOverOnce(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text        string
		first       string
		shown       []string
		isHandshake bool
	}{
		"a handshake":       {"1|1|unix|/s|grpc\nhello\n", "1|1|unix|/s|grpc", []string{"hello"}, true},
		"something else":    {"hello\nagain\n", "hello", []string{"hello", "again"}, false},
		"nothing":           {"", "", nil, false},
		"without newline":   {"hel", "hel", []string{"hel"}, false},
		"an endless line":   {strings.Repeat("e", MaxLine+5), strings.Repeat("e", MaxLine), []string{strings.Repeat("e", MaxLine)}, false},
		"an empty line too": {"\nhello\n", "", []string{"", "hello"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var shown []string
			o := &output{sink: func(l Line) { shown = append(shown, l.Text) }}
			calls := 0
			o.drain(Stdout, strings.NewReader(tt.text), func(line []byte) bool {
				calls++
				if string(line) != tt.first {
					t.Errorf("first line %q", line)
				}
				if isHandshake(string(line)) != tt.isHandshake {
					t.Errorf("isHandshake(%q) = %v", line, !tt.isHandshake)
				}
				return !tt.isHandshake
			})
			if calls != 1 {
				t.Errorf("handed over %d times", calls)
			}
			if diff := cmp.Diff(tt.shown, shown); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTheLastLinesAreKeptAlsoWhenTheyAreNotShown(t *testing.T) {
	t.Parallel()
	shown := 0
	o := &output{sink: func(Line) { shown++ }}
	var b strings.Builder
	for range 3 * LineBurst {
		b.WriteString("noise\n")
	}
	b.WriteString(strings.Repeat("é", lastLineBytes) + "\nthe end\n")
	o.drain(Stderr, strings.NewReader(b.String()), nil)
	if shown > 2*LineBurst {
		t.Errorf("%d lines shown", shown)
	}
	last := o.lastOutput()
	if len(last) != lastLines || last[lastLines-1] != "the end" {
		t.Errorf("%d lines, the last is %q", len(last), last[len(last)-1])
	}
	if cut := last[lastLines-2]; len(cut) > lastLineBytes || !utf8.ValidString(cut) {
		t.Errorf("a line of %d bytes, valid UTF-8: %v", len(cut), utf8.ValidString(cut))
	}
}

// lineFlood gives the same block of lines again and again.
type lineFlood struct {
	block       []byte
	left, lines int
}

func (f *lineFlood) Read(p []byte) (int, error) {
	if f.left <= 0 {
		return 0, io.EOF
	}
	n := copy(p, f.block)
	f.left -= n
	f.lines += bytes.Count(p[:n], []byte("\n"))
	return n, nil
}

// TestReadingAFloodCostsAboutWhatWritingItDid: a plugin with a small share of a core could otherwise use up those of the supervisor. Empty lines, and those in JSON, are the dearest: looking at each of them takes
// minutes for as much as this, and what is done takes a second.
func TestReadingAFloodCostsAboutWhatWritingItDid(t *testing.T) {
	t.Parallel()
	for name, block := range map[string]string{"empty lines": "\n", "objects": "{}\n", "long objects": `{"@level":"info","@message":"x","a":[1,2,3,4]}` + "\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const size = 1 << 30
			calls, dropped := 0, 0
			o := &output{sink: func(l Line) {
				calls++
				dropped += l.Dropped
			}}
			flood := &lineFlood{block: []byte(strings.Repeat(block, readBytes/len(block))), left: size}
			begin := time.Now()
			o.drain(Stderr, flood, nil)
			took := time.Since(begin)
			if took > time.Minute {
				t.Errorf("1 GiB took %s", took)
			}
			if dropped > flood.lines || dropped+calls < flood.lines { // calls are lines that are shown, and at most one report of dropped ones
				t.Errorf("of %d lines %d were dropped; %d calls", flood.lines, dropped, calls)
			}
			if got := o.lastOutput(); len(got) != lastLines || got[0] != parseLine([]byte(strings.TrimSuffix(block, "\n"))).Text {
				t.Errorf("the last lines are %q", got)
			}
		})
	}
}

func TestTheRateLimitLetsABurstThroughAndRefills(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	l := newLimiter(LineRate, LineBurst, now)
	allowed := func(n int) int {
		ok := 0
		for range n {
			if l.allow(now) {
				ok++
			}
		}
		return ok
	}
	if n := allowed(2 * LineBurst); n != LineBurst {
		t.Errorf("burst of %d, want %d", n, LineBurst)
	}
	now = now.Add(time.Second)
	if n := allowed(2 * LineBurst); n != LineRate {
		t.Errorf("%d in a second, want %d", n, LineRate)
	}
	now = now.Add(time.Hour)
	if n := allowed(2 * LineBurst); n != LineBurst {
		t.Errorf("burst of %d after an hour, want %d", n, LineBurst)
	}
}
