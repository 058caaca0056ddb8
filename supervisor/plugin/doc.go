// Package plugin is the state machine of one hosted plugin: its life (starting, syncing, ready, …) and the delivery of events to it.
//
// It owns which incarnation is in service, when the next one starts, when the plugin must be synchronized before it gets traffic again, which call is in flight, which
// calls wait, which containers the plugin knows in the current snapshot epoch, and which timers are armed. It does not own clocks, timers, goroutines, processes, locks,
// the guard's counters or logs: time comes in as an argument, everything to be done goes out as an [Effect], and what came of it comes back as an [Input].
//
// # Promises
//
//   - Deliveries to one plugin are serial: at most one [Send] without its [Returned] or the end of its incarnation, and no [Synchronize] meanwhile.
//   - Order holds per pod: calls of one pod are sent in the order in which they came. A blocking call is sent after what was queued for its pod before it, and before other
//     pods' queued notifications. Example: queued are A1, B1, A2, then B blocks: B1, B, A1, A2.
//   - Every [Call] is answered by exactly one [Answer], whatever happens to the process; a blocking one by the end of its share, or of Request.Until if it had to wait for a
//     successor, if timers fire when they are due and the guard
//     answers at once.
//   - Every admitted call gets exactly one [Verdict], then one [Back], except that the end of an incarnation ([GuardExited]) comes before the verdict of the call that it ended.
//   - Per epoch (one successful synchronization to the next) a container is told to the plugin once, in the snapshot or as a creation, if it is told at all; events of a
//     container that it was not told of are withheld.
//   - After an open breaker, a down process, a new session with the runtime or a dropped queue nothing is sent before the plugin is synchronized; without a new session or
//     incarnation, without a [Reset] and a [Reconfigure] at most once per [ResyncInterval].
//   - Calls about what vanished with a runtime (Request.Vanished) are sent before the next synchronization, in phase syncing, to an incarnation that was told of it, for at most
//     [VanishedLimit]; so are removals that were queued when the runtime went. Every other call is sent in phase ready only.
//   - At most one incarnation is in service; inputs of an older one change nothing ([Stale]).
//   - Stopped by [Stop], it starts nothing any more.
//
// # What it relies on
//
// Call ids are unique. Timers fire once, not before they are due. A snapshot ([Synced].Known) holds what exists when [Synchronize] is carried out, without what is gone and without
// pods and containers whose creation is still to be answered by this machine: those come as creations. Do not assume that a call that was refused or withheld is never followed by
// events of the same container, nor that [Returned] comes for every [Send].
//
// # Concurrency and failures
//
// A Machine is not safe for concurrent use: one goroutine owns it. It cannot fail. An input that breaks the contract is a [Violation] and changes nothing; whatever the inputs, no
// call is sent outside phase ready but those about what vanished, no incarnation is launched while another is in service but one successor, and no call is answered twice.
package plugin
