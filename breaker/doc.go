// Package breaker is the guard of one plugin: it decides whether a call may go
// to the plugin, and learns from how the call ended.
//
// It owns what counts as a failure, one circuit breaker per plugin (gobreaker,
// plus the rules that gobreaker lacks), the busy flag of a plugin that still
// works on a call, the quarantine of pods that harm the plugin, the plugin's
// share of the node's time, and the time share of one call ([Share]).
//
// It does not own calls, deadlines, processes or configuration files. It starts
// no goroutine and no timer: the caller says when a call was overdue ([Guard.Hung]),
// when a process ended ([Guard.Exited]) and when a new one is in service
// ([Guard.Started]). It never logs; changes of state are handed to a function.
//
// # The life of a call
//
//	ticket, reason := guard.AdmitCall(call)   // refused: fall back, reason says why
//	ticket.Sent()                             // the request goes out
//	ticket.End(outcome)                       // the event has its verdict
//	ticket.Returned()                         // the plugin is free again
//
// Every admitted ticket must be ended by the caller's own deadline. Returned may
// come later than End (a late answer), earlier, or never; until it comes, or
// until [Guard.Exited] or [Guard.Started] says that the incarnation is gone, the
// plugin is busy and nothing else is admitted. A ticket that was admitted and
// then not used is ended with [OutcomeCanceled] and returned like any other.
//
// # The order of questions
//
// A refusal has one reason, the first that holds:
//
//  1. the plugin is disabled by hand: disabled
//  2. the breaker is forced open by hand: breaker_open
//  3. the breaker is open and its time is not over, or the process is down:
//     breaker_open
//  4. the probe of a half-open breaker has no verdict yet: half_open_full
//  5. a call has not come back: busy
//  6. the pod is quarantined: quarantined
//  7. the lane share is used up, its own or the one that it has with others, and
//     the event is one that somebody waits for: lane_share
//
// Only after all of them does an open breaker become half-open, so a refused
// call never moves it, and a quarantined pod that the kubelet retries for ever
// never uses up a probe.
//
// # The automatic states
//
//	closed ── failures, slow calls, hang, exit, health ──► open
//	open ── time over, found by the next call ──► half_open
//	open ── Started ──► half_open, at once
//	half_open ── good probe ──► closed
//	half_open ── bad probe, hang, exit, health, no verdict in time ──► open
//	open, half_open ── HealthOK ──► closed, if nothing but health and exits
//	        opened it since it was last closed, the process is up, and no probe
//	        is under way
//
// Trip and Disable put forced_open and disabled in front of them. What happens
// behind a manual state is recorded but does not show.
//
// # Ordering and concurrency
//
//   - All methods are safe for concurrent use, never block on anything but the
//     guard's own short lock, and take constant time. Only [Guard.Snapshot],
//     [Guard.Unquarantine] of all pods and [Guard.Started] with a new version
//     take time in proportion to the pods remembered, at most 4096.
//   - Transitions are handed out in the order in which they happened, one at a
//     time, never under a lock, so the function may call the guard. When a
//     method returns, its transition has been handed out, or another goroutine
//     is handing transitions out right now and will include it.
//   - Reading ([Guard.State], [Guard.Snapshot], the totals) changes nothing,
//     however long ago the open time was over.
//   - A verdict counts only for the state in which its ticket was admitted; one
//     that arrives after the state changed is used for the pod's record only.
//
// Do not assume that a guard in StateOpen refuses the next call, nor that one in
// StateClosed admits it: ask Admit. Do not assume that End frees the plugin.
//
// # Failure model
//
// The guard does not fail: it returns no errors and holds no resources. Wrong
// use is bounded. A second End, Sent or Returned does nothing. A probe that is
// never ended expires after [Config.ProbeDeadline]. A call that is never
// returned keeps the plugin busy until Exited or Started.
package breaker
