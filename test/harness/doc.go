// Package harness is what the black-box tests share: a simulated runtime that is NRI's real adaptation, the supervisor's real binary as a process, and typical pods.
//
// It owns the state that a runtime would have (pods, containers) and the folders of a test. It imports no package of the supervisor: what it knows is what a user knows.
package harness
