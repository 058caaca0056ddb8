// Package doctor looks at a node and says what keeps nri-supervisor, or the work of its plugins, from being in every container, and how to mend it.
//
// It owns the checks. It reads files below one root and what it is told of the running supervisor, and changes nothing: it takes no lock, connects to no socket of a runtime
// (whoever connects there and is silent keeps the node's registrations waiting) and starts no process. It does not own how the running supervisor is asked, nor how findings are printed.
//
// Order: the findings of [Diagnose] are in the order of [Checks], and within a check in the order in which it met them. The same input gives the same report. Everything here may be used concurrently,
// if the files may.
//
// Failure model: what cannot be read is no failure. A check that cannot know says [Unknown] and what it would need. A configuration that cannot be read is a finding, and the
// other checks use the defaults in its place.
package doctor
