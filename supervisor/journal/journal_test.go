package journal_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nri-supervisor/nri-supervisor/supervisor/journal"
)

func about(plugin string) journal.Decision {
	return journal.Decision{Kind: journal.KindEvent, Plugin: plugin, Action: journal.ActionAllowed}
}

func seqs(ds []journal.Decision) []uint64 {
	out := []uint64{}
	for _, d := range ds {
		out = append(out, d.Seq)
	}
	return out
}

func TestTheRingKeepsTheLatestDecisionsInOrder(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 4, 5, 11, 300} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			j := journal.New(4)
			for range n {
				j.Publish(about("a"))
			}
			want := []uint64{}
			for s := max(1, n-3); s <= n; s++ {
				want = append(want, uint64(s))
			}
			if diff := cmp.Diff(want, seqs(j.Decisions(journal.Filter{}))); diff != "" {
				t.Error(diff)
			}
			if j.Last() != uint64(n) {
				t.Errorf("the last is %d", j.Last())
			}
		})
	}
}

func TestAFilterPicksByEachOfItsFields(t *testing.T) {
	t.Parallel()
	uid := uint32(7)
	j := journal.New(0)
	j.Publish(
		journal.Decision{Kind: journal.KindEvent, Plugin: "a", Team: "t", Event: "CreateContainer", Object: journal.Object{Namespace: "n", Pod: "p", Container: "c", ContainerID: "id"}, Reason: "timeout", Action: journal.ActionIgnored},
		journal.Decision{Kind: journal.KindEvent, Plugin: "b", Team: "u", Event: "StopContainer", Object: journal.Object{Namespace: "m", Pod: "q"}, Action: journal.ActionAllowed},
		journal.Decision{Kind: journal.KindManual, Plugin: "b", Manual: "trip", ActorUID: &uid, Action: journal.ActionDone},
	)
	for name, c := range map[string]struct {
		filter journal.Filter
		want   []uint64
	}{
		"everything":      {journal.Filter{}, []uint64{1, 2, 3}},
		"kind":            {journal.Filter{Kind: journal.KindManual}, []uint64{3}},
		"plugin":          {journal.Filter{Plugin: "b"}, []uint64{2, 3}},
		"team":            {journal.Filter{Team: "t"}, []uint64{1}},
		"event":           {journal.Filter{Event: "StopContainer"}, []uint64{2}},
		"namespace":       {journal.Filter{Namespace: "m"}, []uint64{2}},
		"pod":             {journal.Filter{Pod: "p"}, []uint64{1}},
		"container":       {journal.Filter{Container: "c"}, []uint64{1}},
		"container by id": {journal.Filter{Container: "id"}, []uint64{1}},
		"outcome":         {journal.Filter{Outcome: "timeout"}, []uint64{1}},
		"action":          {journal.Filter{Action: journal.ActionIgnored}, []uint64{1}},
		"notable":         {journal.Filter{Notable: true}, []uint64{1, 3}},
		"after":           {journal.Filter{After: 2}, []uint64{3}},
		"last":            {journal.Filter{Last: 2}, []uint64{2, 3}},
		"all at once":     {journal.Filter{Plugin: "b", Kind: journal.KindEvent, Last: 5}, []uint64{2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, seqs(j.Decisions(c.filter))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestASlowReaderLosesDecisionsAndIsToldHowMany(t *testing.T) {
	t.Parallel()
	j := journal.New(4)
	sub := j.Subscribe(journal.Filter{})
	defer sub.Close()
	for range 10 {
		j.Publish(about("a"))
	}
	got, err := sub.Next(t.Context())
	if err != nil || len(got) != 5 || got[0].Kind != journal.KindLost || got[0].Count != 6 || got[1].Seq != 7 || got[4].Seq != 10 {
		t.Errorf("%v, %+v", err, got)
	}
}

func TestASubscriptionWaitsForWhatItsFilterPicks(t *testing.T) {
	t.Parallel()
	j := journal.New(0)
	j.Publish(about("b"), about("a"), about("b"))
	sub := j.Subscribe(journal.Filter{Plugin: "b", Last: 1})
	got, err := sub.Next(t.Context())
	if diff := cmp.Diff([]uint64{3}, seqs(got)); diff != "" || err != nil {
		t.Error(err, diff)
	}
	done := make(chan []journal.Decision)
	go func() {
		ds, _ := sub.Next(t.Context())
		done <- ds
	}()
	j.Publish(about("a"))
	j.Publish(about("b"))
	if diff := cmp.Diff([]uint64{5}, seqs(<-done)); diff != "" {
		t.Error(diff)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sub.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	sub.Close()
	sub.Close()
}

func TestATeeGetsEverythingWithItsNumber(t *testing.T) {
	t.Parallel()
	j := journal.New(2)
	var got []uint64
	j.Tee(func(ds []journal.Decision) { got = append(got, seqs(ds)...) })
	j.Publish(about("a"), about("b"))
	j.Publish()
	j.Publish(about("c"))
	if diff := cmp.Diff([]uint64{1, 2, 3}, got); diff != "" {
		t.Error(diff)
	}
}

func TestAnAuditKeepsWhatChangedWasDeniedDroppedRefusedOrMissed(t *testing.T) {
	t.Parallel()
	for _, a := range journal.Actions() {
		d := journal.Decision{Kind: journal.KindEvent, Action: a}
		want := a != journal.ActionAllowed && a != journal.ActionWithheld
		if d.Notable() != want {
			t.Errorf("action %s: notable is %v", a, d.Notable())
		}
	}
	d := journal.Decision{Kind: journal.KindEvent, Action: journal.ActionAllowed, Changed: []journal.Field{{Field: "Env", Key: "A"}}}
	if !d.Notable() {
		t.Error("a change is not notable")
	}
	for _, k := range journal.Kinds() {
		d := journal.Decision{Kind: k, Action: journal.ActionAllowed}
		if want := k != journal.KindEvent && k != journal.KindSelection; d.Notable() != want {
			t.Errorf("kind %s: notable is %v", k, d.Notable())
		}
	}
}

func TestAFieldIsNamedWithItsKey(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]journal.Field{
		"MemLimit": {Field: "MemLimit"}, "Env[A]": {Field: "Env", Key: "A"}, "-Env[A]": {Field: "Env", Key: "A", Removed: true},
		"CPUShares of container c2": {Field: "CPUShares", Container: "c2"},
	} {
		if f.String() != want {
			t.Errorf("%q, want %q", f.String(), want)
		}
	}
}
