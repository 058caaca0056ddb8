// Package breaker is the guard of one plugin: it decides whether a call may go
// to the plugin, and learns from how the call ended.
package breaker
