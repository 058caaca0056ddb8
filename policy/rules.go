package policy

import (
	"fmt"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/cel-go/checker"
)

// How large a reply, a pod and a container are taken to be when the cost of a rule is estimated at load: 64 entries of 256 bytes each.
const (
	typicalEntries = 64
	typicalBytes   = 256
)

// compileRules compiles the permission rules and estimates what they cost.
func (d *document) compileRules(path string, specs []MatchCondition, env *celEnv) []condition {
	return d.compileExpressions(path, specs, func(at, expression string) (condition, string, error) {
		replies, err := env.withReply()
		if err != nil {
			return condition{}, "", fmt.Errorf("set up CEL: %v", err)
		}
		c, remedy, err := compileCEL(replies, expression, `write CEL, such as reply.adjust.env.all(e, e.key.startsWith("GPU_"))`, "reply", "pod", "container")
		if err != nil {
			return c, remedy, err
		}
		cost, err := replies.EstimateCost(c.checked, typicalSizes{})
		switch {
		case err != nil:
			return c, "write it in another way", fmt.Errorf("estimate its cost: %v", err)
		case cost.Min > conditionCostLimit:
			return c, "write it in a cheaper way", fmt.Errorf("the expression costs at least %d, more than the limit of %d", cost.Min, conditionCostLimit)
		case cost.Max > conditionCostLimit:
			d.warnf(at, "compare with a constant list, or leave out the inner loop",
				"with %d entries in each list the expression can cost more than the limit of %d, and a rule that costs more forbids the reply", typicalEntries, conditionCostLimit)
		}
		return c, "", nil
	})
}

// typicalSizes is what the estimate takes for the size of whatever the messages hold.
type typicalSizes struct{}

// EstimateSize gives the size of a list, map or text.
func (typicalSizes) EstimateSize(node checker.AstNode) *checker.SizeEstimate {
	if node.Type() == nil {
		return nil
	}
	switch node.Type().TypeName() {
	case "list", "map":
		return &checker.SizeEstimate{Min: 0, Max: typicalEntries}
	default:
		return &checker.SizeEstimate{Min: 0, Max: typicalBytes}
	}
}

// EstimateCallCost leaves the cost of functions to CEL.
func (typicalSizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

// deniedByRules lists the rules that are not true of the reply. A rule that cannot be evaluated is not true.
func (p *Plugin) deniedByRules(r Reply) []Denial {
	if len(p.rules) == 0 {
		return nil
	}
	pod, ctr := r.Pod, r.Container
	if pod == nil {
		pod = &api.PodSandbox{}
	}
	if ctr == nil {
		ctr = &api.Container{}
	}
	vars := map[string]any{"reply": &api.CreateContainerResponse{Adjust: r.Adjust, Update: r.Updates}, "pod": pod, "container": ctr}
	var out []Denial
	evaluateAll(p.rules, vars, false, func(rule condition, holds bool, err error) bool {
		if holds && err == nil {
			return true
		}
		denial := Denial{Rule: "permissions.rules[" + rule.name + "]"}
		if err != nil {
			denial.Detail = "it cannot be evaluated: " + err.Error()
		}
		out = append(out, denial)
		return true
	})
	return out
}
