package merge

import (
	"context"
	"errors"

	"github.com/containerd/nri/pkg/api"
)

// ErrClosed is returned for an event that comes after Close.
var ErrClosed = errors.New("merge engine is closed")

// Engine merges. Make one with NewEngine; it is safe for concurrent use.
type Engine struct{}

// NewEngine returns an engine. It builds adaptations when events need them.
func NewEngine() *Engine { return &Engine{} }

// Close lets go of the idle adaptations. Events that are under way finish; later
// ones get ErrClosed.
func (e *Engine) Close() {}

// CreateContainer calls the members and merges their replies. The request is
// not changed. See CreateOptions for what else can be asked for.
func (e *Engine) CreateContainer(ctx context.Context, members []Member, req *api.CreateContainerRequest, call Call[*api.CreateContainerRequest, *api.CreateContainerResponse], o CreateOptions) (CreateResult, error) {
	return CreateResult{}, errors.New("not implemented")
}

// UpdateContainer calls the members and merges their replies. The request is
// not changed.
func (e *Engine) UpdateContainer(ctx context.Context, members []Member, req *api.UpdateContainerRequest, call Call[*api.UpdateContainerRequest, *api.UpdateContainerResponse]) (UpdateResult, error) {
	return UpdateResult{}, errors.New("not implemented")
}

// StopContainer calls the members and merges their replies. The request is
// not changed.
func (e *Engine) StopContainer(ctx context.Context, members []Member, req *api.StopContainerRequest, call Call[*api.StopContainerRequest, *api.StopContainerResponse]) (StopResult, error) {
	return StopResult{}, errors.New("not implemented")
}
