package policy

import (
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/nri-supervisor/nri-supervisor/filelook"
)

// APIVersion is the apiVersion of both documents.
const APIVersion = "nri-supervisor.dev/v1alpha1"

const (
	// KindSupervisor is the kind of the supervisor's own document.
	KindSupervisor = "Supervisor"
	// KindPlugin is the kind of a plugin's manifest.
	KindPlugin = "Plugin"
)

// Config is everything that was loaded. It is immutable.
type Config struct {
	// Supervisor is the Supervisor document with defaults filled in.
	Supervisor SupervisorSpec
	// Plugins are the valid plugins, ordered by index and name.
	Plugins []*Plugin
	// Invalid are the manifests that cannot be used, ordered by file and line.
	Invalid []InvalidPlugin
	// Problems are all errors and warnings, ordered by file, line and field.
	Problems Problems
	// Document is the Supervisor document alone, as one YAML document, for LoadOptions.Supervisor. Empty without a configuration file.
	Document string
	// Hash is the SHA-256 in hexadecimal of the names and contents of all files read.
	Hash string

	critical globs
}

// Plugin returns the valid plugin of this name; nil when there is none.
func (c *Config) Plugin(name string) *Plugin {
	for _, p := range c.Plugins {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// InvalidPlugin is a manifest that cannot be used.
type InvalidPlugin struct {
	// Name is the plugin's name as far as it could be read. It is empty when a file or
	// document is so broken that no name is known.
	Name string
	// Team is the team as far as it could be read.
	Team string
	// File and Line say where the document starts. Line is 0 when the file as a whole is meant.
	File string
	Line int
	// Problems are the errors, and the warnings beside them, of this manifest.
	Problems Problems
}

// Plugin is one valid manifest, with its verdicts. It is immutable; all methods are safe for concurrent use.
type Plugin struct {
	// Name is the NRI plugin name.
	Name string
	// Team is the owner's name, Contact the owner's contact.
	Team, Contact string
	// Index is the NRI index, two digits.
	Index string
	// Spec is the manifest with defaults filled in. It is to be read only.
	Spec PluginSpec
	// ProfileWritten says that somebody chose sandbox.profile, in the manifest, in the defaults or by the minimum of the team: all of it is applied, or the plugin
	// does not start.
	ProfileWritten bool
	// NeverRoot says that the minimum profile of the team is strict: an account of the manifest that turns out to be root, or in its group,
	// is refused.
	NeverRoot bool
	// NetworkWritten says that somebody chose sandbox.network; else it is the profile's.
	NetworkWritten bool
	// FileTrust says whether an executable that others can change is refused. The zero value refuses it.
	FileTrust FileTrust
	// ManifestDirs are the folders of the manifests, which no plugin may change. One that is relative is meant from the working directory.
	ManifestDirs []string
	// File and Line say where the manifest starts.
	File string
	Line int
	// LastGood says that the manifest in the file is broken, and that this is what it was when it was last valid.
	LastGood bool

	compiled
}

// LoadOptions says what to read.
type LoadOptions struct {
	// ConfigFile is the path of the Supervisor document. Empty: built-in defaults, which declare no team.
	ConfigFile string
	// PluginPaths are files and folders with Plugin manifests. Nil: the configuration's pluginDirs.
	PluginPaths []string
	// Supervisor is the Document of a Config that was good, to be used in place of what the configuration file holds. Empty: the file is read.
	Supervisor string
	// LastGood are the manifests that were valid before. One of them is used in place of a broken one.
	LastGood []GoodManifest
	// CheckFiles looks at the files that manifests refer to: binaries, fileRefs, configFrom.
	CheckFiles bool
	// Looks look at files, some of which may never answer: what is wrong is then that. Nil: new ones.
	Looks *filelook.Looks
}

// SourceFile is a file in memory.
type SourceFile struct {
	// Path names the file in messages.
	Path string
	// Data is its content.
	Data []byte
}

// DefaultRuntimeTimeout is the time that containerd and CRI-O give a plugin for one request
// when nothing else is configured.
const DefaultRuntimeTimeout time.Duration = api.DefaultPluginRequestTimeout

// Part is a part of a selection. It is a closed set.
type Part uint8

const (
	// PartNone means that no part refused.
	PartNone Part = iota
	// PartTeam is the team's namespace ceiling.
	PartTeam
	// PartNamespaces is selector.namespaces.
	PartNamespaces
	// PartPodSelector is selector.podSelector.
	PartPodSelector
	// PartRuntimeHandlers is selector.runtimeHandlers.
	PartRuntimeHandlers
	// PartContainers is selector.containers.
	PartContainers
	// PartMatchConditions is selector.matchConditions.
	PartMatchConditions
	// PartWhen is selector.when.
	PartWhen
)

// String returns the name of the part as the manifest writes it; "team" for the ceiling, "none" for none.
func (p Part) String() string {
	switch p {
	case PartNone:
		return "none"
	case PartTeam:
		return "team"
	case PartNamespaces:
		return "namespaces"
	case PartPodSelector:
		return "podSelector"
	case PartRuntimeHandlers:
		return "runtimeHandlers"
	case PartContainers:
		return "containers"
	case PartMatchConditions:
		return "matchConditions"
	case PartWhen:
		return "when"
	default:
		return "part(?)"
	}
}

// Decision is the verdict of a selection.
type Decision struct {
	// Selected says that all given parts matched.
	Selected bool
	// Err is set when a match condition failed to evaluate and none was false. Selected is
	// then false, and the caller applies the failurePolicy.
	Err error
	// Part is the first part that refused; PartNone when selected.
	Part Part
	// Detail names the match condition that was false or failed. Other parts leave it empty:
	// see ExplainPod and ExplainContainer.
	Detail string
}

// PartResult is what one part of a selection had to say.
type PartResult struct {
	// Part is the part.
	Part Part
	// Given says whether the manifest, or the team, has this part at all. A part that is not given matches.
	Given bool
	// Matched says whether the part matched.
	Matched bool
	// Detail is for people: what was compared with what.
	Detail string
	// Err is the error of a match condition.
	Err error
}
