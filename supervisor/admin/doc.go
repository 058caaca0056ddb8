// Package admin is the way into a running supervisor: HTTP with JSON over a unix socket, and the client that the command line uses.
//
// It owns the socket file, the check of who is on the other end, the paths, their bodies and status codes, and the words that tell an operator why a socket does not
// answer. It does not own what the requests do (an [API] does), the printing of replies, or logs: the functions in [Options] are told.
//
//	GET  /v1/status                    → supervisor.Status
//	GET  /v1/missed                    → []supervisor.MissedWork, ordered by namespace, pod, container and plugin
//	GET  /v1/decisions?plugin=a&follow → journal.Decision, one a line; see DecisionsQuery
//	GET  /v1/explain?namespace=n&pod=p&container=c → []supervisor.Explanation
//	GET  /v1/record?namespace=n&pod=p&values=false → {"event":recording.Event,"lost":n}, one a line, without end
//	POST /v1/plugins/{name}/{action}   → ActionReply; action is one of Actions
//	POST /v1/bypass {"for":"10m"}      → BypassReply; "0s" ends the bypass
//
// Whatever fails is answered with an [ErrorReply]: 400 for a request that is wrong in itself, 403 for a peer that may not ask, 404 for a path or plugin that does not
// exist, 405 for the wrong method, 408 for a change that nobody waits for any more, 409 for an action that the plugin's state rules out, 413 for a body that is too large.
//
// Trust: the kernel tells who connected, with which groups (SO_PEERCRED, SO_PEERGROUPS), and [Roles] what that peer may do; uid 0 and the user that the supervisor runs as
// may do everything. Reading needs a role, too, because the output of plugins is in it. The socket's mode keeps others out as far as a mode can: 0600 when nobody else has a role,
// 0660 and the group when all others are one group, and 0666 when there is no mode for it.
//
// Ordering: requests on different connections run side by side in no order; a connection carries one request. A reply to an action means that the action was taken
// note of, not that its effect is over: a restarted plugin may still be starting.
//
// A change is made only while its client is there and, of a request that says until when in the header Nri-Supervisor-Deadline, before that instant: after a supervisor was stopped or stuck it does
// not carry out what its operator was told has failed.
//
// Concurrency: [Serve] is called once per socket; a [Client] is safe for concurrent use. Serve returns when every goroutine that it started has ended.
//
// Failure: a client that is slow, silent or greedy costs its own connection, which ends by a time limit, and never another's. The number of connections is limited;
// peers that may not ask have a small limit of their own and cannot use up that of the others.
package admin
