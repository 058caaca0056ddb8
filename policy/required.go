package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/nri/pkg/api"
	"go.yaml.in/yaml/v3"
)

const (
	// RequiredAnnotation is how a pod names hosted plugins that must have succeeded for its containers. Its value is a YAML list of names. A key for one container
	// (KEY/container.NAME) comes before one for the pod (KEY/pod), and that before KEY alone, as NRI reads its own annotations.
	RequiredAnnotation = "required-plugins.nri-supervisor.dev"
	// NRIRequiredAnnotation is NRI's own one. Names in it that are not hosted are the runtime's business.
	NRIRequiredAnnotation = "required-plugins.noderesource.dev"
	// TolerateAnnotation lets a pod, or one container of it, be created although required plugins are missing: "true".
	TolerateAnnotation = "tolerate-missing-plugins.nri-supervisor.dev"
	// requiredSetting is how messages name the list of the Supervisor document.
	requiredSetting = "requiredPlugins"
	// maxRequired bounds an annotation's list, in bytes: 64 names.
	maxRequired = 64 * (maxName + 4)
)

// Requirement is a plugin that must have succeeded for a container.
type Requirement struct {
	// Plugin is its name.
	Plugin string
	// By is what requires it: requiredPlugins, or the annotation.
	By string
	// Hosted says that there is a valid manifest of that name.
	Hosted bool
}

// Required lists the plugins that must have succeeded for the container of that name: those of the Supervisor document and those that the pod's annotations add, each
// once. Nothing is required for critical pods, except from plugins that say includeCritical, or where the pod tolerates it. The error says what is wrong with an annotation; the
// container is then not to be created. A nil pod is an empty one.
func (c *Config) Required(pod *api.PodSandbox, container string) ([]Requirement, error) {
	annotations := pod.GetAnnotations()
	if len(c.Supervisor.RequiredPlugins) == 0 && len(annotations) == 0 {
		return nil, nil
	}
	var out []Requirement
	for _, name := range c.Supervisor.RequiredPlugins {
		out = c.require(out, pod, name, requiredSetting)
	}
	for _, key := range []string{RequiredAnnotation, NRIRequiredAnnotation} {
		value, given := effective(annotations, key, container)
		if !given {
			continue
		}
		names, err := parseNames(value)
		switch {
		case err != nil && key == NRIRequiredAnnotation: // whether that is a mistake is for the runtime's validator to say
			continue
		case err != nil && c.isCritical(pod):
			continue
		case err != nil:
			return nil, fmt.Errorf("the annotation %s is not a list of plugin names such as \"[a, b]\": %v", key, err)
		}
		for _, name := range names {
			if key == NRIRequiredAnnotation && !c.knows(name) {
				continue
			}
			out = c.require(out, pod, name, "the annotation "+key)
		}
	}
	if len(out) == 0 {
		return nil, nil
	}
	if value, given := effective(annotations, TolerateAnnotation, container); given {
		tolerates, err := strconv.ParseBool(value)
		if err != nil {
			return nil, fmt.Errorf("the annotation %s is %q, neither true nor false", TolerateAnnotation, short(value))
		}
		if tolerates {
			return nil, nil
		}
	}
	return out, nil
}

// require adds the plugin, unless it is there already or the pod is protected from it.
func (c *Config) require(out []Requirement, pod *api.PodSandbox, name, by string) []Requirement {
	p := c.named(name)
	if p != nil {
		name = p.Name
	}
	if slices.ContainsFunc(out, func(r Requirement) bool { return r.Plugin == name }) {
		return out
	}
	if p != nil && p.Critical(pod) || p == nil && c.isCritical(pod) {
		return out
	}
	return append(out, Requirement{Plugin: name, By: by, Hosted: p != nil})
}

// named finds the valid plugin by its name, or by index and name as NRI writes it.
func (c *Config) named(name string) *Plugin {
	for _, p := range c.Plugins {
		if name == p.Name || name == p.Index+"-"+p.Name {
			return p
		}
	}
	return nil
}

// knows says whether there is a manifest of that name, valid or not.
func (c *Config) knows(name string) bool {
	return c.named(name) != nil || slices.ContainsFunc(c.Invalid, func(i InvalidPlugin) bool { return i.Name != "" && i.Name == name })
}

// isCritical says whether the pod is one that no plugin may keep from running.
func (c *Config) isCritical(pod *api.PodSandbox) bool {
	return c.critical.matchKnown(pod.GetNamespace()) || c.Supervisor.Critical.StaticPods && isStatic(pod)
}

// effective finds the annotation that holds for the container.
func effective(annotations map[string]string, key, container string) (string, bool) {
	for _, k := range []string{key + "/container." + container, key + "/pod", key} {
		if v, ok := annotations[k]; ok {
			return v, true
		}
	}
	return "", false
}

func parseNames(text string) ([]string, error) {
	if len(text) > maxRequired {
		return nil, fmt.Errorf("it has %d bytes, more than the limit of %d", len(text), maxRequired)
	}
	var names []string
	if err := yaml.Unmarshal([]byte(text), &names); err != nil {
		return nil, fmt.Errorf("%s", short(strings.Join(strings.Fields(err.Error()), " ")))
	}
	if slices.Contains(names, "") {
		return nil, fmt.Errorf("a name is empty")
	}
	return names, nil
}
