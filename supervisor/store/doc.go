// Package store is the supervisor's memory of one node: which pods and containers exist, what was decided about them, and what became of
// each plugin's work on them.
//
// Owns: the last known [api.PodSandbox] and [api.Container] of everything that lives, the selection decisions pinned to them, the record of
// each plugin's work on each container's creation, and the count of work that is missing from living containers.
//
// Does not own: the selection itself (package policy), what a plugin process has been told (its actor), persistence, metrics, time. It reads
// no clock: every instant comes in as an argument, and the store only compares them.
//
// Identity. A container is known by its [Ref], the pair of sandbox id and container id; container ids alone are unique only per pod. A
// creation for a known Ref begins a new life: pins, work and metadata of the former life are handed back and kept no longer.
//
// Completion. Runtimes leave things out: stop and remove events can carry a pod with nothing but an id, or not even that, and a container
// whose OCI spec is gone. Whatever an observation lacks is filled from what is stored, so a plugin and its selector see the same pod at the
// end of its life as at the start. Two kinds of fields are taken as they come, because their zero is news: process ids and exit results.
//
// Immutability. A message that is handed to the store belongs to it from then on, and a message that it hands out is shared with everybody
// who asked: both are read-only, for ever. A later observation replaces the pointer and never writes into a message; completed messages
// share the parts that did not change. The slices of pins and work that are returned are shared and read-only in the same way.
//
// Packing. What events are about is kept decoded; what nothing came about for a while is kept as its encoding only, by [Store.Pack], and decoded for whoever asks. An event that lacks nothing, which
// is the rule, is compared with the encoding and decodes nothing. Lists of pins that are equal are kept once.
//
// Concurrency. All methods are safe for concurrent use and atomic: a [Store.Snapshot] sees every change before it and none after it. No
// callback runs and no I/O happens under the store's lock. What a caller may NOT assume: that two calls in a row see the same state.
//
// Order. Lists come sorted, by sandbox id and container id unless the method says otherwise, so the same state gives the same answer.
//
// Failure model. The store cannot fail. A method that is given an unknown [Ref] changes nothing and says so by its boolean. A runtime that
// never tells about removals (Docker) lets the store grow until the next [Store.Replace].
package store
