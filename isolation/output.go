package isolation

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// lastLines and lastLineBytes bound Exit.LastOutput.
	lastLines, lastLineBytes = 20, 512
	// headBytes is how much of the first output is shown when a start fails.
	headBytes = 256
	// readBytes is the size of one read of a pipe: half of a pipe's default capacity of 64 KiB, pipe(7).
	readBytes = 32 << 10
	// readRate and readBurst are how often a stream is read in a second, and at once. Who writes more often than that, or more than 32 MB/s, waits for floodPause each time, and does not keep a
	// processor from the events: what came meanwhile is one read.
	readRate, readBurst = 500, 100
	floodPause          = time.Millisecond
	// reportDropped is how long a stream may be silent before the lines that were dropped are reported without another line.
	reportDropped = time.Second
)

// keptLine is one of the last lines: its text, or, of one that was dropped, what it was read as, since a flood is not worth parsing.
type keptLine struct {
	text string
	raw  []byte
}

// output is what one incarnation wrote: it keeps the last lines of both streams and the first bytes of stdout.
type output struct {
	pid    int        // set before anything is read
	sink   func(Line) // may be nil
	sinkMu sync.Mutex // held while sink is called, so that its calls are one at a time

	mu   sync.Mutex // guards the rest
	last []keptLine // the oldest first
	head []byte     // of stdout
	// crash is the line that began the report of a Go program's crash: its stack is often longer than what is kept.
	crash string

	firstLine string // of stdout, when sawFirst
	sawFirst  bool
}

// drain reads r until it ends, cutting it into lines. first, if not nil, is given the first line of the stream, or its end
// without one; it says whether the line is to be treated as output too.
func (o *output) drain(stream Stream, r io.Reader, first func(line []byte) bool) {
	d := drainer{o: o, stream: stream, first: first, limit: newLimiter(LineRate, LineBurst, time.Now())}
	buf := make([]byte, readBytes)
	pace := newLimiter(readRate, readBurst, time.Now())
	pipe, timed := r.(interface{ SetReadDeadline(t time.Time) error })
	for {
		waiting := timed && d.dropped > 0 && pipe.SetReadDeadline(time.Now().Add(reportDropped)) == nil
		n, err := r.Read(buf)
		if waiting {
			_ = pipe.SetReadDeadline(time.Time{}) // as above; a closed pipe says so at the next read
		}
		if stream == Stdout {
			o.addHead(buf[:n])
		}
		d.write(buf[:n])
		switch {
		case waiting && errors.Is(err, os.ErrDeadlineExceeded):
			d.reportDropped()
		case err != nil:
			d.end()
			return
		case !pace.allow(time.Now()):
			<-time.After(floodPause)
		}
	}
}

func (o *output) addHead(p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if room := headBytes - len(o.head); room > 0 {
		o.head = append(o.head, p[:min(room, len(p))]...)
	}
}

// setFirstLine records the first line of stdout, or that there will be none.
func (o *output) setFirstLine(line []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.firstLine, o.sawFirst = string(line), true
}

// first is the first line of stdout, if there was one.
func (o *output) first() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.firstLine
}

func (o *output) sawFirstLine() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sawFirst
}

// firstBytes is the beginning of stdout.
func (o *output) firstBytes() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.head)
}

// lastOutput is a copy of the last lines.
func (o *output) lastOutput() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []string
	for _, l := range o.last {
		text := l.text
		if l.raw != nil {
			text = cutText(parseLine(l.raw).Text)
		}
		out = append(out, text)
	}
	if o.crash != "" && !slices.Contains(out, o.crash) {
		out = append([]string{o.crash}, out...)
	}
	return out
}

// setCrash remembers the line that begins a crash.
func (o *output) setCrash(line []byte) {
	text := cutText(parseLine(line).Text)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.crash = text
}

// show gives a line to the sink.
func (o *output) show(l Line) {
	if o.sink == nil {
		return
	}
	l.PID = o.pid
	o.sinkMu.Lock()
	defer o.sinkMu.Unlock()
	o.sink(l)
}

// keep remembers one of the last lines.
func (o *output) keep(text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.nextLocked()
	l.text, l.raw = cutText(text), nil
}

// keepRaw remembers the lines in text, without a newline at the end, as far as they are the last ones.
func (o *output) keepRaw(text []byte) {
	begin := len(text)
	for range lastLines {
		if begin = bytes.LastIndexByte(text[:max(begin, 0)], '\n'); begin < 0 {
			break
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for line := range bytes.SplitSeq(text[begin+1:], []byte("\n")) {
		l := o.nextLocked()
		l.text, l.raw = "", append(l.raw[:0], line[:min(len(line), MaxLine)]...)
		if l.raw == nil {
			l.raw = []byte{}
		}
	}
}

// nextLocked is where the next line goes; the oldest makes room for it.
func (o *output) nextLocked() *keptLine {
	if len(o.last) < lastLines {
		o.last = append(o.last, keptLine{})
		return &o.last[len(o.last)-1]
	}
	oldest := o.last[0]
	copy(o.last, o.last[1:])
	o.last[lastLines-1] = oldest // its buffer is used again
	return &o.last[lastLines-1]
}

func cutText(text string) string {
	if len(text) > lastLineBytes {
		return strings.ToValidUTF8(text[:lastLineBytes], "")
	}
	return text
}

// drainer cuts one stream.
type drainer struct {
	o      *output
	stream Stream
	first  func([]byte) bool
	limit  limiter

	line      []byte
	truncated bool
	dropped   int
	over      bool // the last line was one too many
	panicking bool // inside a Go panic's report
}

func (d *drainer) write(p []byte) {
	for len(p) > 0 {
		text, rest, found := cutLine(p)
		if room := MaxLine - len(d.line); len(text) > room {
			d.line = append(d.line, text[:room]...)
			d.truncated = true
		} else {
			d.line = append(d.line, text...)
		}
		if found {
			d.finish()
			if d.over {
				rest = d.skip(rest)
			}
		} else if d.truncated && d.first != nil {
			d.takeFirst() // no handshake is that long
		}
		p = rest
	}
}

func cutLine(p []byte) (line, rest []byte, found bool) { return bytes.Cut(p, []byte("\n")) }

// skip drops the whole lines at the start of p, which came together with one that was too many, and returns what follows them. Nothing is done for each of them, so that reading a flood
// costs about what writing it did.
func (d *drainer) skip(p []byte) []byte {
	end := bytes.LastIndexByte(p, '\n')
	if end < 0 {
		return p
	}
	lines := p[:end]
	d.dropped += bytes.Count(lines, []byte("\n")) + 1
	d.lookForCrash(lines)
	d.o.keepRaw(lines)
	return p[end+1:]
}

// lookForCrash looks for the beginning of a crash in whole lines that are about to be kept.
func (d *drainer) lookForCrash(lines []byte) {
	if d.panicking || d.stream != Stderr {
		return
	}
	for _, start := range crashes() {
		at := 0
		if !bytes.HasPrefix(lines, []byte(start)) {
			if at = bytes.Index(lines, []byte("\n"+start)) + 1; at == 0 {
				continue
			}
		}
		d.panicking = true
		line, _, _ := bytes.Cut(lines[at:], []byte("\n"))
		d.o.setCrash(line[:min(len(line), MaxLine)])
		return
	}
}

// crashes begin the report of a Go program that crashes.
func crashes() []string { return []string{"panic: ", "fatal error: "} }

// end is the end of the stream.
func (d *drainer) end() {
	if len(d.line) > 0 {
		d.finish()
	}
	if d.first != nil {
		d.takeFirst()
	}
	d.reportDropped()
}

// reportDropped tells of lines that were dropped since the last one that was shown.
func (d *drainer) reportDropped() {
	if d.dropped > 0 {
		d.o.show(Line{Stream: d.stream, Dropped: d.dropped})
		d.dropped = 0
	}
}

// takeFirst hands over the first line and tells whether it is output as well.
func (d *drainer) takeFirst() bool {
	first := d.first
	d.first = nil
	return first(d.line)
}

func (d *drainer) finish() {
	show := true
	if d.first != nil {
		show = d.takeFirst()
	}
	if d.over = false; show {
		d.emit()
	}
	d.line, d.truncated = d.line[:0], false
}

func (d *drainer) emit() {
	d.lookForCrash(d.line)
	if d.over = !d.limit.allow(time.Now()); d.over {
		d.dropped++
		d.o.keepRaw(d.line)
		return
	}
	line := parseLine(d.line)
	line.Stream, line.Truncated = d.stream, d.truncated
	if line.Level == "" && d.panicking {
		line.Level = levelError
	}
	d.o.keep(line.Text)
	line.Dropped, d.dropped = d.dropped, 0
	d.o.show(line)
}

// limiter is a token bucket: so many per second and so many at once.
type limiter struct {
	rate, burst, tokens float64
	last                time.Time
}

func newLimiter(rate, burst float64, now time.Time) limiter {
	return limiter{rate: rate, burst: burst, tokens: burst, last: now}
}

func (l *limiter) refill(now time.Time) {
	l.tokens = min(l.burst, l.tokens+l.rate*now.Sub(l.last).Seconds())
	l.last = now
}

// take takes n, which may be more than there is, and returns how long to wait until it is there.
func (l *limiter) take(n float64, now time.Time) time.Duration {
	l.refill(now)
	if l.tokens -= n; l.tokens >= 0 {
		return 0
	}
	return max(time.Duration(-l.tokens/l.rate*float64(time.Second)), floodPause)
}

func (l *limiter) allow(now time.Time) bool {
	l.refill(now)
	if l.tokens < 1 {
		return false
	}
	l.tokens--
	return true
}
