package recording

import (
	"regexp"
	"slices"
	"strings"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"
)

// Redacted stands for a value that was taken out.
const Redacted = "REDACTED"

var (
	// secretName is a name that sounds like a secret's.
	secretName = regexp.MustCompile(`(?i)(secret|token|passw|passphrase|credential|api[-_.]?key|private[-_.]?key|access[-_.]?key|authorization|cookie|bearer|dsn|connection[-_.]?string)`)
	// secretValue is a text that looks like one: a PEM block, a JSON web token, a URL with a password.
	secretValue = regexp.MustCompile(`-----BEGIN |\beyJ[A-Za-z0-9_-]{10,}\.|://[^/\s:@]+:[^/\s@]+@`)
	// flagName is the name of a command line flag.
	flagName = regexp.MustCompile(`^--?[A-Za-z0-9][A-Za-z0-9._-]*$`)
)

// lastApplied is kubectl's copy of the manifest, with every variable in it.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Redact returns a copy without values that may be secret: of environment variables, always; of annotations and arguments, when the
// name sounds like a secret or the value looks like one. Labels stay: selectors need them, and nobody keeps a secret there.
func Redact(e *Event) *Event {
	out := *e
	out.Redacted = true
	out.Pod, out.Container = redactPod(e.Pod), redactContainer(e.Container)
	out.Pods, out.Containers = slices.Clone(e.Pods), slices.Clone(e.Containers)
	for i := range out.Pods {
		out.Pods[i] = redactPod(out.Pods[i])
	}
	for i := range out.Containers {
		out.Containers[i] = redactContainer(out.Containers[i])
	}
	return &out
}

func redactPod(p *api.PodSandbox) *api.PodSandbox {
	if p == nil {
		return nil
	}
	p = proto.CloneOf(p)
	redactMap(p.GetAnnotations())
	return p
}

func redactContainer(c *api.Container) *api.Container {
	if c == nil {
		return nil
	}
	c = proto.CloneOf(c)
	redactMap(c.GetAnnotations())
	redactEnv(c.GetEnv())
	redactArgs(c.GetArgs())
	h := c.GetHooks()
	for _, hook := range slices.Concat(h.GetPrestart(), h.GetCreateRuntime(), h.GetCreateContainer(), h.GetStartContainer(), h.GetPoststart(), h.GetPoststop()) {
		redactEnv(hook.GetEnv())
		redactArgs(hook.GetArgs())
	}
	return c
}

func redactMap(m map[string]string) {
	for k, v := range m {
		if k == lastApplied || secretName.MatchString(k) || secretValue.MatchString(v) {
			m[k] = Redacted
		}
	}
}

func redactEnv(env []string) {
	for i, e := range env {
		if name, _, ok := strings.Cut(e, "="); ok {
			env[i] = name + "=" + Redacted
		}
	}
}

// redactArgs takes out the values of flags that sound like a secret, written --flag=value, name=value or as the next argument.
func redactArgs(args []string) {
	for i, a := range args {
		name, value, given := strings.Cut(a, "=")
		switch {
		case given && secretName.MatchString(name):
			args[i] = name + "=" + Redacted
		case secretValue.MatchString(a), given && secretValue.MatchString(value):
			args[i] = Redacted
		case i > 0 && !given && flagName.MatchString(args[i-1]) && secretName.MatchString(args[i-1]) && !strings.HasPrefix(a, "-"):
			args[i] = Redacted
		}
	}
}
