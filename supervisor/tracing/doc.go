// Package tracing gives each event of the runtime a span and each plugin's part in it a child, and exports them by OTLP over HTTP.
//
// It owns OpenTelemetry's SDK, which nothing else imports, and the translation of package supervisor's words into attributes. It does not own when something is traced: a request of a runtime that traces
// it itself is a part of that trace exactly if the runtime sampled it; of the others, the configured share is sampled.
//
// Concurrency: all methods are safe for concurrent use. Nothing on the way of an event waits: spans go into a bounded queue, and what finds it full is lost.
//
// Failure model: a collector that is slow, gone or refuses costs spans and nothing else. Options.OnProblem is told of each batch that could not be delivered.
package tracing
