package policy

import (
	"reflect"
	"slices"
)

// SameProcess reports whether the process of one version of a plugin can go on as that of the other: whatever a process is started with or confined by is the
// same. A field that is not known to be without effect on the process counts.
func SameProcess(a, b *Plugin) bool { return sameExcept(a, b) }

// SameConfinement reports whether the process of one version of a plugin is confined as that of the other would be, whatever they execute.
func SameConfinement(a, b *Plugin) bool { return sameExcept(a, b, "Index", "Exec", "Attach") }

// sameExcept compares two versions of a plugin without what its process does not notice, and without further fields.
func sameExcept(a, b *Plugin, without ...string) bool {
	return sameBut(*a, *b, append(without, "Name", "Team", "Contact", "Spec", "File", "Line", "LastGood")) &&
		sameBut(a.Spec, b.Spec, append(without,
			"Team", "Parallel", "Config", "ConfigText", "ConfigFrom", "Events", "Delivery", "Selector", "Permissions", "FailurePolicy", "FailurePolicyEvents",
			"IncludeCritical", "Timeouts", "OverdueAfter", "Breaker", "LaneShare", "Quarantine", "Health", "Restart", "UpdateStrategy"))
}

// sameBut compares the exported fields of two structures, without those named.
func sameBut[T any](a, b T, without []string) bool {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		f := x.Type().Field(i)
		if f.IsExported() && !slices.Contains(without, f.Name) && !reflect.DeepEqual(x.Field(i).Interface(), y.Field(i).Interface()) {
			return false
		}
	}
	return true
}
