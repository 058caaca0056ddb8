// Package isolation shows with real processes, as root, that a plugin is confined as its manifest says: what a hostile plugin tries is
// denied, and the same attempt succeeds without confinement, so that each test is known to bite.
//
// Its tests have the build tag root, which `make isolation` sets.
package isolation
