package plugins

import (
	"log/slog"

	"github.com/containerd/nri/pkg/stub"
)

// Option changes how Serve runs a plugin.
type Option func(*options)

type options struct {
	name, index, socket string
	version             string
	level               *slog.LevelVar
	withStub            func(stub.Stub)
}

// WithName sets the NRI name for when nobody else does. A supervisor or runtime that starts the plugin names it itself.
// Default: the name of the executable, NN-NAME or, with an index given, all of it.
func WithName(name string) Option { return func(o *options) { o.name = name } }

// WithIndex sets the NRI index, two digits, for when nobody else does. Default: the first two digits of the executable's name.
func WithIndex(index string) Option { return func(o *options) { o.index = index } }

// WithSocket sets the path of the runtime's NRI socket, for a plugin that is started by hand. Default: NRI's own,
// /var/run/nri/nri.sock. It is not used when the starter hands over a connected socket.
func WithSocket(path string) Option { return func(o *options) { o.socket = path } }

// WithVersion sets the version that the plugin reports. Default: the version of the main module in the build information.
func WithVersion(version string) Option { return func(o *options) { o.version = version } }

// WithLogLevel makes the supervisor's log level of this plugin set level: at the start and whenever it changes. The level
// "trace" becomes slog.LevelDebug-4. Use it with a slog handler that writes to os.Stderr; slog's JSON keeps its level in
// the supervisor's log.
func WithLogLevel(level *slog.LevelVar) Option { return func(o *options) { o.level = level } }

// WithStub hands the NRI stub to f before it is started, for plugins that call UpdateContainers on their own. Calls of
// UpdateContainers from inside a handler deadlock some runtimes: return updates from the handler instead.
func WithStub(f func(stub.Stub)) Option { return func(o *options) { o.withStub = f } }
