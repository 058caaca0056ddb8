// Package probeplugin is the plugin of the command probe, which does what a test tells it and writes down what happens.
//
// It owns the record. Its handlers are safe for concurrent use; a line of the record is written at once, under a lock. What cannot be recorded ends the process: a test that
// reads half a record would be wrong.
package probeplugin
