// Package schemagen renders Go types as a JSON Schema (draft 2020-12).
//
// It owns the mapping from the types, tags and doc comments of package policy to a schema. It does not own
// the types, nor what they mean: a schema accepts documents that policy refuses for reasons that
// a schema cannot say. It is used by tests and by the generator, never by the supervisor.
//
// The same source gives the same bytes. Nothing here is safe for concurrent use, and nothing needs to be. A type
// that it cannot render is an error that names the type.
package schemagen
