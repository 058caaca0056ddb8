// Package isolation starts, watches and stops one incarnation of one plugin process.
//
// # Owns
//
//   - the process: executing it in a session and process group of its own, with a clean environment, /dev/null as its
//     input, the NRI socket as descriptor 3 and no other inherited descriptor; killing the whole group; reaping;
//   - its confinement: a cgroup of its own with its limits, made by [Host]; whatever else [Confinement] names is applied by the
//     stage, our own executable, which becomes the plugin's process and is replaced by the plugin;
//   - the guardians, two processes of our own executable that kill the cgroups of a supervisor that died;
//   - its output: both pipes are drained for as long as the process lives, cut into lines, limited and sanitized;
//   - the go-plugin client of a plugin that is built with the SDK (no go-plugin type leaves this package);
//   - the runtime side of the plugin's NRI connection: registration, configuration, synchronization in parts, the events
//     as raw calls, and updates that the plugin asks for by itself;
//   - the private run directory of the incarnation, in which it has a bounded file system of its own if its files are confined at all;
//   - the sockets at which plugins that run elsewhere attach ([Dock]): who may connect, how long a connection may take to
//     register, and the connection itself ([Attachment]), of which there is no process of ours.
//
// # Does not own
//
// When to start, restart or give up; timeouts of events; selection, permissions and breakers; what an outcome means.
// An [Instance] is started once and never restarted: the next incarnation is another Instance.
//
// # Ordering and concurrency
//
//   - [Start] returns only after the handshake (protocol go-plugin) and after the plugin's RegisterPlugin, or with an error
//     and nothing left running.
//   - All methods of an Instance are safe for concurrent use. Calls through [Instance.Plugin] are not serialized here.
//   - [Spec.OnOutput] is called one line at a time, in the order of the lines of each stream. [Spec.OnUpdate] may be called
//     concurrently; never before the plugin registered. Neither is called after [Instance.Done] is closed.
//   - The order at the end is: process reaped, its group and its cgroup killed, connection closed, output drained, cgroup and
//     directory removed, Done.
//
// # Failure model
//
// The plugin is a stranger: it may hang, crash, ignore signals, stop reading or writing, flood its output, close or
// garble its connection at any moment. Each wait of this package on a plugin is bounded, except Start and the raw calls,
// which are bounded by their caller: a call ends with its context, and a context that has a method Late(error) is told how it
// ended in the plugin after that. Nothing is written by waiting for the plugin: what it has not read within [WriteStall] ends its
// connection. A process that survives SIGKILL (uninterruptible sleep)
// is reported with [Exit.Alive] and reaped whenever it ends.
package isolation
