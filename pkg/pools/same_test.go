package pools

import (
	"reflect"
	"slices"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// everything is an input in which each field has something.
func everything() Input {
	one := cpuset.Of(1)
	assignments := []Assignment{{Key: Key{PodUID: "u", Container: "c"}, CPUs: one, Away: one, Sharers: []string{"a"}, Owners: []string{"a"}}}
	return Input{
		Machine: &allocate.Machine{},
		Pools: Pools{
			Partitions: []Partition{{Type: "m", CPUs: one, Namespaces: []string{"a"}}}, Shared: one, Guaranteed: one, Overrides: []string{"x"},
			Mixed: Mixed{CPUs: one, Namespaces: []string{"a"}}, Units: []UnitSpec{{Name: "u"}}, Offline: one, Away: one,
		},
		Pods: []Pod{{
			UID: "u", Annotations: map[string]string{"a": "b"},
			Containers: []Container{{ID: "c", Nodes: one, Foreign: &Foreign{CPUs: one, Runs: one}}},
		}},
		Previous: assignments, Held: []Assignment{assignments[0]}, StaticPods: StaticPods{Namespaces: []string{"a"}}, Resting: one,
		Claims: []Claim{{UID: "c", Parts: []ClaimPart{{CPUs: 1}}, Containers: []string{"a"}}},
	}
}

// TestSameInput changes each field of an input that there is, however deep: one that is
// forgotten, or new, would be a plan that does not follow.
func TestSameInput(t *testing.T) {
	a, b := everything(), everything()
	b.Machine = a.Machine
	if !sameInput(&a, &b) {
		t.Fatal("sameInput of equal inputs = false; want true")
	}
	changed := 0
	fields(reflect.ValueOf(&Input{}).Elem().Type(), nil, func(path []int, name string) {
		a, b := everything(), everything()
		b.Machine = a.Machine
		v := reflect.ValueOf(&b).Elem()
		for _, i := range path {
			v = into(v).Field(i)
		}
		if !change(v) {
			t.Errorf("%s: the test cannot change a %s", name, v.Type())
			return
		}
		changed++
		if sameInput(&a, &b) {
			t.Errorf("sameInput with another %s = true; want false", name)
		}
	})
	if changed < 40 {
		t.Errorf("changed fields = %d; want at least 40", changed)
	}
}

// into is the struct that a value is, points to, or has as its first element.
func into(v reflect.Value) reflect.Value {
	switch v.Kind() {
	case reflect.Pointer:
		return into(v.Elem())
	case reflect.Slice:
		return into(v.Index(0))
	}
	return v
}

// fields calls visit for each field that is compared as a whole.
func fields(typ reflect.Type, path []int, visit func(path []int, name string)) {
	for i := range typ.NumField() {
		f := typ.Field(i)
		at := append(slices.Clip(path), i)
		inner := f.Type
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		switch {
		case f.Name == "Namespaces" && typ == reflect.TypeFor[Input](): // see sameInput
		case inner.Kind() == reflect.Struct && inner != reflect.TypeFor[cpuset.Set]() && inner != reflect.TypeFor[allocate.Machine]():
			if f.Type.Kind() == reflect.Slice {
				visit(at, typ.Name()+"."+f.Name)
			}
			fields(inner, at, visit)
		default:
			visit(at, typ.Name()+"."+f.Name)
		}
	}
}

func change(v reflect.Value) bool {
	switch {
	case v.Type() == reflect.TypeFor[cpuset.Set]():
		v.Set(reflect.ValueOf(cpuset.Of(2)))
	case v.Type() == reflect.TypeFor[*allocate.Machine]():
		v.Set(reflect.ValueOf(&allocate.Machine{}))
	case v.Kind() == reflect.String:
		v.SetString(v.String() + "x")
	case v.Kind() == reflect.Bool:
		v.SetBool(!v.Bool())
	case v.CanInt():
		v.SetInt(v.Int() + 1)
	case v.CanUint():
		v.SetUint(v.Uint() + 1)
	case v.Kind() == reflect.Slice:
		v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
	case v.Kind() == reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"a": "c"}))
	default:
		return false
	}
	return true
}
