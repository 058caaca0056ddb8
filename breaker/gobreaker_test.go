package breaker_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/gobreaker/v2"
)

// TestFactsAboutGobreaker pins what the guard builds on. When one of these fails
// after an update of gobreaker, read circuit.go again.
func TestFactsAboutGobreaker(t *testing.T) {
	t.Parallel()
	bad, excluded := errors.New("bad"), errors.New("excluded")
	settings := gobreaker.Settings{
		MaxRequests: 1,
		Timeout:     time.Nanosecond,
		ReadyToTrip: func(gobreaker.Counts) bool { return true },
		IsExcluded:  func(err error) bool { return errors.Is(err, excluded) },
	}
	type breaker = *gobreaker.TwoStepCircuitBreaker[struct{}]
	// fact runs f with a breaker that has just opened.
	fact := func(name string, f func(t *testing.T, cb breaker)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cb := gobreaker.NewTwoStepCircuitBreaker[struct{}](settings)
				done, err := cb.Allow()
				if err != nil {
					t.Fatal(err)
				}
				done(bad)
				f(t, cb)
			})
		})
	}
	fact("at exactly its timeout it is still open and 1 ns later half-open", func(t *testing.T, cb breaker) {
		t.Helper()
		for range 2 { // the first 1 ns is the timeout
			if _, err := cb.Allow(); !errors.Is(err, gobreaker.ErrOpenState) {
				t.Errorf("allow: %v, want %v", err, gobreaker.ErrOpenState)
			}
			time.Sleep(time.Nanosecond)
		}
		if _, err := cb.Allow(); err != nil {
			t.Errorf("allow: %v, want a place", err)
		}
	})
	fact("its half-open slot never expires and is released by an exclusion", func(t *testing.T, cb breaker) {
		t.Helper()
		time.Sleep(2 * time.Nanosecond)
		done, err := cb.Allow()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(24 * time.Hour)
		if _, err := cb.Allow(); !errors.Is(err, gobreaker.ErrTooManyRequests) {
			t.Errorf("allow: %v, want %v", err, gobreaker.ErrTooManyRequests)
		}
		done(excluded)
		if state := cb.State(); state != gobreaker.StateHalfOpen {
			t.Errorf("state = %v, want half-open", state)
		}
		if _, err := cb.Allow(); err != nil {
			t.Errorf("allow: %v, want a place", err)
		}
	})
	fact("a verdict from before a change of state is ignored", func(t *testing.T, cb breaker) {
		t.Helper()
		time.Sleep(2 * time.Nanosecond)
		probe, err := cb.Allow()
		if err != nil {
			t.Fatal(err)
		}
		probe(nil)
		probe(bad)
		if state := cb.State(); state != gobreaker.StateClosed {
			t.Errorf("state = %v, want closed", state)
		}
	})
}
