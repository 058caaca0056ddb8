// Package plugins is the SDK for authors of NRI plugins that run under nri-supervisor.
//
// A plugin is any value that implements one or more of the handler interfaces of NRI's own package
// github.com/containerd/nri/pkg/stub, exactly as for a stock plugin. [Serve] runs it:
//
//	func main() { plugins.Main(&myPlugin{}) }
//
// Started by nri-supervisor, the process gets a control service (description, health, log level, graceful stop) beside its
// NRI connection. Started by a runtime or by hand, the same binary is an ordinary NRI plugin.
//
// # Owns
//
// The life of the plugin's process from Serve to its end: handshake, NRI stub, signals, shutdown; what an error of a
// handler means on the wire.
//
// # Does not own
//
// The handlers, their speed, and their state. Selection, timeouts, retries and permissions: the supervisor's. Nothing of the
// supervisor is linked into a plugin.
//
// # Ordering and concurrency
//
//   - Configure comes first, then Synchronize, then events. Under nri-supervisor Synchronize may come again on the same
//     connection: it replaces all that the plugin knew. What vanished with a runtime that went away and came back is told before, by
//     StopContainer, StopPodSandbox, RemoveContainer and RemovePodSandbox, to a process that had seen it. Configure may come again as well: it replaces the configuration.
//   - Events of one plugin come one at a time, except that an event may arrive while a handler that exceeded its
//     timeout still runs, and Synchronize, health checks and Shutdown may run beside any handler. Guard your state with a mutex.
//   - Shutdown is called at most once, and nothing else is called after Serve returned.
//
// # Failure model
//
// A panic in a handler ends the process, with the stack on stderr: the supervisor records it, answers without the plugin and
// starts it again. An error of a handler is a failure that counts against the plugin, unless it is [Reject] (a deliberate
// "no", if the platform team permits it) or [NotInterested]. What a handler prints to stdout or stderr reaches the
// supervisor's log, line by line.
package plugins
