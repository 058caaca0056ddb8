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
// name sounds like a secret or the value looks like one or may hide one, such as texts in base64, long random words, and what in JSON or YAML sounds like a secret. kubectl's copy of the
// manifest is left out. Labels stay: selectors need them, and nobody keeps a secret there.
func Redact(e *Event) *Event {
	out := *e
	out.Redacted = true
	known := idsOf(e)
	out.Pod, out.Container = redactPod(e.Pod, known), redactContainer(e.Container, known)
	out.Pods, out.Containers = slices.Clone(e.Pods), slices.Clone(e.Containers)
	for i := range out.Pods {
		out.Pods[i] = redactPod(out.Pods[i], known)
	}
	for i := range out.Containers {
		out.Containers[i] = redactContainer(out.Containers[i], known)
	}
	return &out
}

func redactPod(p *api.PodSandbox, known ids) *api.PodSandbox {
	if p == nil {
		return nil
	}
	p = proto.CloneOf(p)
	redactMap(p.GetAnnotations(), known)
	return p
}

func redactContainer(c *api.Container, known ids) *api.Container {
	if c == nil {
		return nil
	}
	c = proto.CloneOf(c)
	redactMap(c.GetAnnotations(), known)
	redactEnv(c.GetEnv())
	redactArgs(c.GetArgs(), known)
	h := c.GetHooks()
	for _, hook := range slices.Concat(h.GetPrestart(), h.GetCreateRuntime(), h.GetCreateContainer(), h.GetStartContainer(), h.GetPoststart(), h.GetPoststop()) {
		redactEnv(hook.GetEnv())
		redactArgs(hook.GetArgs(), known)
	}
	return c
}

// redactMap takes out the values that may be secret, and the copy of the manifest altogether. It is as strict as can be: a value in doubt is taken out whole.
func redactMap(m map[string]string, known ids) {
	delete(m, lastApplied)
	for k, v := range m {
		if secretName.MatchString(k) {
			m[k] = Redacted
			continue
		}
		m[k] = known.redactText(v)
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
func redactArgs(args []string, known ids) {
	for i, a := range args {
		name, value, given := strings.Cut(a, "=")
		switch {
		case given && secretName.MatchString(name):
			args[i] = name + "=" + Redacted
		case secretValue.MatchString(a), given && secretValue.MatchString(value):
			args[i] = Redacted
		case given && known.redactText(value) != value:
			args[i] = name + "=" + Redacted
		case !given && known.redactText(a) != a:
			args[i] = Redacted
		case i > 0 && !given && flagName.MatchString(args[i-1]) && secretName.MatchString(args[i-1]) && !strings.HasPrefix(a, "-"):
			args[i] = Redacted
		}
	}
}
