// Command chaos is an NRI plugin that fails on command, to see what a failing plugin does to a node, and what it does not.
//
// It sets CHAOS=NAME on each container that it is called for, unless told otherwise. Its configuration is JSON:
//
//	{
//	  "name": "chaos-a",            // the value of CHAOS; default "chaos"
//	  "dump": "/tmp/chaos-a.json",  // where SIGUSR1 and the action dump write what the plugin knows
//	  "validate": false,            // also be a validator, of what other plugins did
//	  "faults": [{
//	    "event": "CreateContainer", // an NRI event, or Configure, Synchronize, Shutdown, Health
//	    "action": "hang",           // see below
//	    "namespace": "default",     // only pods of this namespace
//	    "podLabel": "app=web",      // only pods with this label
//	    "annotation": "fail=yes",   // only pods with this annotation
//	    "whileFile": "/tmp/on",     // only while this file exists
//	    "times": 3                  // at most so often in one life of the process; default: always
//	  }]
//	}
//
// A pod can ask for it as well, by the annotation chaos.nri-supervisor.dev/EVENT: ACTION.
//
// Actions: hang, slow:DURATION, error[:TEXT], status:CODE (an error with that gRPC code), deadline (the error of a context),
// reject[:REASON], not-interested[:pod|container], panic, exit[:CODE], kill, stop (SIGSTOP), flood[:LINES] (on stderr), garbage (on the NRI
// connection), close (the NRI connection), oversize (an answer too large to send), forbidden (an adjustment of OCI hooks), conflict (an
// adjustment of what another plugin is likely to set: the arguments and a mount, or the container's processor shares), dump, none, abort (SIGABRT),
// pause:DURATION (stopped, and continued after that), half (the beginning of a frame on the NRI connection), foreign:ID (an update of a container that is not its own),
// empty (empty entries in the answer), updates[:N] (N unsolicited updates, from beside the handler), inside (one from inside the handler), fdleak[:N], fork (a child that
// holds the output outlives the process), eat[:MIB] of memory, clock (SIGUSR2 to the parent: ends a supervisor, unless it is built for tests to let its clock jump then).
//
// CHAOS_START in the environment is done before the handshake: hang, exit[:CODE], panic, garbage (on stdout), version (a handshake of an unknown version),
// slow:DURATION.
// CHAOS_START_WHILE names a file without which CHAOS_START is ignored.
package main

import "github.com/nri-supervisor/nri-supervisor/plugins/chaos/chaosplugin"

func main() { chaosplugin.Main() }
