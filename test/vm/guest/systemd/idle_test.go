//go:build guest

package systemd_test

import (
	"testing"
	"time"
)

// TestIdleUnits checks that a read of a unit does not cause an event for the same
// reader. systemd loads a unit that is stopped, or that does not exist, to answer, and
// unloads it afterwards.
func TestIdleUnits(t *testing.T) {
	s, _ := newSystemd(t)
	const stopped, nobody = "conformance-idle.service", "conformance-nobody.service"
	manager{}.Install(t, stopped, "")
	wakes, ended := make(chan string, 1<<16), make(chan error, 1)
	go func() {
		ended <- s.WatchUnits(t.Context(), []string{stopped, nobody}, func(unit string) { wakes <- unit })
	}()
	reads, over := 0, time.After(10*time.Second)
	read := func(names ...string) {
		for _, name := range names {
			if _, err := s.Unit(t.Context(), name); err != nil {
				t.Fatal(err)
			}
			reads++
		}
	}
	for {
		select {
		case unit := <-wakes:
			if unit == "" {
				read(stopped, nobody)
			} else {
				read(unit)
			}
			continue
		case err := <-ended:
			t.Fatal(err)
		case <-over:
		}
		break
	}
	t.Logf("%d reads and %d more due after 10 s", reads, len(wakes))
	if reads > 2 || len(wakes) > 0 {
		t.Errorf("%d reads and %d more due; want one of each unit", reads, len(wakes))
	}
}
