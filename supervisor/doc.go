// Package supervisor hosts NRI plugins behind one registration with the runtime.
//
// It owns the session with the runtime, the order in which an event visits the plugins that selected it, one actor per plugin, what is known about pods and containers, and
// the record of each piece of work that a container has to do without. It does not own processes (a [Launcher] does), the rules (package policy), the counting of failures
// (package breaker) or the writing of logs (a [Sink] is told of each [Event]).
//
// Ordering: plugins are visited by index, equal indexes in name order, each seeing the changes of the one before; deliveries to one plugin are serial; events of one pod
// reach a plugin in the runtime's order. Nothing is promised about the order of notifications (Post*, Remove*) of different pods.
//
// Concurrency: the exported methods of [Supervisor] are safe for concurrent use. Run returns when every goroutine that it started has ended.
//
// Failure: a plugin can cost a container that it selected its own work (failure policy Ignore) or its creation (Fail), and nothing else. The runtime gets its answer before its
// own deadline. What a container has to do without is counted, told to the sink, stored and shown.
package supervisor
