package isolation

import (
	"context"
	"errors"
	"fmt"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

const (
	// ttrpcMaxMessage is ttrpc's limit of one message, messageLengthMax in its channel.go.
	ttrpcMaxMessage = 4 << 20
	// requestOverhead is more than what ttrpc's Request adds to a payload: service and method names, the timeout, and the
	// payload's own length.
	requestOverhead = 1 << 10
	// maxSyncPart is the most bytes of one encoded SynchronizeRequest.
	maxSyncPart = ttrpcMaxMessage - requestOverhead
	// moreSize is the encoded size of SynchronizeRequest.More: a tag and a bool.
	moreSize = 2
)

// errNoParts is the error of a plugin that is built with an NRI older than 0.7.
var errNoParts = errors.New("plugin does not understand a state in parts: it must be built with NRI 0.7 or later")

// synchronize sends the state in parts. Pods come before containers.
func synchronize(
	ctx context.Context, p api.PluginService, pods []*api.PodSandbox, ctrs []*api.Container, limit int,
) ([]*api.ContainerUpdate, error) {
	parts, err := splitState(pods, ctrs, limit)
	if err != nil {
		return nil, err
	}
	for i, part := range parts {
		reply, err := p.Synchronize(ctx, part)
		if err != nil {
			if len(parts) > 1 {
				return nil, fmt.Errorf("synchronize part %d of %d: %w", i+1, len(parts), err)
			}
			return nil, fmt.Errorf("synchronize: %w", err)
		}
		if !part.More {
			return reply.GetUpdate(), nil
		}
		if !reply.GetMore() || len(reply.GetUpdate()) > 0 {
			return nil, fmt.Errorf("synchronize part %d of %d: %w", i+1, len(parts), errNoParts)
		}
	}
	return nil, errors.New("synchronize: no last part") // splitState always makes one
}

// splitState packs pods and containers, in their order, into as few requests as fit limit each. All but the last have More set.
func splitState(pods []*api.PodSandbox, ctrs []*api.Container, limit int) ([]*api.SynchronizeRequest, error) {
	var (
		parts = []*api.SynchronizeRequest{{}}
		part  = parts[0]
		used  = moreSize
	)
	add := func(kind, id string, m proto.Message) error {
		size := protowire.SizeTag(1) + protowire.SizeBytes(proto.Size(m))
		if size+moreSize > limit {
			return fmt.Errorf("synchronize: %s %q has %d bytes encoded, the limit of a message is %d: shorten its annotations or environment",
				kind, id, size, limit)
		}
		if used+size > limit {
			part.More = true
			part = &api.SynchronizeRequest{}
			parts = append(parts, part)
			used = moreSize
		}
		used += size
		return nil
	}
	for _, p := range pods {
		if err := add("pod", p.GetId(), p); err != nil {
			return nil, err
		}
		part.Pods = append(part.Pods, p)
	}
	for _, c := range ctrs {
		if err := add("container", c.GetId(), c); err != nil {
			return nil, err
		}
		part.Containers = append(part.Containers, c)
	}
	return parts, nil
}
