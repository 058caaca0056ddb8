// Package plugin is the state machine of one hosted plugin: its life (starting, syncing, ready, …) and the delivery of events to it.
//
// It owns which incarnation is in service, when the next one starts, when the plugin must be synchronized before it gets traffic again, which call is in flight, which
// calls wait, which containers the plugin knows in the current snapshot epoch, and which timers are armed. It does not own clocks, timers, goroutines, processes, locks,
// the guard's counters or logs: time comes in as an argument, everything to be done goes out as an [Effect], and what came of it comes back as an [Input].
//
// Promises:
//   - Deliveries to one plugin are serial: at most one [Send] without its [Returned] or the end of its incarnation.
//   - Order holds per pod: a blocking call is sent after that pod's queued notifications and before other pods' queued ones.
//   - Every [Call] is answered by exactly one [Answer], whatever happens to the process.
//   - Per epoch (one successful synchronization to the next) a container is told to the plugin once, in the snapshot or as a creation.
//   - At most one incarnation is in service; inputs of an older one change nothing ([Stale]).
//
// A Machine is not safe for concurrent use: one goroutine owns it.
package plugin
