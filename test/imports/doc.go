// Package imports holds no code, only tests that read the source of the module: which package may import which, and why.
//
// Owns: the reasons behind the import graph of ARCHITECTURE.md, as tables. golangci-lint's depguard refuses the same edges while
// one types; these tests also follow them through our own packages and refuse tables that no longer describe the tree.
//
// Does not own: the style of a single file; that is golangci-lint's.
package imports
