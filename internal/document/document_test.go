package document_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/document"
)

type inner struct {
	Names []string       `json:"names"`
	Left  []string       `json:"left,omitempty"`
	Zero  []string       `json:"zero,omitzero"`
	Count map[string]int `json:"count"`
}

type outer struct {
	inner
	Inner

	Time  time.Time        `json:"time"`
	At    *inner           `json:"at"`
	None  *inner           `json:"none,omitempty"`
	All   []inner          `json:"all"`
	Lists [][]int          `json:"lists"`
	By    map[string]inner `json:"by"`
	Any   any              `json:"any"`
	Raw   []byte           `json:"raw,omitempty"`
	own   []string
}

// Inner is embedded.
type Inner struct {
	Items []int `json:"items"`
}

func TestWriteLine(t *testing.T) {
	const empty = `{"names":[],"count":{}}`
	v := outer{At: &inner{}, All: []inner{{}}, Lists: [][]int{nil}, By: map[string]inner{"a<b": {}}, Any: inner{}}
	var got strings.Builder
	if err := document.WriteLine(&got, &v); err != nil {
		t.Fatal(err)
	}
	want := `{"names":[],"count":{},"items":[],"time":"0001-01-01T00:00:00Z","at":` + empty + `,"all":[` + empty + `],"lists":[[]],"by":{"a<b":` + empty + `},"any":` + empty + "}\n"
	if got.String() != want {
		t.Errorf("document\n%s\nwant\n%s", got.String(), want)
	}
	if v.All[0].Names != nil || v.At.Names != nil || v.own != nil {
		t.Error("Write changed its argument")
	}
	got.Reset()
	if err := document.Write(&got, []inner(nil)); err != nil || got.String() != "[]\n" {
		t.Errorf("an empty list: %q, %v; want %q", got.String(), err, "[]\n")
	}
}
