// Package chaosplugin is the plugin of the command chaos, which fails on command.
//
// # Owns
//
// The faults, and a record of what the plugin was told: the ids of pods and containers it should know (Synchronize
// replaces them, creations add, removals remove), and how often it saw each event of each container, so that a test can tell
// "exactly once" from "lost" and "twice".
//
// # Does not own
//
// The meaning of a fault: that is up to whoever runs it. Nothing here is meant for production.
//
// # Ordering and concurrency
//
// The record is written before a fault acts, so an event that a fault swallows is recorded. All handlers are safe for
// concurrent use; no lock is held while a fault hangs.
//
// # Failure model
//
// Failing is the purpose. A wrong configuration fails Configure; a dump that cannot be written is said on stderr.
package chaosplugin
