package journal

// Filter picks decisions. What is empty picks everything.
type Filter struct {
	// Kind is the kind.
	Kind Kind
	// Plugin, Team and Event are names.
	Plugin, Team, Event string
	// Namespace, Pod and Container are names; Container also picks by id.
	Namespace, Pod, Container string
	// Outcome is an outcome or a reason.
	Outcome string
	// Action is the action.
	Action Action
	// Notable picks only what an audit keeps.
	Notable bool
	// After picks only decisions with a greater Seq.
	After uint64
	// Last keeps only so many of the latest; 0 keeps all. Subscriptions begin with so many of the past, 0 with none.
	Last int
}

// Match reports whether the filter picks the decision. Manual actions have no object: a filter by namespace, pod or container does not pick them.
func (f *Filter) Match(d *Decision) bool {
	same := func(want, got string) bool { return want == "" || want == got }
	return same(string(f.Kind), string(d.Kind)) && same(f.Plugin, d.Plugin) && same(f.Team, d.Team) && same(f.Event, d.Event) &&
		same(f.Namespace, d.Namespace) && same(f.Pod, d.Pod) && (same(f.Container, d.Container) || f.Container == d.ContainerID) &&
		(same(f.Outcome, d.Outcome) || f.Outcome == d.Reason) && same(string(f.Action), string(d.Action)) && (!f.Notable || d.Notable()) && d.Seq > f.After
}
