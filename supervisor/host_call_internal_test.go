package supervisor

import (
	"testing"

	"github.com/containerd/nri/pkg/api"
)

// TestARuntimeDoesNotWaitUntilALargeReplyIsDecoded: its plugin had its time, and the next container is served.
func TestARuntimeDoesNotWaitUntilALargeReplyIsDecoded(t *testing.T) {
	t.Parallel()
	decoding, release := make(chan struct{}), make(chan struct{})
	first := true
	p := &fakePlugin{create: func(*api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
		return &api.CreateContainerResponse{Adjust: &api.ContainerAdjustment{Env: []*api.KeyValue{{Key: "K", Value: "1"}}}}, nil
	}}
	p.decode = func() {
		if first {
			first = false
			close(decoding)
			<-release
		}
	}
	f, s := serve(t, load(t, [2]string{"a", sel("x") + "  timeouts: {default: 300ms}\n"}), makers{"a": one(p)})
	rpl, err := s.create(pod("p", "x", "1"), ctr("p", "c"))
	if err != nil || len(rpl.GetAdjust().GetEnv()) != 0 {
		t.Errorf("while the reply is decoded: %v, %v", rpl.GetAdjust().GetEnv(), err)
	}
	<-decoding
	close(release)
	f.eventually("the plugin is free again", func() bool {
		rpl, err := s.create(pod("q", "x", "1"), ctr("q", "d"))
		return err == nil && len(rpl.GetAdjust().GetEnv()) == 1
	})
}
