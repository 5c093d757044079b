package tune

import (
	"context"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func testContext(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.Context())
}

// offlineKnob is a source with one knob that is not a mask. The knob may be asleep, or refuse
// a number of writes.
type offlineKnob struct {
	value    string
	asleep   bool
	refusals int
}

func (s *offlineKnob) Kinds() []Kind { return []Kind{"governor"} }

func (s *offlineKnob) Read(context.Context) ([]Observed, error) {
	if s.asleep {
		return []Observed{{Knob: Knob{"governor", "0"}, Asleep: true}}, nil
	}
	return []Observed{{Knob: Knob{"governor", "0"}, ID: "driver", Value: s.value}}, nil
}

func (s *offlineKnob) Write(_ context.Context, _ Knob, value string) error {
	if s.asleep || s.refusals > 0 {
		s.refusals--
		return syscall.EBUSY
	}
	s.value = value
	return nil
}

// governors is a source of knobs that are not masks.
type governors []string

func (g *governors) values() string { return strings.Join(*g, " ") }

func (g *governors) Kinds() []Kind { return []Kind{"governor"} }

func (g *governors) Read(context.Context) (all []Observed, err error) {
	for i, v := range *g {
		all = append(all, Observed{Knob: Knob{"governor", strconv.Itoa(i)}, Value: v})
	}
	return all, nil
}

func (g *governors) Write(_ context.Context, k Knob, value string) error {
	i, err := strconv.Atoi(k.Name)
	if err == nil {
		(*g)[i] = value
	}
	return err
}

// counter is a source without knobs that counts its reads.
type counter struct{ n *int }

func (c counter) Kinds() []Kind { return []Kind{IRQ} }

func (c counter) Read(context.Context) ([]Observed, error) {
	*c.n++
	return nil, nil
}

func (c counter) Write(context.Context, Knob, string) error { return nil }
