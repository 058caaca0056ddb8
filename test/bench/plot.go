package main

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"text/template"
)

// line is one line of the plot: how long a creation takes, by the number of plugins.
type line struct {
	Name, Color, Dash string
	Points            string // as SVG has them
	Marks             []mark
	LabelX, LabelY    int
}

type mark struct {
	X, Y  int
	Label string
}

// The plot's size, and where its axes are, in SVG's pixels.
const (
	plotWidth, plotHeight                   = 760, 400
	plotLeft, plotRight, plotTop, plotFloor = 70, 590, 50, 340
	labelGap                                = 16 // between the names of two lines
)

// plot draws CreateContainer of a typical pod, stock NRI and supervisor, over the number of plugins, as an SVG file. It returns nil when that was not measured.
func (r *report) plot() ([]byte, error) {
	var rows []row
	for _, x := range r.Rows {
		if x.Event == "CreateContainer" && x.Payload == "typical" && len(x.Timings) > 1 {
			rows = append(rows, x)
		}
	}
	if len(rows) == 0 {
		return nil, nil
	}
	scale := newScale(rows)
	lines := []line{
		scale.line(rows, "stock NRI, all plugins act", "#b0413e", "", "all", 0),
		scale.line(rows, "supervisor, all selected", "#2c5f8a", "6 4", "all", 1),
		scale.line(rows, "supervisor, one selected", "#2c5f8a", "", "one", 1),
		scale.line(rows, "supervisor, none selected", "#4f8f5b", "", "none", 1),
	}
	spread(lines)
	var out bytes.Buffer
	err := plotTemplate().Execute(&out, map[string]any{
		"Width": plotWidth, "Height": plotHeight, "Left": plotLeft, "Right": plotRight, "Top": plotTop, "Floor": plotFloor, "Under": plotFloor + 20, "Foot": plotFloor + 44,
		"Columns": scale.columns, "Grid": scale.grid(), "Lines": lines, "Machine": fmt.Sprintf("%d × %s, %s", r.Machine.CPUs, r.Machine.CPU, r.Machine.Go),
	})
	return out.Bytes(), err
}

// scale says where values are: numbers of plugins side by side, times by their logarithm.
type scale struct {
	columns   []mark
	places    map[int]int // number of plugins → x
	low, high float64     // µs, powers of ten
}

func newScale(rows []row) scale {
	s := scale{places: map[int]int{}, low: math.Inf(1)}
	for _, r := range rows {
		s.places[r.Plugins] = 0
		for _, t := range r.Timings[:2] {
			s.low, s.high = min(s.low, max(t.P50, 1)), max(s.high, t.P50, 1)
		}
	}
	s.low, s.high = math.Pow(10, math.Floor(math.Log10(s.low))), math.Pow(10, math.Ceil(math.Log10(s.high*1.0001)))
	for _, r := range rows { // in the order in which they were measured
		if s.places[r.Plugins] == 0 {
			x := plotLeft + 30 + len(s.columns)*75
			s.places[r.Plugins] = x
			s.columns = append(s.columns, mark{X: x, Label: strconv.Itoa(r.Plugins)})
		}
	}
	return s
}

func (s scale) y(micros float64) int {
	part := (math.Log10(max(micros, 1)) - math.Log10(s.low)) / (math.Log10(s.high) - math.Log10(s.low))
	return plotFloor - int(math.Round(part*(plotFloor-plotTop)))
}

// grid has a line for each power of ten.
func (s scale) grid() []mark {
	var out []mark
	for v := s.low; v <= s.high*1.01; v *= 10 {
		out = append(out, mark{Y: s.y(v), Label: inWords(v)})
	}
	return out
}

func inWords(micros float64) string {
	if micros >= 1000 {
		return fmt.Sprintf("%.3g ms", micros/1000)
	}
	return fmt.Sprintf("%.3g µs", micros)
}

// line makes the line of one contender for one share of selected plugins.
func (s scale) line(rows []row, name, color, dash, share string, contender int) line {
	l := line{Name: name, Color: color, Dash: dash, LabelX: plotRight + 8}
	for _, r := range rows {
		if r.Selected != share {
			continue
		}
		m := mark{X: s.places[r.Plugins], Y: s.y(r.Timings[contender].P50), Label: fmt.Sprintf("%s, %d plugins: %s", name, r.Plugins, inWords(r.Timings[contender].P50))}
		l.Points += fmt.Sprintf("%d,%d ", m.X, m.Y)
		l.Marks, l.LabelX, l.LabelY = append(l.Marks, m), m.X+10, m.Y+4
	}
	return l
}

// spread moves the names of lines that end close to each other apart, from the top down.
func spread(lines []line) {
	for i := range lines {
		for j := range i {
			if d := lines[i].LabelY - lines[j].LabelY; d > -labelGap && d < labelGap {
				lines[i].LabelY = lines[j].LabelY + labelGap
			}
		}
	}
}

func plotTemplate() *template.Template {
	return template.Must(template.New("plot").Funcs(template.FuncMap{"html": template.HTMLEscapeString}).Parse(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {{.Width}} {{.Height}}" font-family="sans-serif" font-size="12" role="img">
<title>How long CreateContainer takes, by the number of plugins</title>
<rect width="{{.Width}}" height="{{.Height}}" fill="#ffffff"/>
<text x="{{.Left}}" y="26" font-size="15" fill="#222222">CreateContainer, median, by the number of plugins (less is better)</text>
{{range .Grid}}<line x1="{{$.Left}}" x2="{{$.Right}}" y1="{{.Y}}" y2="{{.Y}}" stroke="#dddddd"/><text x="{{$.Left}}" dx="-8" y="{{.Y}}" dy="4" text-anchor="end" fill="#555555">{{.Label}}</text>
{{end}}{{range .Columns}}<text x="{{.X}}" y="{{$.Under}}" text-anchor="middle" fill="#555555">{{.Label}}</text>
{{end}}{{range .Lines}}{{$line := .}}<polyline points="{{.Points}}" fill="none" stroke="{{.Color}}" stroke-width="2"{{if .Dash}} stroke-dasharray="{{.Dash}}"{{end}}/>
{{range .Marks}}<circle cx="{{.X}}" cy="{{.Y}}" r="3.5" fill="{{$line.Color}}"><title>{{html .Label}}</title></circle>
{{end}}<text x="{{.LabelX}}" y="{{.LabelY}}" fill="{{.Color}}">{{html .Name}}</text>
{{end}}<text x="{{.Left}}" y="{{.Foot}}" fill="#777777" font-size="11">plugins; typical pod; {{html .Machine}}</text>
</svg>
`))
}
