package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/ttrpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/nri-supervisor/nri-supervisor/breaker"
	"github.com/nri-supervisor/nri-supervisor/plugins/wire"
	"github.com/nri-supervisor/nri-supervisor/policy"
)

// replyLimit is what an encoded reply to the runtime may take: ttrpc's frame limit is 4 MiB, and a reply above it is never sent at all. 64 KiB are left for what we add.
const replyLimit = 4<<20 - 64<<10

// optOut is the reply of a plugin that wants to hear no more of a pod or container.
type optOut struct{ scope wire.Scope }

// judgeError says what an error of a call is. No error value of a plugin goes any further than this.
func (h *host) judgeError(err error) verdict {
	decoded := wire.Decode(err)
	var no *wire.RejectError
	var out *wire.NotInterestedError
	switch {
	case errors.As(decoded, &no):
		if h.policy().MayReject() {
			return verdict{outcome: breaker.OutcomeRejected, detail: oneLine(no.Reason)}
		}
		return verdict{outcome: breaker.OutcomeError, detail: "it rejected without permissions.reject: " + oneLine(no.Reason)}
	case errors.As(decoded, &out):
		return verdict{outcome: breaker.OutcomeSuccess, reply: optOut{scope: out.Scope}}
	case disconnected(err):
		return verdict{outcome: breaker.OutcomeUnavailable, detail: "the connection to the plugin is gone"}
	}
	st, _ := status.FromError(err)
	switch st.Code() {
	case codes.DeadlineExceeded:
		return verdict{outcome: breaker.OutcomeTimeout, detail: "it gave up at its deadline: " + oneLine(st.Message())}
	case codes.Unimplemented: // "not interested", by NRI's habit
		return verdict{outcome: breaker.OutcomeSuccess}
	default:
	}
	if h.policy().MayReject() && !h.sdk() {
		return verdict{outcome: breaker.OutcomeRejected, detail: oneLine(st.Message())} // a stock plugin has no other way to say no
	}
	return verdict{outcome: breaker.OutcomeError, detail: oneLine(st.Message())}
}

func (h *host) sdk() bool {
	return h.policy().Spec.Exec != nil && h.policy().Spec.Exec.Protocol == policy.GoPlugin
}

func disconnected(err error) bool {
	return errors.Is(err, ttrpc.ErrClosed) || errors.Is(err, ttrpc.ErrServerClosed) || errors.Is(err, ttrpc.ErrProtocol) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, context.Canceled)
}

// oneLine bounds what a plugin can put into logs, events and messages: 512 bytes, one line.
func oneLine(s string) string {
	const limit = 512
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "?")), " ")
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return s
}

// judgeEvent judges the reply to an event that has none.
func (h *host) judgeEvent(_ any, err error) verdict {
	if err != nil {
		return h.judgeError(err)
	}
	return verdict{outcome: breaker.OutcomeSuccess}
}

// reservedAnnotations are the supervisor's own: a plugin that could write them could forge what is missing from a container.
const reservedAnnotations = "nri-supervisor.dev/"

// notInterestedAnnotation is how a stock plugin opts out in its adjustment: container or pod. It is never forwarded.
const notInterestedAnnotation = "nri-supervisor.dev/not-interested"

// judgeCreate checks a reply to CreateContainer: shape, permissions, scope. What passes can be merged. place is the plugin's in calling order.
func (h *host) judgeCreate(v *visit, place int) func(any, error) verdict {
	return func(reply any, err error) verdict {
		if err != nil {
			return h.judgeError(err)
		}
		rpl, _ := reply.(*api.CreateContainerResponse)
		if rpl == nil {
			return verdict{outcome: breaker.OutcomeSuccess, reply: &api.CreateContainerResponse{}}
		}
		if v, bad := tooLarge(rpl); bad {
			return v
		}
		if scope, marked := rpl.GetAdjust().GetAnnotations()[notInterestedAnnotation]; marked {
			if s := wire.Scope(scope); !h.sdk() && (s == wire.ScopePod || s == wire.ScopeContainer) {
				return verdict{outcome: breaker.OutcomeSuccess, reply: optOut{scope: s}}
			} // else it is reserved, as all of them
		}
		for k := range rpl.GetAdjust().GetAnnotations() {
			if strings.HasPrefix(api.ClearRemovalMarker(k), reservedAnnotations) {
				return forbidden([]policy.Denial{{Field: "Annotations", Key: k, Rule: policy.RuleReserved}})
			}
		}
		updates, bad := h.judgeReply(v, rpl.GetAdjust(), rpl.GetUpdate())
		if bad != nil {
			return *bad
		}
		if !h.policy().MayOverride() && !v.together[place] { // those called at once are judged in order when all have answered
			if d := v.earlier.removedBy(place, rpl.GetAdjust()); len(d) > 0 {
				return forbidden(d)
			}
		}
		h.tellEvictions(v.event, rpl.GetEvict())
		rpl.Update, rpl.Evict = h.inScope(updates, v, false), nil
		return verdict{outcome: breaker.OutcomeSuccess, reply: rpl}
	}
}

// judgeUpdate checks a reply to UpdateContainer.
func (h *host) judgeUpdate(v *visit) func(any, error) verdict {
	return func(reply any, err error) verdict {
		if err != nil {
			return h.judgeError(err)
		}
		rpl, _ := reply.(*api.UpdateContainerResponse)
		if rpl == nil {
			return verdict{outcome: breaker.OutcomeSuccess, reply: &api.UpdateContainerResponse{}}
		}
		if v, bad := tooLarge(rpl); bad {
			return v
		}
		updates, bad := h.judgeReply(v, nil, rpl.GetUpdate())
		if bad != nil {
			return *bad
		}
		h.tellEvictions(v.event, rpl.GetEvict())
		rpl.Update, rpl.Evict = h.inScope(updates, v, true), nil
		return verdict{outcome: breaker.OutcomeSuccess, reply: rpl}
	}
}

// judgeStop checks a reply to StopContainer.
func (h *host) judgeStop(v *visit) func(any, error) verdict {
	return func(reply any, err error) verdict {
		if err != nil {
			return h.judgeError(err)
		}
		rpl, _ := reply.(*api.StopContainerResponse)
		if rpl == nil {
			return verdict{outcome: breaker.OutcomeSuccess, reply: &api.StopContainerResponse{}}
		}
		if v, bad := tooLarge(rpl); bad {
			return v
		}
		updates, bad := h.judgeReply(v, nil, rpl.GetUpdate())
		if bad != nil {
			return *bad
		}
		rpl.Update = h.inScope(updates, v, false)
		return verdict{outcome: breaker.OutcomeSuccess, reply: rpl}
	}
}

func tooLarge(m proto.Message) (verdict, bool) {
	if n := proto.Size(m); n > replyLimit {
		return verdict{
			outcome: breaker.OutcomeInvalidResponse,
			detail:  fmt.Sprintf("the reply has %d bytes; the limit of one message to the runtime is %d", n, replyLimit),
		}, true
	}
	return verdict{}, false
}

// forbidden is the verdict on a reply that does what its plugin may not do.
func forbidden(denials []policy.Denial) verdict {
	words := make([]string, len(denials))
	for i, d := range denials {
		words[i] = d.String()
	}
	return verdict{outcome: breaker.OutcomeForbidden, denials: denials, detail: oneLine("it does what it was not granted: " + strings.Join(words, ", "))}
}

// judgeReply checks shape and permissions of all that a reply to an event asks for. One malformed or forbidden part condemns the whole reply. It returns the updates without nil ones.
func (h *host) judgeReply(v *visit, a *api.ContainerAdjustment, updates []*api.ContainerUpdate) ([]*api.ContainerUpdate, *verdict) {
	err := checkAdjustment(a)
	for _, u := range updates {
		if err == nil {
			err = checkUpdate(u)
		}
	}
	if err != nil {
		return nil, &verdict{outcome: breaker.OutcomeInvalidResponse, detail: oneLine(err.Error())}
	}
	if d := h.policy().Denied(policy.Reply{Adjust: a, Updates: updates, Pod: v.pod, Container: v.ctr}); len(d) > 0 {
		bad := forbidden(d)
		return nil, &bad
	}
	return updates, nil
}

// inScope leaves out the updates of a reply that name containers outside the plugin's scope, counted and told. own says that the event's own container
// may be updated without being in scope first (it is: the plugin is selected for it).
func (h *host) inScope(updates []*api.ContainerUpdate, v *visit, own bool) []*api.ContainerUpdate {
	kept := updates[:0]
	for _, u := range updates {
		if why := h.updateDenied(u.GetContainerId(), v.ref, own); why != "" {
			h.met.updates("reply", "denied")
			h.deny(UpdateDenied{NRIEvent: v.event.PrettyName(), ContainerID: u.GetContainerId(), Why: why, Fields: fieldsOf(policy.FieldsOfUpdate(u))})
			continue
		}
		h.met.updates("reply", "accepted")
		kept = append(kept, u)
	}
	return kept
}

// tellEvictions tells that what the plugin asks for will not be done: NRI carries no eviction to any runtime.
func (h *host) tellEvictions(e api.Event, evict []*api.ContainerEviction) {
	for _, out := range evict {
		h.met.updates("reply", "unsupported")
		h.deny(UpdateDenied{NRIEvent: e.PrettyName(), ContainerID: out.GetContainerId(), Why: "evictions are not supported: NRI carries them to no runtime"})
	}
}
