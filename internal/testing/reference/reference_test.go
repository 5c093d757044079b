package reference_test

import (
	"errors"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/cpupoold/cpupoold/internal/testing/reference"
)

type file struct {
	Name   string
	Period int
	Rows   []struct{ Width, Height int }
}

// parse has 30 as the default of period, and wants each row to have a width.
func parse(text string) (any, error) {
	f := file{Period: 30}
	if err := yaml.Unmarshal([]byte(text), &f); err != nil {
		return nil, err
	}
	for _, r := range f.Rows {
		if r.Width == 0 {
			return nil, errors.New("width is missing")
		}
	}
	return f, nil
}

func entries() []reference.Entry {
	return []reference.Entry{
		{Key: "name", Value: "text", Default: "(none)", Text: "Name.", Example: "name: a"},
		{Key: "period", Value: "seconds", Default: "30", Text: "Longest time.", Example: "period: 1"},
		{Key: "rows[].width", Value: "metres", Text: "Width.", Example: "rows: [{width: 1}]"},
		{Key: "rows[].height", Value: "metres", Default: "0", Text: "Height.", Example: "rows: [{width: 1, height: 2}]"},
	}
}

func TestCheck(t *testing.T) {
	keys := []string{"name", "period", "rows[].width", "rows[].height"}
	for _, c := range []struct {
		name   string
		change func(all []reference.Entry) []reference.Entry
		want   string
	}{
		{"right", func(all []reference.Entry) []reference.Entry { return all }, ""},
		{"no entry", func(all []reference.Entry) []reference.Entry { return all[1:] }, "name: has no entry"},
		{"twice", func(all []reference.Entry) []reference.Entry { return append(all, all[0]) }, "name: occurs twice"},
		{"unknown", func(all []reference.Entry) []reference.Entry { all[0].Key = "nam"; return all }, "nam: is no key of the program's"},
		{"no meaning", func(all []reference.Entry) []reference.Entry { all[0].Text = ""; return all }, `name: has the meaning ""`},
		{"no unit", func(all []reference.Entry) []reference.Entry { all[1].Value = ""; return all }, `the value ""`},
		{"no example", func(all []reference.Entry) []reference.Entry { all[1].Example = ""; return all }, `the example ""`},
		{"another example", func(all []reference.Entry) []reference.Entry { all[1].Example = "name: a"; return all }, "the example has no period"},
		{"bad example", func(all []reference.Entry) []reference.Entry { all[1].Example = "period: soon"; return all }, "period: example: "},
		{"idle example", func(all []reference.Entry) []reference.Entry { all[1].Example = "period: 30"; return all }, "its example is its default"},
		{"wrong default", func(all []reference.Entry) []reference.Entry { all[1].Default = "60"; return all }, "the default is not 60"},
		{"bad default", func(all []reference.Entry) []reference.Entry { all[1].Default = "never"; return all }, "period: default: "},
		{"required", func(all []reference.Entry) []reference.Entry { all[2].Default = "0"; return all }, "rows[].width: example without it: width is missing"},
		{"not required", func(all []reference.Entry) []reference.Entry { all[3].Default = ""; return all }, "rows[].height: must not be left out"},
	} {
		page := reference.Page{Parse: parse, Entries: c.change(entries())}
		var all []string
		for _, problem := range page.Check(keys) {
			all = append(all, problem.Error())
		}
		got := strings.Join(all, "\n")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: problems %q; want %q", c.name, got, c.want)
		}
	}
}
