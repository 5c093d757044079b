package cpuset_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// parse is for sets that the test itself spells.
func parse(t testing.TB, s string) cpuset.Set {
	t.Helper()
	set, err := cpuset.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestQueries(t *testing.T) {
	tests := []struct {
		set             string
		len, first, lst int
		in, out         []int
	}{
		{set: "", len: 0, first: -1, lst: -1, out: []int{-1, 0, 63, 64, cpuset.MaxCPUs, 1 << 40}},
		{set: "0", len: 1, first: 0, lst: 0, in: []int{0}, out: []int{1, 64}},
		{set: "5,63-64,127", len: 4, first: 5, lst: 127, in: []int{5, 63, 64, 127}, out: []int{4, 62, 65, 126, 128, 191}},
		{set: "8191", len: 1, first: 8191, lst: 8191, in: []int{8191}, out: []int{-8191, 8190, 8192}},
	}
	for _, tt := range tests {
		t.Run(tt.set, func(t *testing.T) {
			s := parse(t, tt.set)
			if got := s.Len(); got != tt.len {
				t.Errorf("Len() = %d; want %d", got, tt.len)
			}
			if got := s.IsEmpty(); got != (tt.len == 0) {
				t.Errorf("IsEmpty() = %t; want %t", got, (tt.len == 0))
			}
			if first, last := s.First(), s.Last(); first != tt.first || last != tt.lst {
				t.Errorf("First(), Last() = %d, %d; want %d, %d", first, last, tt.first, tt.lst)
			}
			for _, cpu := range tt.in {
				if !s.Contains(cpu) {
					t.Errorf("Contains(%d) = false", cpu)
				}
			}
			for _, cpu := range tt.out {
				if s.Contains(cpu) {
					t.Errorf("Contains(%d) = true", cpu)
				}
			}
		})
	}
}

func TestAlgebra(t *testing.T) {
	tests := []struct {
		a, b, union, intersection, difference string
		subset, overlaps                      bool
	}{
		{subset: true},
		{b: "3", union: "3", subset: true},
		{a: "3", union: "3", difference: "3"},
		{a: "0-127", b: "64-200", union: "0-200", intersection: "64-127", difference: "0-63", overlaps: true},
		{a: "1,3", b: "0,2", union: "0-3", difference: "1,3"},
		{a: "0-3", b: "2", union: "0-3", intersection: "2", difference: "0-1,3", overlaps: true},
		{a: "2", b: "0-3", union: "0-3", intersection: "2", subset: true, overlaps: true},
		{a: "5,500", b: "500", union: "5,500", intersection: "500", difference: "5", overlaps: true},
		{a: "5", b: "5,500", union: "5,500", intersection: "5", subset: true, overlaps: true},
		{a: "7,8191", b: "7,8191", union: "7,8191", intersection: "7,8191", subset: true, overlaps: true},
	}
	for _, tt := range tests {
		t.Run(tt.a+" and "+tt.b, func(t *testing.T) {
			a, b := parse(t, tt.a), parse(t, tt.b)
			for name, pair := range map[string][2]cpuset.Set{
				"Union":        {parse(t, tt.union), a.Union(b)},
				"Intersection": {parse(t, tt.intersection), a.Intersection(b)},
				"Difference":   {parse(t, tt.difference), a.Difference(b)},
				"a afterwards": {parse(t, tt.a), a},
				"b afterwards": {parse(t, tt.b), b},
			} {
				// DeepEqual too: equal sets promise equal representations.
				if !pair[0].Equal(pair[1]) || !reflect.DeepEqual(pair[0], pair[1]) {
					t.Errorf("%s = %q; want %q", name, pair[1], pair[0])
				}
			}
			if got := a.IsSubsetOf(b); got != tt.subset {
				t.Errorf("IsSubsetOf = %t; want %t", got, tt.subset)
			}
			if got, back := a.Overlaps(b), b.Overlaps(a); got != tt.overlaps || back != tt.overlaps {
				t.Errorf("Overlaps = %t and %t; want %t", got, back, tt.overlaps)
			}
		})
	}
}

func TestVariadicAlgebra(t *testing.T) {
	s := parse(t, "0-9")
	if diff := cmp.Diff(s, s.Union()); diff != "" {
		t.Errorf("Union() of nothing (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(s, s.Intersection()); diff != "" {
		t.Errorf("Intersection() of nothing (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(parse(t, "0-9,70,300"), s.Union(parse(t, "300"), cpuset.Set{}, parse(t, "70"))); diff != "" {
		t.Errorf("Union (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(parse(t, "4"), s.Intersection(parse(t, "4-20"), parse(t, "0-4,600"))); diff != "" {
		t.Errorf("Intersection (-want +got):\n%s", diff)
	}
}

func TestTake(t *testing.T) {
	tests := []struct {
		set  string
		n    int
		want string
	}{
		{set: "0-9", n: -1},
		{set: "0-9", n: 0},
		{set: "0-9", n: 1, want: "0"},
		{set: "3,60-70,8000", n: 5, want: "3,60-63"},
		{set: "3,60-70,8000", n: 6, want: "3,60-64"},
		{set: "3,60-70,8000", n: 12, want: "3,60-70"},
		{set: "3,60-70,8000", n: 13, want: "3,60-70,8000"},
		{set: "3,60-70,8000", n: 99, want: "3,60-70,8000"},
		{set: "", n: 3},
	}
	for _, tt := range tests {
		got := parse(t, tt.set).Take(tt.n)
		if want := parse(t, tt.want); !reflect.DeepEqual(got, want) {
			t.Errorf("Take(%q, %d) = %q; want %q", tt.set, tt.n, got, want)
		}
	}
}

func TestConstructors(t *testing.T) {
	if got := cpuset.Of(); !reflect.DeepEqual(got, cpuset.Set{}) {
		t.Errorf("Of() = %q; want the zero value", got)
	}
	if got, want := cpuset.Of(64, 3, 64, 0), "0,3,64"; got.String() != want {
		t.Errorf("Of(64, 3, 64, 0) = %q; want %q", got, want)
	}
	for _, r := range [][2]int{{0, 0}, {63, 64}, {5, 62}, {0, cpuset.MaxCPUs - 1}, {100, 400}} {
		got := slices.Collect(cpuset.Range(r[0], r[1]).All())
		var want []int
		for cpu := r[0]; cpu <= r[1]; cpu++ {
			want = append(want, cpu)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Range(%d, %d) (-want +got):\n%s", r[0], r[1], diff)
		}
	}
}

func TestFromWords(t *testing.T) {
	for want, words := range map[string][]uint64{
		"":          nil,
		"0":         {1, 0},
		"1,63-65":   {1<<63 | 2, 3, 0, 0},
		"8191":      append(make([]uint64, cpuset.MaxCPUs/64-1), 1<<63),
		"64":        append([]uint64{0, 1}, make([]uint64, cpuset.MaxCPUs/64)...),
		"0-63,8000": func() []uint64 { w := make([]uint64, cpuset.MaxCPUs/64); w[0], w[125] = ^uint64(0), 1; return w }(),
	} {
		got := cpuset.FromWords(words)
		clear(words)
		if !got.Equal(parse(t, want)) {
			t.Errorf("%s; want %s", got, want)
		}
	}
}

func TestConstructorsPanic(t *testing.T) {
	for name, f := range map[string]func(){
		"Of negative":     func() { cpuset.Of(-1) },
		"Of too large":    func() { cpuset.Of(0, cpuset.MaxCPUs) },
		"Range reversed":  func() { cpuset.Range(3, 2) },
		"Range negative":  func() { cpuset.Range(-1, 2) },
		"Range too large": func() { cpuset.Range(0, cpuset.MaxCPUs) },
		"words too large": func() { cpuset.FromWords(append(make([]uint64, cpuset.MaxCPUs/64), 1)) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}

func TestAllStopsEarly(t *testing.T) {
	var got []int
	for cpu := range parse(t, "1,5,64-70").All() {
		if got = append(got, cpu); cpu == 64 {
			break
		}
	}
	if diff := cmp.Diff([]int{1, 5, 64}, got); diff != "" {
		t.Errorf("All (-want +got):\n%s", diff)
	}
}

func TestText(t *testing.T) {
	type doc struct {
		Pool cpuset.Set            `json:"pool"`
		By   map[string]cpuset.Set `json:"by"`
	}
	in := doc{Pool: cpuset.Of(0, 1, 2, 9), By: map[string]cpuset.Set{"a": {}}}
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"pool":"0-2,9","by":{"a":""}}`; string(text) != want {
		t.Errorf("Marshal = %s; want %s", text, want)
	}
	var out doc
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(in, out); diff != "" {
		t.Errorf("round trip (-want +got):\n%s", diff)
	}
	if err := json.Unmarshal([]byte(`{"pool":"3-1"}`), &out); err == nil {
		t.Error("Unmarshal of a reversed range: no error")
	}
	if diff := cmp.Diff(in, out); diff != "" {
		t.Errorf("changed by a bad text (-want +got):\n%s", diff)
	}
}

// TestAllocations holds the operations of the planner's inner loops to one
// allocation each.
func TestAllocations(t *testing.T) {
	a, b := cpuset.Range(0, 1023), cpuset.Range(512, 1535)
	var sink cpuset.Set
	for _, op := range []struct {
		name string
		max  float64
		f    func()
	}{
		{"Union", 1, func() { sink = a.Union(b) }},
		{"Intersection", 1, func() { sink = a.Intersection(b) }},
		{"Difference", 1, func() { sink = a.Difference(b) }},
		{"Take", 1, func() { sink = a.Take(700) }},
		{"Overlaps", 0, func() { _ = a.Overlaps(b) }},
		{"IsSubsetOf", 0, func() { _ = a.IsSubsetOf(b) }},
		{"All", 0, func() {
			for cpu := range a.All() {
				if cpu < 0 {
					t.Error("negative CPU")
				}
			}
		}},
	} {
		if got := testing.AllocsPerRun(100, op.f); got > op.max {
			t.Errorf("%s allocates %v times; want at most %v", op.name, got, op.max)
		}
	}
	_ = sink
}

func BenchmarkAlgebra(b *testing.B) {
	x, y := cpuset.Range(0, 1023), cpuset.Range(512, 1535)
	for name, op := range map[string]func() cpuset.Set{
		"Union":        func() cpuset.Set { return x.Union(y) },
		"Intersection": func() cpuset.Set { return x.Intersection(y) },
		"Difference":   func() cpuset.Set { return x.Difference(y) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if op().IsEmpty() {
					b.Fatal("empty")
				}
			}
		})
	}
}

func ExampleSet() {
	reserved := cpuset.Range(0, 3)
	machine, err := cpuset.Parse("0-15")
	if err != nil {
		panic(err)
	}
	shared := machine.Difference(reserved)
	fmt.Println(shared, shared.Len(), shared.Take(2))
	// Output: 4-15 12 4-5
}
