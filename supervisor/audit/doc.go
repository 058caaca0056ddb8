// Package audit keeps on disk what was decided: one JSON line for each notable decision of the journal, in a file that is rotated and bounded.
//
// It owns the file, its rotation, the queue in front of it, and reading it back. It does not own which decisions are made or what is in them: a line is a journal.Decision as
// encoding/json writes it, with the decisions of one event in a row and, after them, the plugins that were not selected.
//
// The file is path; path.1 is the one before it, up to path.N. All have mode 0600. A file is rotated before the line that would make it longer than the limit.
//
// Ordering: lines come in the order in which decisions were put, across rotation.
//
// Concurrency: Put never waits for the disk: one goroutine writes, behind a bounded queue. All methods are safe for concurrent use.
//
// Failure: what does not fit into the queue, and what the disk does not take, is lost and counted. OnProblem is told when writing begins to fail and when it works again, and the file
// then says itself, by a line of kind "lost", how many decisions are missing. A line that was written in part is taken back, or ended, so that one is damaged at most. A crash of the
// host can cost what the kernel had not written.
package audit
