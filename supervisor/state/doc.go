// Package state keeps decisions about containers across restarts of the
// supervisor, in one bbolt file.
//
// It owns the file state.db in the state directory: its layout, its version,
// setting aside a file that cannot be read, and the queue before it.
//
// It does not own what a record means, when one is obsolete, or who is told
// about a full disk: that is the caller's.
//
// # Ordering and concurrency
//
//   - All methods of DB are safe for concurrent use, and Put, Delete, PutManual
//     and DeleteManual never wait for the disk.
//   - Writes to one key take effect in the order of the calls; writes that
//     wait are merged, so that only the newest of a key is written.
//   - A batch is written whole or not at all. What Flush has confirmed survives
//     a crash of the process and, as far as the disk keeps its word, of the machine.
//   - One goroutine writes. It ends in Close.
//
// What may not be assumed: that writes to different keys reach the disk in the order
// of the calls, or that anything was written before Flush or Close returned nil.
//
// # Failure model
//
// A file that cannot be opened or read is set aside and a new one is begun; if
// even that is impossible the DB works in memory and says so. Errors of the
// disk are reported through a callback, counted, and the write is tried again;
// nothing that waits is lost meanwhile, up to a limit beyond which the oldest
// go first. No error of this package is a reason not to start or not to answer.
package state
