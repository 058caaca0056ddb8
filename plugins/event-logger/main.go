// Command event-logger is an NRI plugin that logs each event it receives, one line of JSON on stderr, and changes nothing.
// Use it to see what a selector in nri-supervisor picks.
//
// Its configuration is JSON and may be empty:
//
//	{
//	  "events": ["CreateContainer", "StopContainer"], // default: all
//	  "labels": true,                                 // log the pod's labels
//	  "annotations": true                             // log the pod's annotations
//	}
package main

import "github.com/nri-supervisor/nri-supervisor/plugins/event-logger/eventlogger"

func main() { eventlogger.Main() }
