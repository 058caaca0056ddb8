package supervisor

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLatencyOfTheLastFiveMinutesIsRemembered(t *testing.T) {
	t.Parallel()
	var l latency
	begin := time.Unix(1_800_000_000, 0)
	l.add(begin, 10*time.Millisecond, false)
	l.add(begin.Add(time.Second), 30*time.Millisecond, true)
	l.add(begin.Add(6*time.Second), time.Millisecond, false)
	want := []LatencyPoint{
		{At: begin, Calls: 2, Bad: 1, MeanSeconds: 0.02, MaxSeconds: 0.03},
		{At: begin.Add(5 * time.Second), Calls: 1, MeanSeconds: 0.001, MaxSeconds: 0.001},
	}
	if diff := cmp.Diff(want, l.points(begin.Add(7*time.Second))); diff != "" {
		t.Errorf("points (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want[1:], l.points(begin.Add(5*time.Minute))); diff != "" {
		t.Errorf("points five minutes later (-want +got):\n%s", diff)
	}
	l.add(begin.Add(5*time.Minute), 2*time.Millisecond, false) // at the place of the first
	if got := l.points(begin.Add(5 * time.Minute)); len(got) != 2 || got[1].Calls != 1 {
		t.Errorf("points after a new call: %+v", got)
	}
	if got := l.points(begin.Add(time.Hour)); len(got) != 0 {
		t.Errorf("an hour later there are %+v", got)
	}
}
