package doctor

import (
	"bufio"
	"errors"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

const (
	containerd = "containerd"
	crio       = "cri-o"
	// containerdConfig and crioConfig are the defaults of the runtimes; crioDropIns are read after the file, in order.
	containerdConfig = "/etc/containerd/config.toml"
	crioConfig       = "/etc/crio/crio.conf"
	crioDropIns      = "/etc/crio/crio.conf.d/*"
	// nriPlugin is NRI in containerd's configuration, of version 2 and 3.
	nriPlugin = "io.containerd.nri.v1.nri"
	// maxImports bounds the files that one configuration may draw in.
	maxImports = 64
)

// setting is a value and where it stands; where is empty if it stands nowhere and the runtime's default holds.
type setting[T any] struct {
	value T
	where string
}

func (s setting[T]) written() bool { return s.where != "" }

// runtimeConfig is what a runtime's own configuration says of NRI.
type runtimeConfig struct {
	runtime string
	file    string
	running bool
	// old says that the file is of a kind that containerd 1 reads as well; there NRI is off by default.
	old bool

	off, noConnections setting[bool]
	socket             setting[string]
	timeout            setting[time.Duration]
	// required are the plugins that the runtime's own validator requires, if it is on.
	required setting[[]string]
}

// runtimeConfigs reads the configuration of the runtimes of this node: of the one that the supervisor is connected to, else of those that run, else of those that have one.
func (h Host) runtimeConfigs(all []process, live Live) (out []runtimeConfig, problems []Finding) {
	files := map[string]string{containerd: containerdConfig, crio: crioConfig}
	running := map[string]bool{}
	for _, p := range all {
		switch p.name() {
		case "containerd":
			running[containerd] = true
			if file := p.flag("--config", "-config", "-c"); path.IsAbs(file) {
				files[containerd] = file
			}
		case "crio":
			running[crio] = true
			if file := p.flag("--config", "-config", "-c"); path.IsAbs(file) {
				files[crio] = file
			}
		}
	}
	for _, name := range []string{containerd, crio} {
		if known := strings.ToLower(live.Runtime); known == containerd || known == crio {
			if known != name {
				continue
			}
		} else if len(running) > 0 && !running[name] {
			continue
		}
		c := runtimeConfig{runtime: name, file: files[name], running: running[name]}
		chain := h.chain(name, c.file, &problems)
		if len(chain) == 0 {
			continue
		}
		for _, f := range chain {
			f.apply(&c)
		}
		out = append(out, c)
	}
	return out, problems
}

// confFile is one file of a runtime's configuration.
type confFile struct {
	path, text string
	data       map[string]any
}

// chain lists the files of a configuration in the order in which later ones prevail.
func (h Host) chain(runtime, file string, problems *[]Finding) []confFile {
	var out []confFile
	read := func(name string) (imports []string) {
		data, err := h.readFile(name)
		if errors.Is(err, errOdd) {
			*problems = append(*problems, Finding{
				Result: Unknown, What: runtime + "'s configuration cannot be read: " + err.Error(), Where: name, Mend: "put a regular file there",
			})
		}
		if err != nil {
			return nil
		}
		f := confFile{path: name, text: string(data)}
		if _, err := toml.Decode(f.text, &f.data); err != nil {
			*problems = append(*problems, Finding{
				Result: Problem, What: runtime + "'s configuration is not valid, so it cannot start with it: " + firstLine(err.Error()),
				Where: name, Mend: "correct the file",
			})
			return nil
		}
		out = append(out, f)
		for _, i := range list(f.data["imports"]) {
			if !path.IsAbs(i) {
				i = path.Join(path.Dir(name), i)
			}
			imports = append(imports, h.glob(i)...)
		}
		return imports
	}
	if runtime == crio {
		read(file)
		for _, name := range h.glob(crioDropIns) {
			read(name)
		}
		return out
	}
	seen := map[string]bool{}
	for queue := []string{file}; len(queue) > 0 && len(seen) < maxImports; queue = queue[1:] {
		if !seen[queue[0]] {
			seen[queue[0]] = true
			queue = append(queue, read(queue[0])...)
		}
	}
	return out
}

// apply lays the file over what those before it say.
func (f confFile) apply(c *runtimeConfig) {
	if c.runtime == crio {
		nri := table(table(f.data["crio"])["nri"])
		if on, ok := nri["enable_nri"].(bool); ok {
			c.off = setting[bool]{!on, f.at("enable_nri")}
		}
		f.common(c, nri, "nri_listen", "nri_plugin_request_timeout", "nri_disable_connections")
		f.validator(c, table(nri["default_validator"]), "nri_enable_default_validator", "nri_validator_required_plugins")
		return
	}
	if version, ok := f.data["version"].(int64); ok {
		c.old = version < 3
	}
	if slices.Contains(list(f.data["disabled_plugins"]), nriPlugin) {
		c.off = setting[bool]{true, f.at("disabled_plugins")}
	}
	nri := table(table(f.data["plugins"])[nriPlugin])
	if off, ok := nri["disable"].(bool); ok && (off || !strings.Contains(c.off.where, "disabled_plugins")) {
		c.off = setting[bool]{off, f.at("disable")}
	}
	f.common(c, nri, "socket_path", "plugin_request_timeout", "disable_connections")
	f.validator(c, table(nri["default_validator"]), "enable", "required_plugins")
}

func (f confFile) common(c *runtimeConfig, nri map[string]any, socket, timeout, noConnections string) {
	if s, ok := nri[socket].(string); ok && s != "" {
		c.socket = setting[string]{s, f.at(socket)}
	}
	if s, ok := nri[timeout].(string); ok {
		if d, err := time.ParseDuration(s); err == nil && d > 0 {
			c.timeout = setting[time.Duration]{d, f.at(timeout)}
		}
	}
	if no, ok := nri[noConnections].(bool); ok {
		c.noConnections = setting[bool]{no, f.at(noConnections)}
	}
}

func (f confFile) validator(c *runtimeConfig, v map[string]any, enable, required string) {
	if names := list(v[required]); v[enable] == true && names != nil {
		c.required = setting[[]string]{names, f.at(required)}
	}
}

// at says where the key of NRI stands: the line in NRI's own table, else the first one with the key.
func (f confFile) at(key string) string {
	assigned := regexp.MustCompile(`^\s*(?:[\w."'-]+\.)?["']?` + regexp.QuoteMeta(key) + `["']?\s*=`)
	inNRI, first := false, 0
	lines := bufio.NewScanner(strings.NewReader(f.text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "[") {
			inNRI = strings.Contains(line, nriPlugin) || strings.HasPrefix(line, "[crio.nri")
		}
		if !assigned.MatchString(line) {
			continue
		}
		if inNRI {
			return at(f.path, n) + " " + key
		}
		if first == 0 && (strings.Contains(line, nriPlugin) || key == "disabled_plugins") {
			first = n
		}
	}
	return at(f.path, first) + " " + key
}

func table(v any) map[string]any {
	t, _ := v.(map[string]any) // nil is an empty table
	return t
}

func list(v any) []string {
	values, ok := v.([]any)
	if !ok {
		return nil
	}
	out := []string{}
	for _, x := range values {
		if s, ok := x.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
