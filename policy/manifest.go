package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Manifest renders the plugin as a Plugin document with all defaults filled in. It is JSON, and so
// YAML as well; parsed again it gives an equal plugin.
func (p *Plugin) Manifest() ([]byte, error) {
	return render(pluginDocument{APIVersion: APIVersion, Kind: KindPlugin, Metadata: pluginMetadata{Name: p.Name}, Spec: p.Spec})
}

// Manifest renders the Supervisor document with all defaults filled in. It is JSON, and so YAML as
// well; parsed again it gives an equal document.
func (c *Config) Manifest() ([]byte, error) {
	return render(supervisorDocument{APIVersion: APIVersion, Kind: KindSupervisor, Spec: c.Supervisor})
}

func render(doc any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(doc); err != nil {
		return nil, fmt.Errorf("render document: %v", err)
	}
	return b.Bytes(), nil
}

// Environ resolves the plugin's own environment, in the order of the manifest, as NAME=value. nodeName is the node's
// name; readFile reads the file of a fileRef, of whose content one trailing newline is left out. The error names
// the variable and the file, never a value. Without exec it is empty.
func (p *Plugin) Environ(nodeName string, readFile func(path string) ([]byte, error)) ([]string, error) {
	if p.Spec.Exec == nil {
		return nil, nil
	}
	var out []string
	for _, v := range p.Spec.Exec.Env {
		value := v.Value
		if from := v.ValueFrom; from != nil && from.FieldRef == NodeName {
			value = nodeName
		} else if from != nil {
			data, err := readFile(from.FileRef)
			if err != nil {
				return nil, fmt.Errorf("read %q for variable %s: %w", from.FileRef, v.Name, err)
			}
			if bytes.IndexByte(data, 0) >= 0 {
				return nil, fmt.Errorf("read %q for variable %s: the file holds a NUL byte, which no variable can", from.FileRef, v.Name)
			}
			value = strings.TrimSuffix(string(data), "\n")
		}
		out = append(out, v.Name+"="+value)
	}
	return out, nil
}
