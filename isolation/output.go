package isolation

import (
	"errors"
	"io"
	"os"
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
	// reportDropped is how long a stream may be silent before the lines that were dropped are reported without another line.
	reportDropped = time.Second
)

// output is what one incarnation wrote: it keeps the last lines of both streams and the first bytes of stdout.
type output struct {
	pid    int        // set before anything is read
	sink   func(Line) // may be nil
	sinkMu sync.Mutex // held while sink is called, so that its calls are one at a time

	mu   sync.Mutex // guards the rest
	last []string   // the oldest first
	head []byte     // of stdout

	firstLine string // of stdout, when sawFirst
	sawFirst  bool
}

// drain reads r until it ends, cutting it into lines. first, if not nil, is given the first line of the stream, or its end
// without one; it says whether the line is to be treated as output too.
func (o *output) drain(stream Stream, r io.Reader, first func(line []byte) bool) {
	d := drainer{o: o, stream: stream, first: first, limit: newLimiter(time.Now())}
	buf := make([]byte, readBytes)
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
	return append([]string(nil), o.last...)
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

func (o *output) keep(text string) {
	if len(text) > lastLineBytes {
		text = strings.ToValidUTF8(text[:lastLineBytes], "")
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.last) == lastLines {
		copy(o.last, o.last[1:])
		o.last = o.last[:lastLines-1]
	}
	o.last = append(o.last, text)
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
		} else if d.truncated && d.first != nil {
			d.takeFirst() // no handshake is that long
		}
		p = rest
	}
}

func cutLine(p []byte) (line, rest []byte, found bool) {
	for i, b := range p {
		if b == '\n' {
			return p[:i], p[i+1:], true
		}
	}
	return p, nil, false
}

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
	if show {
		d.emit()
	}
	d.line, d.truncated = d.line[:0], false
}

func (d *drainer) emit() {
	line := parseLine(d.line)
	line.Stream, line.Truncated = d.stream, d.truncated
	if line.Level == "" && d.stream == Stderr {
		if strings.HasPrefix(line.Text, "panic: ") || strings.HasPrefix(line.Text, "fatal error: ") {
			d.panicking = true
		}
		if d.panicking {
			line.Level = levelError
		}
	}
	d.o.keep(line.Text)
	if !d.limit.allow(time.Now()) {
		d.dropped++
		return
	}
	line.Dropped, d.dropped = d.dropped, 0
	d.o.show(line)
}

// limiter is a token bucket of LineRate lines per second and LineBurst lines at once.
type limiter struct {
	tokens float64
	last   time.Time
}

func newLimiter(now time.Time) limiter { return limiter{tokens: LineBurst, last: now} }

func (l *limiter) allow(now time.Time) bool {
	l.tokens = min(LineBurst, l.tokens+LineRate*now.Sub(l.last).Seconds())
	l.last = now
	if l.tokens < 1 {
		return false
	}
	l.tokens--
	return true
}
