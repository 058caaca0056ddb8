// Package merge makes one reply out of the replies of several plugins, with
// NRI's own adaptation embedded as the merge engine.
//
// It owns
//   - the embedded adaptations: building them, keeping the idle ones, closing them;
//   - the order in which members are called, and which of them are called at once;
//   - conflicts: who lost, against whom, in which fields, and the second pass without the loser;
//   - what NRI's merge does not carry: removal markers, pids, the fields of an
//     update that nobody set, an order that is the same every time.
//
// It does not own selection, time shares, breakers, permissions, failure
// policies, the size of a reply, or the way a plugin is reached. A member is
// only an index, a name and a callback.
//
// # Ordering
//
//   - Members are called in the order of (index, name), whatever their order in
//     the slice. Example: "20-b", "10-z", "20-a" are called as z, a, b.
//   - Each member sees the request as the members before it left it. A member
//     whose reply was dropped left nothing.
//   - Members of one index that all say Parallel form a stage: they are called
//     at once, on the same view, and their replies are merged in name order.
//     One member of that index that does not say so makes all of them serial.
//   - A member is called at most once per event. After a conflict the event is
//     merged again from the recorded replies, and only members that were not
//     called yet are called.
//   - The same request, members and replies give the same bytes in
//     deterministic encoding, every time.
//
// What may not be assumed: that the replies of a stage arrive in any order,
// or that a later member is called when the engine reports an error.
//
// # Concurrency
//
// An Engine is safe for concurrent use, and no event waits for another one: an
// event that finds no idle adaptation gets a new one. Callbacks of a stage run
// on goroutines that have ended when the method returns; all others run on
// the caller's goroutine.
//
// # Failure model
//
// A plugin cannot make a merge fail: whatever it replies, either its reply is
// merged or it is dropped whole and reported as such. An error means that the
// caller asked for something impossible (two members of one name, a request
// without a container, a closed engine) or that an adaptation could not be
// built; there is no reply then. A callback that blocks blocks its event, so
// deadlines are the callback's business. A callback that panics is a bug and
// is not recovered.
//
// The adaptation logs through NRI's process-wide logger (nri/pkg/log), a few
// lines for each adaptation that is built. The program must route that logger
// before the first Engine is used; this package does not touch it.
package merge
