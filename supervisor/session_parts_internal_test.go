package supervisor

import (
	"context"
	"fmt"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/ttrpc"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
)

// sendPart gives a message to in as ttrpc does. whole is what NRI's stub gets, nil if it is not called.
func sendPart(t *testing.T, in *incoming, method string, payload []byte) (rpl, whole any, err error) {
	t.Helper()
	unmarshal := func(into any) error { return proto.Unmarshal(payload, into.(proto.Message)) }
	rpl, err = in.intercept(t.Context(), unmarshal, &ttrpc.UnaryServerInfo{FullMethod: method}, func(_ context.Context, unmarshal func(any) error) (any, error) {
		req := &api.SynchronizeRequest{}
		if err := unmarshal(req); err != nil {
			return nil, err
		}
		whole = req
		return &api.SynchronizeResponse{Update: []*api.ContainerUpdate{{ContainerId: "u"}}}, nil
	})
	return rpl, whole, err
}

func onWire(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestAStateInPartsIsAcknowledgedPartByPartAndTakenInAsAWhole(t *testing.T) {
	t.Parallel()
	in := &incoming{}
	for round := range 2 { // the next state begins anew
		want := &api.SynchronizeRequest{}
		const last = 4
		for i := range last + 1 {
			part := &api.SynchronizeRequest{More: i < last}
			for k := range 3 * (i % 2) { // some are empty
				p := pod(fmt.Sprint("p", round, i, k), "app", "x")
				part.Pods, part.Containers = append(part.Pods, p), append(part.Containers, ctr(p.GetId(), "c"+p.GetId()))
			}
			want.Pods, want.Containers = append(want.Pods, part.Pods...), append(want.Containers, part.Containers...)
			rpl, whole, err := sendPart(t, in, synchronizeMethod, onWire(t, part))
			if err != nil {
				t.Fatal(err)
			}
			r := rpl.(*api.SynchronizeResponse)
			if i < last {
				if !r.GetMore() || len(r.GetUpdate()) > 0 || whole != nil {
					t.Errorf("part %d: reply %v, taken in %v, want only an acknowledgement", i, r, whole)
				}
				continue
			}
			if r.GetMore() || len(r.GetUpdate()) != 1 {
				t.Errorf("last part: reply %v, want that of the stub", r)
			}
			if diff := cmp.Diff(want, whole, protocmp.Transform()); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
		}
	}
}

func TestAPartThatIsNoMessageEndsTheSynchronization(t *testing.T) {
	t.Parallel()
	good := onWire(t, &api.SynchronizeRequest{Pods: []*api.PodSandbox{pod("p", "app", "x")}, More: true})
	badPod := append([]byte{1<<3 | 2, 3, 1<<3 | 2, 9, 'x'}, 3<<3, 1) // a field of a pod that is longer than the pod, and more parts follow
	in := &incoming{}
	if _, _, err := sendPart(t, in, synchronizeMethod, []byte{0xff}); err == nil {
		t.Error("garbage is taken")
	}
	for _, part := range [][]byte{good, badPod} {
		if _, _, err := sendPart(t, in, synchronizeMethod, part); err != nil {
			t.Fatal(err)
		}
	}
	if _, whole, err := sendPart(t, in, synchronizeMethod, nil); err == nil || whole != nil {
		t.Errorf("error %v, taken in %v, want an error and nothing", err, whole)
	}
	if _, whole, err := sendPart(t, in, synchronizeMethod, nil); err != nil || whole == nil {
		t.Errorf("error %v, taken in %v after a state that was broken, want the next one", err, whole)
	}
}

func TestOtherRequestsPassAsTheyAre(t *testing.T) {
	t.Parallel()
	in := &incoming{}
	_, whole, err := sendPart(t, in, "/nri.pkg.api.v1alpha1.Plugin/CreateContainer", onWire(t, &api.SynchronizeRequest{More: true}))
	if err != nil || whole == nil {
		t.Errorf("error %v, request %v", err, whole)
	}
}

func TestTheMethodAndTheFieldAreNRIs(t *testing.T) {
	t.Parallel()
	m := api.File_pkg_api_api_proto.Services().ByName("Plugin").Methods().ByName("Synchronize")
	if got := fmt.Sprintf("/%s/%s", m.Parent().FullName(), m.Name()); got != synchronizeMethod {
		t.Errorf("method %q, want %q", synchronizeMethod, got)
	}
	if got := m.Input().Fields().ByName("more").Number(); got != moreField {
		t.Errorf("field %d, want %d", moreField, got)
	}
}
