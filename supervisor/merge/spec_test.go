package merge_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/runtime-tools/generate"
	rspec "github.com/opencontainers/runtime-spec/specs-go"
)

// ociSpec gives the OCI spec that a runtime ends with: the container's own
// one, changed by NRI's generator.
func ociSpec(tb testing.TB, c *api.Container, adjust *api.ContainerAdjustment) *rspec.Spec {
	tb.Helper()
	spec := &rspec.Spec{
		Annotations: map[string]string{},
		Process:     &rspec.Process{Args: slices.Clone(c.GetArgs()), Env: slices.Clone(c.GetEnv())},
		Hooks:       &rspec.Hooks{},
		Linux: &rspec.Linux{
			Sysctl:     map[string]string{},
			NetDevices: map[string]rspec.LinuxNetDevice{},
			Resources:  c.GetLinux().GetResources().ToOCI(),
			IntelRdt:   &rspec.LinuxIntelRdt{ClosID: "own", Schemata: []string{"own"}},
		},
	}
	maps.Copy(spec.Annotations, c.GetAnnotations())
	for _, m := range c.GetMounts() {
		spec.Mounts = append(spec.Mounts, m.ToOCI(nil))
	}
	for _, l := range c.GetRlimits() {
		spec.Process.Rlimits = append(spec.Process.Rlimits, rspec.POSIXRlimit{Type: l.GetType(), Hard: l.GetHard(), Soft: l.GetSoft()})
	}
	for _, n := range c.GetLinux().GetNamespaces() {
		spec.Linux.Namespaces = append(spec.Linux.Namespaces, rspec.LinuxNamespace{Type: rspec.LinuxNamespaceType(n.GetType()), Path: n.GetPath()})
	}
	for _, d := range c.GetLinux().GetDevices() {
		spec.Linux.Devices = append(spec.Linux.Devices, d.ToOCI())
	}
	maps.Copy(spec.Linux.Sysctl, c.GetLinux().GetSysctl())
	for k, v := range c.GetLinux().GetNetDevices() {
		spec.Linux.NetDevices[k] = rspec.LinuxNetDevice{Name: v.GetName()}
	}
	g := generate.SpecGenerator(&specEditor{spec: spec},
		generate.WithCDIDeviceInjector(func(s *rspec.Spec, names []string) error {
			s.Annotations["cdi"] = strings.Join(names, ",")
			return nil
		}),
		generate.WithBlockIOResolver(func(string) (*rspec.LinuxBlockIO, error) { return &rspec.LinuxBlockIO{}, nil }),
		generate.WithRdtResolver(func(class string) (*rspec.LinuxIntelRdt, error) { return &rspec.LinuxIntelRdt{ClosID: class}, nil }),
	)
	if err := g.Adjust(adjust); err != nil {
		tb.Fatal(err)
	}
	return spec
}

// specEditor does to a spec what runtime-tools' generator does, for the methods
// that NRI uses.
type specEditor struct{ spec *rspec.Spec }

func (e *specEditor) Spec() *rspec.Spec { return e.spec }

func (e *specEditor) AddAnnotation(key, value string) { e.spec.Annotations[key] = value }
func (e *specEditor) RemoveAnnotation(key string)     { delete(e.spec.Annotations, key) }

func (e *specEditor) AddDevice(d rspec.LinuxDevice) {
	e.spec.Linux.Devices = append(e.spec.Linux.Devices, d)
}

func (e *specEditor) RemoveDevice(path string) {
	e.spec.Linux.Devices = slices.DeleteFunc(e.spec.Linux.Devices, func(d rspec.LinuxDevice) bool { return d.Path == path })
}

func (e *specEditor) AddOrReplaceLinuxNamespace(ns, path string) error {
	if err := e.RemoveLinuxNamespace(ns); err != nil {
		return err
	}
	e.spec.Linux.Namespaces = append(e.spec.Linux.Namespaces, rspec.LinuxNamespace{Type: rspec.LinuxNamespaceType(ns), Path: path})
	return nil
}

func (e *specEditor) RemoveLinuxNamespace(ns string) error {
	e.spec.Linux.Namespaces = slices.DeleteFunc(e.spec.Linux.Namespaces, func(n rspec.LinuxNamespace) bool { return string(n.Type) == ns })
	return nil
}

func (e *specEditor) AddPreStartHook(h rspec.Hook) {
	e.spec.Hooks.Prestart = append(e.spec.Hooks.Prestart, h) //nolint:staticcheck // NRI still offers prestart hooks.
}

func (e *specEditor) AddPostStartHook(h rspec.Hook) {
	e.spec.Hooks.Poststart = append(e.spec.Hooks.Poststart, h)
}

func (e *specEditor) AddPostStopHook(h rspec.Hook) {
	e.spec.Hooks.Poststop = append(e.spec.Hooks.Poststop, h)
}

func (e *specEditor) AddProcessEnv(name, value string) {
	e.spec.Process.Env = slices.DeleteFunc(e.spec.Process.Env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
	e.spec.Process.Env = append(e.spec.Process.Env, name+"="+value)
}
func (e *specEditor) ClearProcessEnv()             { e.spec.Process.Env = nil }
func (e *specEditor) SetProcessArgs(args []string) { e.spec.Process.Args = slices.Clone(args) }
func (e *specEditor) SetProcessOOMScoreAdj(adj int) {
	e.spec.Process.OOMScoreAdj = &adj
}

func (e *specEditor) AddLinuxResourcesDevice(allow bool, devType string, major, minor *int64, access string) {
	e.spec.Linux.Resources.Devices = append(e.spec.Linux.Resources.Devices,
		rspec.LinuxDeviceCgroup{Allow: allow, Type: devType, Major: major, Minor: minor, Access: access})
}

func (e *specEditor) AddLinuxResourcesHugepageLimit(size string, limit uint64) {
	e.spec.Linux.Resources.HugepageLimits = append(e.spec.Linux.Resources.HugepageLimits,
		rspec.LinuxHugepageLimit{Pagesize: size, Limit: limit})
}

func (e *specEditor) AddLinuxResourcesUnified(key, value string) {
	if e.spec.Linux.Resources.Unified == nil {
		e.spec.Linux.Resources.Unified = map[string]string{}
	}
	e.spec.Linux.Resources.Unified[key] = value
}

func (e *specEditor) AddMount(m rspec.Mount) { e.spec.Mounts = append(e.spec.Mounts, m) }
func (e *specEditor) ClearMounts()           { e.spec.Mounts = nil }
func (e *specEditor) Mounts() []rspec.Mount  { return e.spec.Mounts }
func (e *specEditor) RemoveMount(destination string) {
	e.spec.Mounts = slices.DeleteFunc(e.spec.Mounts, func(m rspec.Mount) bool { return m.Destination == destination })
}

func (e *specEditor) AddLinuxSysctl(key, value string) { e.spec.Linux.Sysctl[key] = value }
func (e *specEditor) RemoveLinuxSysctl(key string)     { delete(e.spec.Linux.Sysctl, key) }

func (e *specEditor) SetLinuxCgroupsPath(path string)      { e.spec.Linux.CgroupsPath = path }
func (e *specEditor) SetLinuxResourcesCPUCpus(cpus string) { e.spec.Linux.Resources.CPU.Cpus = cpus }

func (e *specEditor) SetLinuxResourcesCPUMems(mems string) { e.spec.Linux.Resources.CPU.Mems = mems }

func (e *specEditor) SetLinuxResourcesCPUPeriod(v uint64) { e.spec.Linux.Resources.CPU.Period = &v }
func (e *specEditor) SetLinuxResourcesCPUQuota(v int64)   { e.spec.Linux.Resources.CPU.Quota = &v }
func (e *specEditor) SetLinuxResourcesCPUShares(v uint64) { e.spec.Linux.Resources.CPU.Shares = &v }

func (e *specEditor) SetLinuxResourcesMemoryLimit(v int64) { e.spec.Linux.Resources.Memory.Limit = &v }

func (e *specEditor) SetLinuxResourcesMemorySwap(v int64) { e.spec.Linux.Resources.Memory.Swap = &v }

func (e *specEditor) SetLinuxRootPropagation(rp string) error {
	e.spec.Linux.RootfsPropagation = rp
	return nil
}

func (e *specEditor) SetLinuxResourcesCPURealtimePeriod(v uint64) {
	e.spec.Linux.Resources.CPU.RealtimePeriod = &v
}

func (e *specEditor) SetLinuxResourcesCPURealtimeRuntime(v int64) {
	e.spec.Linux.Resources.CPU.RealtimeRuntime = &v
}
