package tune

import (
	"context"
	"strconv"
	"strings"
	"testing"
)

func testContext(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.Context())
}

// governors is a source of knobs that are no masks.
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

// counter is a source without knobs that counts how often it is asked.
type counter struct{ n *int }

func (c counter) Kinds() []Kind { return []Kind{IRQ} }

func (c counter) Read(context.Context) ([]Observed, error) {
	*c.n++
	return nil, nil
}

func (c counter) Write(context.Context, Knob, string) error { return nil }
