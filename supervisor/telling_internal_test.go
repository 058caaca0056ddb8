package supervisor

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestFewPluginsAreToldTheStateAtOnceAndASlowOneKeepsNobodyForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		told := newTelling()
		var done []func()
		for range toldAtOnce {
			done = append(done, told.begin(nil))
		}
		begin := time.Now()
		done[0]()
		last := told.begin(nil)
		if waited := time.Since(begin); waited != 0 {
			t.Errorf("after one was told the next one waited for %s", waited)
		}
		next := told.begin(nil)
		if waited := time.Since(begin); waited != toldSlowly {
			t.Errorf("behind slow ones the next one waited for %s, want %s", waited, toldSlowly)
		}
		for _, d := range append(done, last, next) {
			d() // once more does no harm
		}
		over := make(chan struct{})
		close(over)
		for range 2 * toldAtOnce { // nobody is left in a place, or this would hang
			told.begin(over)()
		}
	})
}
