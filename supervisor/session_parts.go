package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/ttrpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
)

// synchronizeMethod is how NRI's protocol names the request with the state.
const synchronizeMethod = "/nri.pkg.api.v1alpha1.Plugin/Synchronize"

// moreField is the number of SynchronizeRequest's field that says that further parts follow, by NRI's api.proto.
const moreField = 3

// incoming takes in a state that comes in several messages. One timeout of the runtime's holds for all of them, and it sends the next when it has the answer to the one before: so a part is
// acknowledged as it came, and decoded while the runtime encodes the next. The zero value is ready for use.
type incoming struct {
	mu   sync.Mutex
	come []*syncPart // of the state that is coming
}

// syncPart is one message of a state.
type syncPart struct {
	done chan struct{} // closed when it is decoded
	req  api.SynchronizeRequest
	err  error
}

// serverOptions are those of the server that the runtime calls.
func (se *session) serverOptions() []ttrpc.ServerOpt {
	return append(slices.Clone(se.sup.opts.ServerOptions), ttrpc.WithChainUnaryServerInterceptor(se.parts.intercept))
}

// intercept stands between the runtime's requests and NRI's stub, which gets a state as a whole.
func (p *incoming) intercept(ctx context.Context, unmarshal ttrpc.Unmarshaler, info *ttrpc.UnaryServerInfo, method ttrpc.Method) (any, error) {
	deepen(0)
	if info.FullMethod != synchronizeMethod {
		return method(ctx, unmarshal)
	}
	var undecoded emptypb.Empty // has no fields, and keeps those it does not know
	if err := unmarshal(&undecoded); err != nil {
		return nil, err
	}
	raw := undecoded.ProtoReflect().GetUnknown()
	more, err := moreFollows(raw)
	if err != nil {
		p.mu.Lock()
		p.come = nil // the next one begins a state
		p.mu.Unlock()
		return nil, err
	}
	part := &syncPart{done: make(chan struct{})}
	p.mu.Lock()
	p.come = append(p.come, part)
	all := p.come
	if !more {
		p.come = nil
	}
	p.mu.Unlock()
	if more {
		go part.decode(raw)
		return &api.SynchronizeResponse{More: true}, nil
	}
	part.decode(raw)
	return method(ctx, func(into any) error {
		req, ok := into.(*api.SynchronizeRequest)
		if !ok {
			return fmt.Errorf("take in the runtime's state: NRI's stub reads it into a %T", into)
		}
		return putTogether(req, all)
	})
}

// decode ends when the part is decoded; nobody need wait for it when the connection is gone.
func (p *syncPart) decode(raw []byte) {
	defer close(p.done)
	if err := proto.Unmarshal(raw, &p.req); err != nil {
		p.err = fmt.Errorf("decode the runtime's state: %w", err)
	}
}

// putTogether puts the parts together.
func putTogether(req *api.SynchronizeRequest, parts []*syncPart) error {
	pods, ctrs := 0, 0
	for _, p := range parts {
		<-p.done
		if p.err != nil {
			return p.err
		}
		pods, ctrs = pods+len(p.req.GetPods()), ctrs+len(p.req.GetContainers())
	}
	req.Pods, req.Containers = make([]*api.PodSandbox, 0, pods), make([]*api.Container, 0, ctrs)
	for _, p := range parts {
		req.Pods, req.Containers = append(req.Pods, p.req.GetPods()...), append(req.Containers, p.req.GetContainers()...)
	}
	return nil
}

var errNoState = errors.New("take in the runtime's state: it is no protobuf message")

// moreFollows reports whether an encoded SynchronizeRequest says that it is not the last.
func moreFollows(raw []byte) (more bool, err error) {
	for len(raw) > 0 {
		num, typ, n := protowire.ConsumeTag(raw)
		if n < 0 {
			return false, errNoState
		}
		raw = raw[n:]
		if num == moreField && typ == protowire.VarintType {
			v, n := protowire.ConsumeVarint(raw)
			if n < 0 {
				return false, errNoState
			}
			more = v != 0
		}
		if n = protowire.ConsumeFieldValue(num, typ, raw); n < 0 {
			return false, errNoState
		}
		raw = raw[n:]
	}
	return more, nil
}
