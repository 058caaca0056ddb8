package policy_test

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/containerd/nri/pkg/api"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func TestLabelSelectorsMeanWhatTheyMeanInKubernetes(t *testing.T) {
	t.Parallel()
	const seed = 20240229
	r := rand.New(rand.NewPCG(seed, seed))
	keys, values := []string{"a", "b", "example.com/c"}, []string{"x", "y", ""}
	pick := func(from []string) string { return from[r.IntN(len(from))] }
	operators := []metav1.LabelSelectorOperator{metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist}
	matched, total := 0, 0
	for range 300 {
		s := &metav1.LabelSelector{}
		for range r.IntN(3) {
			metav1.AddLabelToSelector(s, pick(keys), pick(values))
		}
		for range r.IntN(3) {
			e := metav1.LabelSelectorRequirement{Key: pick(keys), Operator: operators[r.IntN(len(operators))]}
			if e.Operator == metav1.LabelSelectorOpIn || e.Operator == metav1.LabelSelectorOpNotIn {
				e.Values = values[:1+r.IntN(len(values))]
			}
			s.MatchExpressions = append(s.MatchExpressions, e)
		}
		want, err := metav1.LabelSelectorAsSelector(s)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		p := one(t, "selector: {podSelector: "+string(text)+"}")
		for range 20 {
			var set labels.Set
			if r.IntN(8) > 0 {
				set = labels.Set{}
				for range r.IntN(4) {
					set[pick(keys)] = pick(values)
				}
			}
			got := p.MatchPod(&api.PodSandbox{Labels: set}).Selected
			if got != want.Matches(set) {
				t.Fatalf("seed %d: selector %s on %v: got %v", seed, text, set, got)
			}
			total++
			if got {
				matched++
			}
		}
	}
	if matched == 0 || matched == total {
		t.Errorf("%d of %d matched: the test tells nothing apart", matched, total)
	}
}
