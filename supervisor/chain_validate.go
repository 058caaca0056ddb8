package supervisor

import (
	"context"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/policy"
)

// validates reports whether the plugin wants to judge merged adjustments, as far as is known: it was configured and subscribed to it.
func (h *host) validates() bool {
	return h.configured.Load() && h.subscribes(api.Event_VALIDATE_CONTAINER_ADJUSTMENT)
}

// validate asks one plugin whether it accepts what the hosted plugins did. A refusal needs permissions.reject; a failure is handled by the plugin's failure policy for
// CreateContainer, because that is the request that it would fail.
func (v *visit) validate(ctx context.Context, p *part, req *api.ValidateContainerAdjustmentRequest) (string, bool) {
	v.name.values.learnFrom(req)
	r := v.ask(ctx, p.selected, delivery{
		event: api.Event_VALIDATE_CONTAINER_ADJUSTMENT, ref: v.ref, podKey: v.key, name: v.name,
		invoke: func(c context.Context, s api.PluginService) (any, error) {
			return s.ValidateContainerAdjustment(c, req)
		},
		judge: p.h.judgeValidation,
	}, 0)
	v.leaves(p.h, r)
	if !p.adjusts {
		p.asked, p.result = true, r
	}
	p.unjudged = reasonOf(r.Result)
	if err := v.settleAs(api.Event_VALIDATE_CONTAINER_ADJUSTMENT, p.h, r); err != nil {
		v.fails(p, err)
		return err.Error(), false
	}
	return "", true
}

// judgeValidation turns a validator's answer into a verdict: a refusal is a rejection.
func (h *host) judgeValidation(reply any, err error) verdict {
	if err != nil {
		return h.judgeError(err)
	}
	rpl, _ := reply.(*api.ValidateContainerAdjustmentResponse)
	if !rpl.GetReject() {
		return verdict{outcome: breaker.OutcomeSuccess}
	}
	if !h.policy().MayReject() {
		return forbidden([]policy.Denial{{Rule: policy.RuleReject, Detail: oneLine(rpl.GetReason())}})
	}
	return verdict{outcome: breaker.OutcomeRejected, detail: oneLine(rpl.GetReason())}
}
