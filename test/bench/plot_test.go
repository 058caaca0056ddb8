package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestThePlotIsAnImageWithALineForEachSide(t *testing.T) {
	t.Parallel()
	r := &report{Machine: machine{CPU: "a <fast> & small one", CPUs: 2, Go: "go"}}
	for _, n := range []int{1, 10, 100} {
		for share, micros := range map[string]float64{"none": 90, "one": 180, "all": 150 * float64(n)} {
			r.Rows = append(r.Rows, row{
				Event: "CreateContainer", Payload: "typical", Plugins: n, Selected: share,
				Timings: []timing{{P50: 110 * float64(n)}, {P50: micros}},
			})
		}
	}
	r.Rows = append(r.Rows, row{Event: "RunPodSandbox", Payload: "typical", Plugins: 10, Timings: []timing{{P50: 1e9}, {P50: 1e9}}})
	svg, err := r.plot()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for d := xml.NewDecoder(strings.NewReader(string(svg))); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, svg)
		}
		if start, ok := token.(xml.StartElement); ok {
			found[start.Name.Local]++
		}
	}
	if found["polyline"] != 4 || found["circle"] != 12 {
		t.Errorf("lines and points: %v\n%s", found, svg)
	}
	for _, want := range []string{"stock NRI, all plugins act, 100 plugins: 11 ms", "supervisor, one selected, 10 plugins: 180 µs", "a &lt;fast&gt; &amp; small one", ">100 ms<"} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("no %q in\n%s", want, svg)
		}
	}
}

func TestWithoutMeasurementsThereIsNoPlot(t *testing.T) {
	t.Parallel()
	if svg, err := (&report{}).plot(); svg != nil || err != nil {
		t.Errorf("%s, %v", svg, err)
	}
}
