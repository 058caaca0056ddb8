package policy

import (
	"reflect"
	"slices"
)

// SameProcess reports whether the process of one version of a plugin can go on as that of the other: whatever a process is started with or confined by is the
// same. A field that is not known to be without effect on the process counts.
func SameProcess(a, b *Plugin) bool {
	return sameBut(*a, *b, "Name", "Team", "Contact", "Spec", "File", "Line", "LastGood") &&
		sameBut(a.Spec, b.Spec,
			"Team", "Parallel", "Config", "ConfigText", "ConfigFrom", "Events", "Delivery", "Selector", "Permissions", "FailurePolicy", "FailurePolicyEvents",
			"IncludeCritical", "Timeouts", "OverdueAfter", "Breaker", "LaneShare", "Quarantine", "Health", "Restart", "UpdateStrategy")
}

// sameBut compares the exported fields of two structures, without those named.
func sameBut[T any](a, b T, without ...string) bool {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		f := x.Type().Field(i)
		if f.IsExported() && !slices.Contains(without, f.Name) && !reflect.DeepEqual(x.Field(i).Interface(), y.Field(i).Interface()) {
			return false
		}
	}
	return true
}
