// Package policy turns manifests into verdicts.
//
// It owns the two documents an operator writes, Supervisor and Plugin: reading,
// strict decoding with file, line, field and remedy in each error, defaults,
// validation across files, and the JSON Schema generated from the types. It owns
// the pure questions that the rest of the program asks about a plugin: is this
// pod or container selected and why not, how long may a call take, does the
// runtime wait for this event, does a failure refuse the container, which fields
// of a reply were granted.
//
// It does not own what follows from a verdict. It starts nothing, calls nobody,
// never looks at the clock, never logs. Whether an error of a match condition
// ends in Ignore or Fail is the caller's decision, taken with Plugin.Fails.
//
// # Ordering and concurrency
//
//   - A Config and everything reachable from it is immutable once Load or Parse
//     has returned. All methods are safe for concurrent use. A reload builds a
//     new Config; nothing is updated in place.
//   - Config.Plugins is ordered by index, then by name, the order in which the
//     plugins are called. Config.Problems is ordered by file, line, field.
//   - The same files give the same Config, the same Problems in the same order,
//     and the same Hash.
//   - Matching never blocks. It costs no allocation unless the plugin has
//     matchConditions that reach evaluation. CEL work is bounded by a cost limit
//     and not by a clock, so a verdict does not depend on how fast the node is.
//
// The caller may not assume that a verdict is stable over a container's life: an
// empty pod message in a late event gives another verdict than the full one at
// creation. Pin the first.
//
// # Failure model
//
// One wrong plugin manifest makes that plugin invalid, never another one, with
// the one exception of a name used twice, which makes each holder of it invalid.
// Only an unusable Supervisor document makes Load return an error. A setting that
// this version knows but does not enforce makes the manifest invalid; it is never
// ignored.
package policy
