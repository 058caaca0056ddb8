// Package wire is the contract between nri-supervisor and a plugin built with the SDK: the handshake, the control service,
// the environment variables, and the errors that carry a meaning. Both sides import it and nothing else of each other.
//
// # Owns
//
//   - the go-plugin handshake: magic cookie, protocol version, name of the control plugin;
//   - the control service (gRPC, well-known message types only, so that no code has to be generated): describe, health,
//     log level, stop;
//   - how NRI's frames are put together, so that a message is one write: [FramedConn];
//   - how a deliberate rejection and "not interested" travel through an NRI reply: as a status code with a fixed prefix.
//
// # Does not own
//
// The data plane: that is NRI's own protocol on descriptor 3. Policy: what a supervisor does with an answer.
//
// # Ordering and concurrency
//
// Everything here but [FrameWriter] and [FramedConn] is safe for concurrent use. Calls have no order among each other.
//
// # Failure model
//
// A control call fails with a gRPC status, or with the deadline of its context; nothing is retried here. An unhealthy
// plugin is an *[UnhealthyError], which is how it differs from one that cannot be asked.
//
// # Compatibility
//
// [ProtocolVersion] changes when an old supervisor could not drive a new plugin or the other way round. Keys that are added to
// the description are ignored by readers that do not know them, and are empty for readers of older plugins.
package wire
