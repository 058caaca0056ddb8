package supervisor

import (
	"slices"
	"testing"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/supervisor/journal"
)

// TestNoDeniedUpdateIsSilentHoweverFastTheyCome: each is counted, and each is in a line of the log and of the audit, by itself or in a sum that says how many, of which event, why, and since when.
func TestNoDeniedUpdateIsSilentHoweverFastTheyCome(t *testing.T) {
	t.Parallel()
	const many = 300
	p := pod("p", "x", "1")
	updates := make([]*api.ContainerUpdate, many)
	for i := range updates {
		updates[i] = shares("foreign", 1)
	}
	f, s := serveWith(t, load(t, [2]string{"p", sel("x")}), makers{"p": one(&fakePlugin{
		create: func(*api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
			return &api.CreateContainerResponse{Update: slices.Clone(updates)}, nil
		},
	})}, nil, []*api.PodSandbox{p, pod("q")}, []*api.Container{ctr("q", "foreign")})
	if _, err := s.create(p, ctr("p", "c")); err != nil {
		t.Fatal(err)
	}
	if failed, err := f.l.inc("p").h.Update(t.Context(), updates); err != nil || len(failed) != many {
		t.Fatalf("%d fail, %v", len(failed), err)
	}
	sums := map[string]int{}
	f.eventually("lines for all", func() bool {
		clear(sums)
		for _, e := range f.events(func(e Event) bool { _, ok := e.(UpdateDenied); return ok }) {
			x, _ := e.(UpdateDenied)
			sums[x.NRIEvent] += x.Count
		}
		return sums["CreateContainer"] == many && sums["UpdateContainers"] == many
	})
	if n := f.counted("container_updates_total", "result", "denied"); n != 2*many {
		t.Errorf("%v are counted", n)
	}
	clear(sums)
	more := 0
	f.eventually("decisions for all", func() bool {
		clear(sums)
		more = 0
		for _, d := range f.s.Decisions(journal.Filter{Kind: journal.KindUpdate}) {
			if !d.Notable() || d.Action != journal.ActionDenied || d.ContainerID != "foreign" || d.Pod != "n-q" || len(d.Dropped) != 1 || d.Dropped[0].Field != "CPUShares" {
				t.Fatalf("%+v", d)
			}
			sums[d.Event] += max(1, int(d.Count))
			if !d.Since.IsZero() && d.Since.Compare(d.Time) <= 0 && d.Count > 0 {
				more++
			}
		}
		return sums["CreateContainer"] == many && sums["UpdateContainers"] == many
	})
	if n := len(f.s.Decisions(journal.Filter{Kind: journal.KindUpdate})); n > many || more == 0 {
		t.Errorf("%d lines, %d of them sums: a flood is not bounded", n, more)
	}
}

// TestTheReasonsOfDeniedUpdatesAreToldApartUpToABound, beyond which they share a sum.
func TestTheReasonsOfDeniedUpdatesAreToldApartUpToABound(t *testing.T) {
	t.Parallel()
	f, _ := serve(t, load(t, [2]string{"p", sel("x")}), makers{"p": one(&fakePlugin{})})
	h := f.s.plan().byName["p"]
	const each, reasons = 5, 3 * denialSums
	for range each {
		for i := range reasons {
			h.deny(UpdateDenied{ContainerID: string(rune('a' + i)), Why: string(rune('A' + i))})
		}
	}
	f.eventually("all of them", func() bool {
		sum, lines, rest := 0, 0, 0
		for _, e := range f.events(func(e Event) bool { _, ok := e.(UpdateDenied); return ok }) {
			x, _ := e.(UpdateDenied)
			sum, lines = sum+x.Count, lines+1
			if x.Why == restOfDenials {
				rest += x.Count
			}
		}
		return sum == each*reasons && rest > 0 && lines < each*reasons
	})
}
