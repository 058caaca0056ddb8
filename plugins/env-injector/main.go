// Command env-injector is an NRI plugin that sets environment variables on containers: on those that its selector in
// nri-supervisor picks, or on all of them under a plain runtime. The typical use is a device team that gives its own pods
// what their libraries need.
//
// Its configuration is JSON:
//
//	{
//	  "env": {"NVIDIA_VISIBLE_DEVICES": "all"},       // set on each container; at least one of env and annotations
//	  "annotations": {"example.com/injected": "yes"}, // added to each container
//	  "keepExisting": true                            // do not replace a variable that the container already has
//	}
//
// Permissions that it needs: Env, and Annotations if it adds some.
package main

import "github.com/nri-supervisor/nri-supervisor/plugins/env-injector/envinjector"

func main() { envinjector.Main() }
