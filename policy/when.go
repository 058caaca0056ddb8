package policy

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/containerd/nri/pkg/api"
)

// when is a compiled condition of the OCI hooks schema 1.0.0, with the semantics that
// github.com/containers/common/pkg/hooks/1.0.0 gives it: all given fields must match, at least one is
// given, patterns are unanchored Go regular expressions, false never matches. Unlike there, a container
// without a command does not match commands; there it is an error.
type when struct {
	// never says that always or hasBindMounts is false.
	never       bool
	annotations []annotationPattern
	commands    []*regexp.Regexp
	bindMounts  bool
}

type annotationPattern struct{ key, value *regexp.Regexp }

func (d *document) compileWhen(path string, s *WhenSpec) *when {
	w := &when{
		never:      (s.Always != nil && !*s.Always) || (s.HasBindMounts != nil && !*s.HasBindMounts),
		bindMounts: s.HasBindMounts != nil && *s.HasBindMounts,
	}
	if s.Always == nil && s.HasBindMounts == nil && len(s.Annotations) == 0 && len(s.Commands) == 0 && !d.failedUnder(path) {
		d.errorf(path, "write always: true, or delete when", "when gives no condition, and so would never match")
	}
	for _, k := range slices.Sorted(maps.Keys(s.Annotations)) {
		at := childPath(path+".annotations", k)
		key, value := d.regexp(at, k), d.regexp(at, s.Annotations[k])
		if key != nil && value != nil {
			w.annotations = append(w.annotations, annotationPattern{key, value})
		}
	}
	for i, c := range s.Commands {
		if re := d.regexp(indexPath(path+".commands", i), c); re != nil {
			w.commands = append(w.commands, re)
		}
	}
	return w
}

func (d *document) regexp(path, pattern string) *regexp.Regexp {
	re, err := regexp.Compile(pattern)
	if err != nil {
		d.errorf(path, "write a regular expression in Go's syntax", "bad regular expression %q: %s",
			pattern, strings.TrimPrefix(err.Error(), "error parsing regexp: "))
		return nil
	}
	return re
}

// match says whether the condition holds. Annotations are the pod's and the container's, the
// container's winning where both have the key.
func (w *when) match(pod *api.PodSandbox, c *api.Container) bool {
	if w.never {
		return false
	}
	for _, a := range w.annotations {
		if !a.match(pod, c) {
			return false
		}
	}
	if len(w.commands) > 0 && !w.matchesCommand(c) {
		return false
	}
	return !w.bindMounts || hasBindMounts(c)
}

func (a annotationPattern) match(pod *api.PodSandbox, c *api.Container) bool {
	for k, v := range c.GetAnnotations() {
		if a.key.MatchString(k) && a.value.MatchString(v) {
			return true
		}
	}
	for k, v := range pod.GetAnnotations() {
		if _, hidden := c.GetAnnotations()[k]; !hidden && a.key.MatchString(k) && a.value.MatchString(v) {
			return true
		}
	}
	return false
}

func (w *when) matchesCommand(c *api.Container) bool {
	args := c.GetArgs()
	if len(args) == 0 {
		return false
	}
	for _, re := range w.commands {
		if re.MatchString(args[0]) {
			return true
		}
	}
	return false
}

// hasBindMounts says whether the container has a bind mount that its author asked for.
func hasBindMounts(c *api.Container) bool {
	for _, m := range c.GetMounts() {
		bind := m.GetType() == "bind"
		for _, o := range m.GetOptions() {
			bind = bind || o == "bind" || o == "rbind"
		}
		if bind && !addedByNode(m) {
			return true
		}
	}
	return false
}

// addedByNode says whether the kubelet or the runtime adds such a mount to every container.
func addedByNode(m *api.Mount) bool {
	switch m.GetDestination() {
	case "/etc/hosts", "/dev/termination-log", "/var/run/secrets/kubernetes.io/serviceaccount", // kubelet
		"/etc/hostname", "/etc/resolv.conf", // containerd and CRI-O
		"/run/.containerenv": // CRI-O
		return true
	case "/dev/shm":
		// containerd and CRI-O bind the sandbox's own; a pod's volume comes from a folder "volumes".
		return strings.HasSuffix(m.GetSource(), "/shm") && !strings.Contains(m.GetSource(), "/volumes/")
	default:
		return false
	}
}

// explain says which field of the condition does not hold.
func (w *when) explain(pod *api.PodSandbox, c *api.Container) string {
	if w == nil {
		return ""
	}
	if w.never {
		return "false never matches"
	}
	for _, a := range w.annotations {
		if !a.match(pod, c) {
			return fmt.Sprintf("no annotation of the pod or container matches %q: %q", a.key, a.value)
		}
	}
	if len(w.commands) > 0 && !w.matchesCommand(c) {
		if len(c.GetArgs()) == 0 {
			return "the container has no command"
		}
		return fmt.Sprintf("command %q matches none of %q", c.GetArgs()[0], w.commands)
	}
	if w.bindMounts && !hasBindMounts(c) {
		return "the container has no bind mount of its own"
	}
	return "all given conditions hold"
}
