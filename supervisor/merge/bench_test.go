package merge_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/supervisor/merge"
)

// BenchmarkCreateContainer measures a merge in which every member sets a
// variable, a mount and an annotation of its own.
func BenchmarkCreateContainer(b *testing.B) {
	for _, n := range []int{1, 2, 10, 100} {
		for _, owners := range []bool{false, true} {
			b.Run(fmt.Sprintf("members=%d/owners=%t", n, owners), func(b *testing.B) {
				e := newEngine(b)
				var members []merge.Member
				for i := range n {
					members = append(members, merge.Member{Name: fmt.Sprintf("plugin-%03d", i), Index: fmt.Sprintf("%02d", i)})
				}
				req := newCreate()
				b.ReportAllocs()
				for b.Loop() {
					res, err := e.CreateContainer(b.Context(), members, req, func(_ context.Context, m int, _ *api.CreateContainerRequest) *api.CreateContainerResponse {
						return ownThings(members[m].Name)
					}, merge.CreateOptions{Owners: owners})
					if err != nil || len(res.Dropped) > 0 {
						b.Fatal(err, res.Dropped)
					}
				}
			})
		}
	}
}

// BenchmarkConflict measures a merge in which the last of the members loses.
func BenchmarkConflict(b *testing.B) {
	for _, n := range []int{2, 10} {
		b.Run(fmt.Sprintf("members=%d", n), func(b *testing.B) {
			e := newEngine(b)
			var names []string
			for i := range n {
				names = append(names, fmt.Sprintf("plugin-%03d", i))
			}
			members := serial(names...)
			req := newCreate()
			b.ReportAllocs()
			for b.Loop() {
				res, err := e.CreateContainer(b.Context(), members, req, func(_ context.Context, m int, _ *api.CreateContainerRequest) *api.CreateContainerResponse {
					if m == n-1 {
						return ownThings(members[0].Name)
					}
					return ownThings(members[m].Name)
				}, merge.CreateOptions{})
				if err != nil || len(res.Dropped) != 1 {
					b.Fatal(err, res.Dropped)
				}
			}
		})
	}
}

// BenchmarkUpdateContainer measures a merge in which every member sets one
// thing about the container being updated.
func BenchmarkUpdateContainer(b *testing.B) {
	for _, n := range []int{1, 2, 10} {
		b.Run(fmt.Sprintf("members=%d", n), func(b *testing.B) {
			e := newEngine(b)
			var names []string
			for i := range n {
				names = append(names, fmt.Sprintf("plugin-%03d", i))
			}
			members := serial(names...)
			req := newUpdate()
			b.ReportAllocs()
			for b.Loop() {
				_, err := e.UpdateContainer(b.Context(), members, req, func(_ context.Context, m int, _ *api.UpdateContainerRequest) *api.UpdateContainerResponse {
					return &api.UpdateContainerResponse{Update: []*api.ContainerUpdate{
						updateOf("ctr0", func(u *api.ContainerUpdate) { u.AddLinuxUnified(members[m].Name, "1") }),
					}}
				})
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func ownThings(name string) *api.CreateContainerResponse {
	return adjusting(func(a *api.ContainerAdjustment) {
		a.AddEnv(name, "1")
		a.AddMount(&api.Mount{Destination: "/" + name, Source: "/x", Type: "bind", Options: []string{"ro"}})
		a.AddAnnotation(name, "1")
	})
}
