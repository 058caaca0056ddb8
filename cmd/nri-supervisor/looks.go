package main

import (
	"github.com/nri-supervisor/nri-supervisor/filelook"
	"github.com/nri-supervisor/nri-supervisor/isolation"
)

// newLooks are looks of which one that may never end is first made by a process of its own.
func newLooks() *filelook.Looks {
	return &filelook.Looks{First: func(place string) { isolation.Look([]string{helperCommand}, place) }}
}
