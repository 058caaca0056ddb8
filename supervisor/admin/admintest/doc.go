// Package admintest serves a supervisor that is none on an admin socket, for tests of the server, of its client and of the command line.
//
// Owns: the fake, which answers with what a test gives it and notes what it is asked to do; the socket in a folder with a short path, and its end with the test.
//
// Does not own: anything that ships. No program imports it.
package admintest
