// Package journal holds what was decided: one [Decision] for each plugin's part in each event of the runtime, for each update that was denied or lost, for work that was found
// missing, and for what operators did by hand.
//
// It owns the type, a bounded ring of the latest decisions in memory, subscriptions to it, and the rule of which decisions an audit must keep ([Decision.Notable]). It does not own
// where decisions come from, files, or the way to clients.
//
// A decision names fields and keys, such as Env[TOKEN], and never the value of a variable.
//
// Ordering: the decisions of one event are published together; Seq grows by one with each decision. Decisions about one container of blocking events come in the order of the events.
// What became of a notification comes when it is known, which may be after later events.
//
// Concurrency: all methods are safe for concurrent use. Publishing takes a short lock, never waits for a reader and costs nothing when there is nothing to publish.
//
// Failure: a reader that is slower than the ring is long loses decisions and is told how many ([Subscription.Next]).
package journal
