// Command probe is an NRI plugin for tests: what it answers is in its configuration and in annotations of the pods, so that a test says in one place what a plugin does.
//
// Its configuration is JSON, see probeplugin.config. A pod asks for more by annotations, each about one event:
//
//	probe/update.EVENT: id,id         the reply to CreateContainer, UpdateContainer or StopContainer updates these containers
//	probe/inside.EVENT: id,id         the handler itself asks the runtime to update these containers, and waits for the answer
//	probe/outside.EVENT: id,id        the same, after the handler has returned
//	probe/flood.EVENT: N              after the handler has returned, N requests to update the container of the event, one after the other
//	probe/refuse: REASON              ValidateContainerAdjustment refuses
//	probe/spawn.EVENT: yes            starts a child that outlives its parent unless somebody kills it
//
// Started by hand, it dials the socket in the variable PROBE_SOCKET instead of the runtime's.
//
// What happens is appended to the file "record", one JSON object a line.
package main

import "github.com/nri-supervisor/nri-supervisor/test/harness/probe/probeplugin"

func main() { probeplugin.Main() }
