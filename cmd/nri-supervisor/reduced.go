package main

import (
	"context"
	"time"

	"github.com/nri-supervisor/nri-supervisor/supervisor"
	"github.com/nri-supervisor/nri-supervisor/supervisor/admin"
)

// reducedWait bounds, for a person who waits, how long the running service is asked.
const reducedWait = time.Second

// tellReduced adds to what plugins may do what their processes that run have less than that, if the service runs and says so.
func tellReduced(ctx context.Context, socket string, list []pluginSecurity) {
	c, err := admin.Dial(socket)
	if err != nil {
		return // check names a wrong socket
	}
	ctx, cancel := context.WithTimeout(ctx, reducedWait)
	defer cancel()
	st, err := c.Status(ctx)
	if err != nil {
		return // it does not run, or not for this user
	}
	addReduced(st.Plugins, list)
}

func addReduced(running []supervisor.PluginStatus, list []pluginSecurity) {
	for _, p := range running {
		for i := range list {
			if s := &list[i]; p.Name == s.Plugin && p.Team == s.Team && p.Identity != nil && p.Identity.Reduced != "" {
				s.Freedoms = append(s.Freedoms, freedom{
					"profile", "all that this host could not apply for the process that runs: " + p.Identity.Reduced, exposed, "write sandbox.profile: the plugin then starts with all of it, or not",
				})
			}
		}
	}
}
