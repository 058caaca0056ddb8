package wire_test

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"

	"github.com/nri-supervisor/nri-supervisor/plugins/wire"
)

func TestAPayloadIsEncodedForWhoeverGetsIt(t *testing.T) {
	t.Parallel()
	one := &api.StartContainerRequest{Container: &api.Container{Name: strings.Repeat("x", 5000)}}
	other := &api.StartContainerRequest{Container: &api.Container{Name: "other"}}
	var shared wire.Payload
	for _, p := range []*wire.Payload{nil, &shared, wire.PayloadOf(wire.WithPayload(t.Context(), &shared)), wire.PayloadOf(context.Background())} {
		var all sync.WaitGroup
		for range 4 {
			for _, m := range []proto.Message{one, one, one, other, one} {
				all.Go(func() {
					size := p.Size(m)
					got, err := p.Append([]byte("before"), m)
					want, _ := proto.Marshal(m)
					if err != nil || !bytes.Equal(got, append([]byte("before"), want...)) || size != len(want) {
						t.Errorf("%d bytes of %d, %v", len(got), size, err)
					}
				})
			}
		}
		all.Wait()
	}
}

func TestAPayloadThatManyGetIsEncodedTwice(t *testing.T) {
	t.Parallel()
	m := &api.StartContainerRequest{Container: &api.Container{Name: "a"}}
	var p wire.Payload
	for range 2 { // the first may be the only one
		if _, err := p.Append(nil, m); err != nil {
			t.Fatal(err)
		}
	}
	m.Container.Name = "b" // which nobody may do: this is how it shows
	got, err := p.Append(nil, m)
	var back api.StartContainerRequest
	if err != nil || proto.Unmarshal(got, &back) != nil || back.GetContainer().GetName() != "a" {
		t.Errorf("the third is encoded anew: %q, %v", back.GetContainer().GetName(), err)
	}
}
