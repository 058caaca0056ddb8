package policy

// compiled is what a manifest compiles to.
type compiled struct {
	events     subscription
	configData string
}
