// Package state keeps decisions about containers across restarts of the
// supervisor, in one file.
//
// It owns the file state.db in the state directory: its layout, its version,
// setting a damaged one aside, and the queue before it.
//
// It does not own what a record means, when one is obsolete, or who is told
// about a full disk: that is the caller's.
//
// The file is a log: changes are appended, each with a checksum, and the file
// is rewritten when most of it is obsolete. Everything that it holds is in
// memory as well, which is small: see the bounds. A database of pages would write less
// after a change of one record, but it has to trust the pages that it finds. With the usual
// embedded one a flipped bit in a page took the whole memory of the process in
// the next write. Here a damaged place costs the records in it, and nothing else.
//
// # Ordering and concurrency
//
//   - All methods of DB are safe for concurrent use, and Put, Delete, PutManual
//     and DeleteManual never wait for the disk.
//   - Writes to one key take effect in the order of the calls; writes that
//     wait are merged, so that only the newest of a key is written.
//   - A record is on disk whole or not at all. What Flush has confirmed survives
//     a crash of the process and, as far as the disk keeps its word, of the machine.
//   - One goroutine writes. It ends in Close.
//   - One process at a time uses a directory, held by a lock on state.lock.
//
// What may not be assumed: that anything was written before Flush or Close
// returned nil. What was put less than 50 ms ago may be gone after a crash.
//
// # Failure model
//
// A damaged file is set aside as state.db.bad-N, and a new one is begun with
// what could be read; Loaded.Lost says then that the absence of a record proves
// nothing. The same goes for a file that is gone, or empty: a new one is put in
// place whole. A folder that is taken away is made anew. A file that cannot be had at all (no permission, full
// disk, another process) is tried again for ever, and the DB works in memory
// meanwhile. Errors of the disk are reported through a callback and counted,
// and the write is tried again; nothing that waits is lost, up to a limit of
// records beyond which the oldest go first. No error of this package is a reason
// not to start or not to answer.
package state
