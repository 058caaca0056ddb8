package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestASummaryIsTheMiddleAndTheQuartersWhateverTheOrder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		values []float64
		want   summary
	}{
		{"nothing", nil, summary{}},
		{"one", []float64{7}, summary{Median: 7, Low: 7, High: 7}},
		{"between two", []float64{2, 1}, summary{Median: 1.5, Low: 1.25, High: 1.75}},
		{"five", []float64{5, 3, 1, 4, 2}, summary{Median: 3, Low: 2, High: 4}},
		{"an outlier moves nothing", []float64{5000, 3, 1, 4, 2}, summary{Median: 3, Low: 2, High: 4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if d := cmp.Diff(c.want, summarize(c.values)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestRoundsAreDividedOneByOneSoThatASlowMomentCancelsOut(t *testing.T) {
	t.Parallel()
	us := func(values ...int) []time.Duration {
		var out []time.Duration
		for _, v := range values {
			out = append(out, time.Duration(v)*time.Microsecond)
		}
		return out
	}
	stock := rounds{us(400, 410, 390), us(4000, 4100, 3900), us(400, 400, 9999)} // the machine is busy in the second round
	ours := rounds{us(100, 90, 110), us(1000, 900, 1100), us(100, 100, 100)}
	if d := cmp.Diff([]float64{4, 4, 4}, ratios(stock.medians(), ours.medians())); d != "" {
		t.Error(d)
	}
	if got := ratios([]float64{1, 2}, []float64{0, 1}); len(got) != 1 || got[0] != 2 {
		t.Errorf("a divisor of 0 gives %v", got)
	}
}

func TestABarIsMetOnItsOwnSideOnly(t *testing.T) {
	t.Parallel()
	least, most := bar{bound: 4, atLeast: true}, bar{bound: 1.25}
	for ratio, want := range map[float64][2]bool{1: {false, true}, 1.25: {false, true}, 2: {false, false}, 4: {true, false}, 9: {true, false}} {
		if got := [2]bool{least.met(ratio), most.met(ratio)}; got != want {
			t.Errorf("ratio %v: %v, want %v", ratio, got, want)
		}
	}
}
