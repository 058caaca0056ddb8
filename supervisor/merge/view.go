package merge

import (
	"cmp"
	"maps"
	"slices"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"
)

// The adaptation changes a request while the event passes the members. What
// it changes is known: fields, maps and lists of the messages copied below, never an
// element. So a copy of these messages stands still for as long as anybody
// keeps it, and costs a tenth of a deep one. Lists are clipped, or two passes
// would append to the same array.

// viewCreate gives what the member at a place sees of a creation.
func (ev *event) viewCreate(place int, req *api.CreateContainerRequest) *api.CreateContainerRequest {
	view := copyCreate(req)
	for p := range place {
		if len(ev.counting(p).getAdjust().GetLinux().GetNamespaces()) == 0 {
			continue
		}
		// The adaptation keeps changed namespaces in a map and lists them in its order.
		namespaces := slices.Clone(view.Container.Linux.Namespaces)
		slices.SortFunc(namespaces, func(a, b *api.LinuxNamespace) int { return cmp.Compare(a.GetType(), b.GetType()) })
		view.Container.Linux.Namespaces = namespaces
		break
	}
	return view
}

// viewUpdate gives what the member at a place sees of an update.
func (ev *event) viewUpdate(place int, req *api.UpdateContainerRequest) *api.UpdateContainerRequest {
	view := copyUpdate(req)
	pids := ev.pids
	for p := range place {
		for _, u := range ev.counting(p).getUpdate() {
			if set := u.GetLinux().GetResources().GetPids(); set != nil && u.GetContainerId() == ev.updated {
				pids = set
			}
		}
	}
	if pids != nil {
		if view.LinuxResources == nil {
			view.LinuxResources = &api.LinuxResources{}
		}
		view.LinuxResources.Pids = pids
	}
	return view
}

func copyCreate(req *api.CreateContainerRequest) *api.CreateContainerRequest {
	return keepUnknown(req, &api.CreateContainerRequest{
		Pod:       req.GetPod(),
		Container: copyContainer(req.GetContainer()),
	})
}

func copyUpdate(req *api.UpdateContainerRequest) *api.UpdateContainerRequest {
	return keepUnknown(req, &api.UpdateContainerRequest{
		Pod:            req.GetPod(),
		Container:      req.GetContainer(),
		LinuxResources: copyResources(req.GetLinuxResources()),
	})
}

func copyContainer(c *api.Container) *api.Container {
	return keepUnknown(c, &api.Container{
		Id:            c.GetId(),
		PodSandboxId:  c.GetPodSandboxId(),
		Name:          c.GetName(),
		State:         c.GetState(),
		Labels:        c.GetLabels(),
		Annotations:   maps.Clone(c.GetAnnotations()),
		Args:          slices.Clip(c.GetArgs()),
		Env:           slices.Clip(c.GetEnv()),
		Mounts:        slices.Clip(c.GetMounts()),
		Hooks:         copyHooks(c.GetHooks()),
		Linux:         copyLinux(c.GetLinux()),
		Pid:           c.GetPid(),
		Rlimits:       slices.Clip(c.GetRlimits()),
		CreatedAt:     c.GetCreatedAt(),
		StartedAt:     c.GetStartedAt(),
		FinishedAt:    c.GetFinishedAt(),
		ExitCode:      c.GetExitCode(),
		StatusReason:  c.GetStatusReason(),
		StatusMessage: c.GetStatusMessage(),
		CDIDevices:    slices.Clip(c.GetCDIDevices()),
		User:          c.GetUser(),
		Image:         c.GetImage(),
	})
}

func copyHooks(h *api.Hooks) *api.Hooks {
	if h == nil {
		return nil
	}
	return keepUnknown(h, &api.Hooks{
		Prestart:        slices.Clip(h.GetPrestart()),
		CreateRuntime:   slices.Clip(h.GetCreateRuntime()),
		CreateContainer: slices.Clip(h.GetCreateContainer()),
		StartContainer:  slices.Clip(h.GetStartContainer()),
		Poststart:       slices.Clip(h.GetPoststart()),
		Poststop:        slices.Clip(h.GetPoststop()),
	})
}

func copyLinux(l *api.LinuxContainer) *api.LinuxContainer {
	if l == nil {
		return nil
	}
	return keepUnknown(l, &api.LinuxContainer{
		Namespaces:     slices.Clip(l.GetNamespaces()),
		Devices:        slices.Clip(l.GetDevices()),
		Resources:      copyResources(l.GetResources()),
		OomScoreAdj:    l.GetOomScoreAdj(),
		CgroupsPath:    l.GetCgroupsPath(),
		IoPriority:     l.GetIoPriority(),
		SeccompProfile: l.GetSeccompProfile(),
		SeccompPolicy:  l.GetSeccompPolicy(),
		Sysctl:         maps.Clone(l.GetSysctl()),
		NetDevices:     maps.Clone(l.GetNetDevices()),
		Scheduler:      l.GetScheduler(),
		Rdt:            l.GetRdt(),
	})
}

func copyResources(r *api.LinuxResources) *api.LinuxResources {
	if r == nil {
		return nil
	}
	return keepUnknown(r, &api.LinuxResources{
		Memory:         copyMemory(r.GetMemory()),
		Cpu:            copyCPU(r.GetCpu()),
		HugepageLimits: slices.Clip(r.GetHugepageLimits()),
		BlockioClass:   r.GetBlockioClass(),
		RdtClass:       r.GetRdtClass(),
		Unified:        maps.Clone(r.GetUnified()),
		Devices:        slices.Clip(r.GetDevices()),
		Pids:           r.GetPids(),
	})
}

func copyMemory(m *api.LinuxMemory) *api.LinuxMemory {
	if m == nil {
		return nil
	}
	return keepUnknown(m, &api.LinuxMemory{
		Limit:            m.GetLimit(),
		Reservation:      m.GetReservation(),
		Swap:             m.GetSwap(),
		Kernel:           m.GetKernel(),
		KernelTcp:        m.GetKernelTcp(),
		Swappiness:       m.GetSwappiness(),
		DisableOomKiller: m.GetDisableOomKiller(),
		UseHierarchy:     m.GetUseHierarchy(),
	})
}

func copyCPU(c *api.LinuxCPU) *api.LinuxCPU {
	if c == nil {
		return nil
	}
	return keepUnknown(c, &api.LinuxCPU{
		Shares:          c.GetShares(),
		Quota:           c.GetQuota(),
		Period:          c.GetPeriod(),
		RealtimeRuntime: c.GetRealtimeRuntime(),
		RealtimePeriod:  c.GetRealtimePeriod(),
		Cpus:            c.GetCpus(),
		Mems:            c.GetMems(),
	})
}

// keepUnknown carries over fields that a newer runtime sent and this NRI does
// not know.
func keepUnknown[M proto.Message](from, to M) M {
	if unknown := from.ProtoReflect().GetUnknown(); len(unknown) > 0 {
		to.ProtoReflect().SetUnknown(unknown)
	}
	return to
}
