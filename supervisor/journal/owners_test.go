package journal_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nri-supervisor/nri-supervisor/supervisor/journal"
)

func TestTheOwnerOfAFieldIsWhoChangedItLast(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC)
	set := func(plugin, container string, after time.Duration, a journal.Action, fields ...journal.Field) journal.Decision {
		return journal.Decision{Time: at.Add(after), Event: "E", Plugin: plugin, Action: a, Object: journal.Object{ContainerID: container}, Changed: fields}
	}
	env := func(key string) journal.Field { return journal.Field{Field: "Env", Key: key} }
	ds := []journal.Decision{
		set("a", "c", 0, journal.ActionAllowed, env("A"), env("B"), journal.Field{Field: "Mounts", Key: "/x", Removed: true}, journal.Field{Field: "Mounts", Key: "/x"}),
		set("b", "c", 1, journal.ActionAllowed, journal.Field{Field: "Env", Key: "B", Removed: true}),
		set("x", "c", 2, journal.ActionDiscarded, env("A")),
		set("d", "other", 3, journal.ActionAllowed, env("A"), journal.Field{Field: "CPUShares", Container: "c"}),
		set("e", "c", 4, journal.ActionAllowed, journal.Field{Field: "CPUShares", Container: "other"}),
	}
	got := journal.Owners(ds, "c")
	var lines []string
	for _, o := range got {
		lines = append(lines, o.String()+" "+o.Plugin)
	}
	if diff := cmp.Diff([]string{"CPUShares d", "Env[A] a", "-Env[B] b", "Mounts[/x] a"}, lines); diff != "" {
		t.Error(diff)
	}
	if !ds[3].About("", "c") || ds[4].About("", "nobody") {
		t.Error("a change of another container is about that one, too")
	}
}
