package main

import "testing"

func TestWhatOthersUsedIsWhatIsBusyAndNotOurs(t *testing.T) {
	t.Parallel()
	before := used{total: 1000, busy: 400, own: 100}
	for _, c := range []struct {
		name string
		now  used
		want float64
	}{
		{"nobody else", used{total: 1200, busy: 500, own: 200}, 0},
		{"half of the machine", used{total: 1200, busy: 600, own: 200}, 0.5},
		{"less than ours, by the kernel's rounding", used{total: 1200, busy: 500, own: 202}, 0},
		{"no time has passed", before, 0},
	} {
		if got := c.now.others(before); got != c.want {
			t.Errorf("%s: others used %v, want %v", c.name, got, c.want)
		}
	}
}

func TestABarThatIsBehindOnABusyMachineIsNotJudged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		others float64
		want   bool
	}{{0, false}, {mostOthers, false}, {mostOthers + 0.01, true}} {
		if got := (outcome{Behind: true, Others: c.others}).busy(); got != c.want {
			t.Errorf("others used %v of the machine: busy is %t, want %t", c.others, got, c.want)
		}
	}
}

func TestThisProcessIsAmongThoseThatUseTheMachine(t *testing.T) {
	t.Parallel()
	before := usedProcessors()
	for i := 0; usedProcessors().own <= before.own; i++ { // a tick is 10 ms
		if i > 1_000_000 {
			t.Fatal("what this process uses does not count as its own")
		}
	}
}
