package policy

import (
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/nri/pkg/api"
)

const (
	// maxSocketPath is the longest path of a unix socket: sun_path has 108 bytes, one of them the final NUL (unix(7)).
	maxSocketPath = 107
	// maxName bounds the names of plugins and teams, as a DNS label is bounded (RFC 1123).
	maxName = 63
	// pluginSocketRoom is what a plugin's sockets need of a socket path, below runDir and beside the plugin's
	// name: "/plugins/", the incarnation's folder, and "plugin" with up to ten digits, as go-plugin names its socket.
	pluginSocketRoom = len("/plugins/") + len("/123456") + len("/plugin") + 10
)

// teamCeiling is a compiled Team.
type teamCeiling struct {
	Team
	namespaces globs
	granted    fieldSet
	execPaths  []pathGlob
	first      string
	last       string
}

// validateSupervisor validates the decoded Supervisor document, compiles the teams, and fills in
// defaults that depend on other fields.
func (b *builder) validateSupervisor() {
	d, s := b.supervisor, &b.spec
	byDefault := defaultSupervisorSpec()
	d.checkFolder("spec.runDir", s.RunDir, byDefault.RunDir)
	d.checkFolder("spec.stateDir", s.StateDir, byDefault.StateDir)
	if s.Admin.Socket == "" {
		s.Admin.Socket = filepath.Join(s.RunDir, adminSocketName)
	}
	if d.isWritten("spec.admin.socket") || !d.failedUnder("spec.runDir") {
		d.checkSocket("spec.admin.socket", s.Admin.Socket)
	}
	d.checkSocket("spec.runtime.socket", s.Runtime.Socket)
	d.checkName("spec.runtime.name", s.Runtime.Name, "a name")
	d.checkIndex("spec.runtime.index", s.Runtime.Index)
	if len(s.PluginDirs) == 0 && !d.failedUnder("spec.pluginDirs") {
		d.errorf("spec.pluginDirs", "name at least one folder", "no folder is given, so no plugin would ever be found")
	}
	for i, dir := range s.PluginDirs {
		if dir == "" && !d.failedUnder(indexPath("spec.pluginDirs", i)) {
			d.errorf(indexPath("spec.pluginDirs", i), "write the path of a folder", "the path is empty")
		}
	}
	d.checkListen(metricsAddress, s.Metrics.Address)
	b.validateTLS()
	b.validateAudit()
	b.validateTracing()
	for _, role := range []struct {
		name    string
		members []string
	}{{"view", s.Admin.Roles.View}, {"operate", s.Admin.Roles.Operate}, {"admin", s.Admin.Roles.Admin}} {
		for i, m := range role.members {
			at := indexPath("spec.admin.roles."+role.name, i)
			if _, _, err := ParseMember(m); err != nil && !d.failedUnder(at) {
				d.errorf(at, "write uid:0 or gid:0 with the number", "%q is not a member", m)
			}
		}
	}
	for i, name := range s.RequiredPlugins {
		d.checkName(indexPath("spec.requiredPlugins", i), name, "a plugin name")
	}
	b.critical = d.globs("spec.critical.namespaces", s.Critical.Namespaces)
	for _, name := range slices.Sorted(maps.Keys(s.Teams)) {
		b.teams[name] = d.compileTeam(childPath("spec.teams", name), name, s.Teams[name])
	}
	b.validateDefaults()
	d.rejectUnsupported(unsupported(), "spec", *s, defaultSupervisorSpec())
}

const (
	// auditName is the audit in stateDir when audit.path is not given.
	auditName = "audit.jsonl"
	// minAuditSize is the least size of an audit file in bytes: below it a few decisions about a node with many plugins would rotate it.
	minAuditSize = 64 << 10
	// maxAuditFiles bounds the rotated files; with the default size they are 6 GiB.
	maxAuditFiles = 100
)

// validateTLS validates the certificate of the metrics address.
func (b *builder) validateTLS() {
	d, t := b.supervisor, b.spec.Metrics.TLS
	const path = "spec.metrics.tls"
	for _, f := range []struct{ name, value string }{{"certFile", t.CertFile}, {"keyFile", t.KeyFile}, {"clientCAFile", t.ClientCAFile}} {
		if f.value != "" {
			d.checkAbsolute(path+"."+f.name, f.value)
		}
	}
	switch {
	case d.failedUnder(path):
	case (t.CertFile == "") != (t.KeyFile == ""):
		d.errorf(path, "write both certFile and keyFile", "a certificate needs its key, and a key its certificate")
	case t.ClientCAFile != "" && t.CertFile == "":
		d.errorf(path+".clientCAFile", "write certFile and keyFile, too", "clients can show a certificate only where there is TLS")
	}
}

// validateTracing validates where spans go. The endpoint is shown in messages, so it is no place for a password.
func (b *builder) validateTracing() {
	d, t := b.supervisor, b.spec.Tracing
	if at := "spec.tracing.endpoint"; t.Endpoint != "" && !d.failedUnder(at) {
		const remedy = `write the URL of an OTLP collector that speaks HTTP, such as "http://127.0.0.1:4318", or "" to trace nothing`
		u, err := url.Parse(t.Endpoint)
		switch {
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
			d.errorf(at, remedy, "%q is no http or https URL", t.Endpoint)
		case u.User != nil:
			d.errorf(at, "set OTEL_EXPORTER_OTLP_HEADERS in the service's environment", "credentials do not belong into the configuration")
		case u.RawQuery != "" || u.Fragment != "":
			d.errorf(at, remedy, "%q has more than a host and a path", t.Endpoint)
		}
	}
	if at := "spec.tracing.ratio"; !d.failedUnder(at) && !(t.Ratio >= 0 && t.Ratio <= 1) {
		d.errorf(at, "write a number from 0 to 1, such as 0.01 for one in a hundred", "%v is no share", t.Ratio)
	}
}

// sharedFolders are those in which each plugin may make files of its own: no file in there is kept from it once it is made anew.
func sharedFolders() []string { return []string{"/var/log", "/var/lib"} }

// validateAudit validates the audit and fills in its path.
func (b *builder) validateAudit() {
	d, a := b.supervisor, &b.spec.Audit
	if a.Path == "" {
		a.Path = filepath.Join(b.spec.StateDir, auditName)
	} else {
		d.checkAbsolute("spec.audit.path", a.Path)
		if folder := filepath.Dir(a.Path); slices.Contains(sharedFolders(), folder) {
			d.errorf("spec.audit.path", "write a folder of its own, such as "+filepath.Join(folder, "nri-supervisor", auditName),
				"%q would be kept from plugins only until it is rotated: they may write in %s", a.Path, folder)
		}
	}
	if at := "spec.audit.maxSize"; !d.failedUnder(at) && a.MaxSize.CmpInt64(minAuditSize) < 0 {
		d.errorf(at, "write 64Ki or more", "%s is too small", a.MaxSize.String())
	}
	if at := "spec.audit.maxFiles"; !d.failedUnder(at) && (a.MaxFiles < 0 || a.MaxFiles > maxAuditFiles) {
		d.errorf(at, "write a number from 0 to "+strconv.Itoa(maxAuditFiles), "%d files cannot be kept", a.MaxFiles)
	}
}

// metricsAddress is the field of the address that metrics are served at.
const metricsAddress = "spec.metrics.address"

// defaultHost is what a port alone most likely means: this host and no other, as in the default.
const defaultHost = "127.0.0.1:"

// checkListen checks an address to listen at; empty is nowhere.
func (d *document) checkListen(path, address string) {
	if address == "" || d.failedUnder(path) {
		return
	}
	if _, port, err := net.SplitHostPort(address); err == nil && isPort(port) {
		return
	}
	remedy := `write host:port, such as "127.0.0.1:9464", or "" to listen nowhere`
	if isPort(address) {
		remedy = "write " + strconv.Quote(defaultHost+address)
	}
	d.errorf(path, remedy, "%q is not an address", address)
}

func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n <= 65535
}

// validateDefaults checks what the defaults say, so that a mistake in them is reported where it was made.
func (b *builder) validateDefaults() {
	if b.defaults == nil || b.supervisor.failedUnder("spec.defaults") {
		b.defaults = nil
		return
	}
	const path = "spec.defaults"
	d, spec := b.supervisor, defaultPluginSpec()
	d.decode(path, b.defaults, reflect.ValueOf(&spec).Elem(), "")
	d.validateValues(path, &spec)
	d.compileSelector(path+".selector", spec.Selector, &b.cel)
	d.compileValueRules(path+".permissions", &spec.Permissions)
	d.compileRules(path+".permissions.rules", spec.Permissions.Rules, &b.cel)
	d.rejectUnsupported(unsupported(), path, spec, defaultPluginSpec())
	for _, field := range []string{"team", "index"} {
		if b.defaults.get(field) != nil {
			d.errorf(childPath(path, field), "write it in each plugin's manifest", "%s cannot have a default", field)
		}
	}
	if d.failedUnder(path) {
		b.defaults = nil
	}
}

// compileTeam validates and compiles the ceiling of a team.
func (d *document) compileTeam(path, name string, t Team) *teamCeiling {
	d.checkName(path, name, "a team name")
	c := &teamCeiling{Team: t, granted: defaultCeiling(), first: "00", last: "99"}
	if printable(t.Contact) != t.Contact {
		d.errorf(path+".contact", "write one line, such as \"#ml-infra\"", "the contact is too long for a message, or holds characters that cannot be printed")
	}
	notEmpty := func(field string, list []string, remedy string) {
		if list != nil && len(list) == 0 {
			d.errorf(path+"."+field, remedy, "the list is empty, which would leave the team nothing")
		}
	}
	notEmpty("namespaces", t.Namespaces, `write ["*"] for every namespace`)
	notEmpty("execPaths", t.ExecPaths, `write ["/**"] for every path`)
	if t.Namespaces != nil {
		c.namespaces = d.globs(path+".namespaces", t.Namespaces)
	}
	if t.Permissions.Adjust != nil {
		c.granted = grantedFields(t.Permissions.Adjust)
	}
	if t.IndexRange != nil && !d.failedUnder(path+".indexRange") {
		ok := len(t.IndexRange) == 2 && api.CheckPluginIndex(t.IndexRange[0]) == nil &&
			api.CheckPluginIndex(t.IndexRange[1]) == nil && t.IndexRange[0] <= t.IndexRange[1]
		if !ok {
			d.errorf(path+".indexRange", `write the first and the last index, such as ["20", "39"]`, "%q is not a range of indexes", t.IndexRange)
		} else {
			c.first, c.last = t.IndexRange[0], t.IndexRange[1]
		}
	}
	for i, pattern := range t.ExecPaths {
		at := indexPath(path+".execPaths", i)
		if d.failedUnder(at) {
			continue
		}
		g, err := compilePathGlob(pattern)
		if err != nil {
			d.errorf(at, `write an absolute path in which * stays within one folder and ** crosses folders, such as "/opt/ml-infra/**"`,
				"bad path glob %q: %v", pattern, err)
			continue
		}
		c.execPaths = append(c.execPaths, g)
	}
	return c
}

// checkName checks a name of letters, digits and hyphens. A leading hyphen is NRI's removal marker in
// lists of owners, and a flag on the command line.
func (d *document) checkName(path, name, what string) (ok bool) {
	switch {
	case d.failedUnder(path):
	case name == "":
		d.errorf(path, "write "+what+" of letters, digits and hyphens", "the name is missing")
	case len(name) > maxName:
		d.errorf(path, "shorten it", "the name has %d bytes, more than the limit of %d", len(name), maxName)
	case !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]*$`).MatchString(name):
		d.errorf(path, "use letters, digits and hyphens, with a letter or digit first", "%q is not %s", name, what)
	default:
		return true
	}
	return false
}

func (d *document) checkIndex(path, index string) {
	switch {
	case d.failedUnder(path):
	case index == "":
		d.errorf(path, `write two digits in quotes, such as index: "20"`, "the index is missing")
	case api.CheckPluginIndex(index) != nil:
		d.errorf(path, `write two digits in quotes, such as index: "20"`, "%q is not an NRI index", index)
	}
}

func (d *document) checkSocket(path, socket string) {
	if d.failedUnder(path) || !d.checkAbsolute(path, socket) {
		return
	}
	if len(socket) > maxSocketPath {
		d.errorf(path, "write a shorter path", "the path %q has %d bytes, more than the %d of a unix socket", socket, len(socket), maxSocketPath)
	}
}

// checkAbsolute checks that the path is absolute and says what it means: no "..", no doubled slash.
func (d *document) checkAbsolute(path, value string) bool {
	switch {
	case d.failedUnder(path):
		return false
	case value == "":
		d.errorf(path, "write an absolute path", "the path is missing")
		return false
	case !strings.HasPrefix(value, "/"):
		d.errorf(path, "write an absolute path", "%q does not start with /", value)
		return false
	case filepath.Clean(value) != value:
		d.errorf(path, "write "+filepath.Clean(value), "%q holds .., . or doubled slashes", value)
		return false
	}
	return true
}

// checkFolder checks a folder of the supervisor's own. Which one to use instead is what the field is without any setting.
func (d *document) checkFolder(path, folder, byDefault string) {
	if !d.checkAbsolute(path, folder) {
		return
	}
	for _, shared := range []string{"/", "/tmp", "/var/tmp", "/dev/shm"} {
		switch {
		case folder == shared:
			d.errorf(path, "write a folder of the supervisor's own, such as "+byDefault, "%s belongs to everybody", shared)
		case shared != "/" && strings.HasPrefix(folder, shared+"/"):
			d.warnf(path, "use a folder of the supervisor's own, such as "+byDefault+", except for a trial",
				"the folder lies in %s, where everybody can create names", shared)
		}
	}
}
