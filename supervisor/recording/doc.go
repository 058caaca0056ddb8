// Package recording is the format of an event of the runtime in a file, and what is taken out of it before it leaves the node.
//
// It owns the format and the redaction. It does not own where events come from or what is done with them.
//
// A file holds one JSON object: the name of the event, and NRI's messages as protojson writes them. [Redact] replaces the values of environment variables, of annotations
// and of arguments whose names sound like a secret, and of what looks like one, also within JSON, YAML and base64, and drops kubectl's copy of the manifest; it is a help and no guarantee, since a secret can look like anything.
//
// Concurrency: all functions are safe for concurrent use and keep nothing.
package recording
