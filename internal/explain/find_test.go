package explain

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/inspect"
)

// testContainers returns two pods with the same name, a pod whose namespace is the name of
// another pod, and a unit.
func testContainers() []inspect.Container {
	return []inspect.Container{
		{Namespace: "ran", Pod: "du-0", PodUID: "u1", Name: "du", ID: "aaaaaaaa11111111"},
		{Namespace: "ran", Pod: "du-0", PodUID: "u1", Name: "log", ID: "aaaaaaaa22222222"},
		{Namespace: "test", Pod: "du-0", PodUID: "u2", Name: "du", ID: "bbbbbbbb11111111"},
		{Namespace: "du-0", Pod: "log", PodUID: "u3", Name: "app", ID: "cccccccc11111111"},
		{Namespace: "test", Pod: "one", PodUID: "u4", Name: "app", ID: "dddddddd11111111"},
		{Namespace: "test", Pod: "one", PodUID: "u4", Name: "app", ID: "dddddddd22222222"}, // an older instance
		{Unit: true, Name: "gnss.service"},
	}
}

func TestFind(t *testing.T) {
	for name, want := range map[string][]int{
		"ran/du-0": {0, 1}, "u1": {0, 1}, "ran/du-0/du": {0}, "u1/log": {1}, "test/du-0": {2}, "log": {3}, "u3/app": {3},
		"one": {4, 5}, "one/app": {4, 5}, "gnss.service": {6}, "aaaaaaaa1": {0}, "dddddddd22222222": {5},
	} {
		if got, err := Find(testContainers(), name); err != nil || !slices.Equal(got, want) {
			t.Errorf("Find(%q) = %v, %v; want %v", name, got, err, want)
		}
	}
	for name, want := range map[string][]string{
		"du-0":         {"names several", "ran/du-0 (UID u1)", "test/du-0 (UID u2)"},
		"du-0/du":      {"names several", "ran/du-0/du (UID u1)", "test/du-0/du (UID u2)"},
		"du-0/log":     {"names several", "ran/du-0/log (UID u1)", "du-0/log (UID u3)"}, // a container of one pod, and another pod
		"aaaaaaaa":     {"names several", "ran/du-0/du", "ran/du-0/log"},
		"aaaaaaa":      {"names no pod"},
		"ran/du":       {"names no pod", "similar names are du-0/log, ran/du-0, test/du-0; cpupoold status lists 2 more"},
		"ran/du-1":     {"names no pod", "similar names are ran/du-0, test/du-0;"},
		"gnns":         {"names no pod", "there are du-0/log, gnss.service, ran/du-0, test/du-0, test/one; cpupoold status lists all"},
		"gnns.service": {"similar names are gnss.service; cpupoold status lists 4 more"},
		"ran/du-0/dux": {"names no pod", "the containers of ran/du-0 are du, log"},
		"du-0/web":     {"names no pod", "the containers of du-0 are du, log"},
		"":             {"names no pod"},
		"/":            {"names no pod"},
	} {
		_, err := Find(testContainers(), name)
		if _, is := errors.AsType[*inspect.NameError](err); !is {
			t.Errorf("Find(%q): %v; want a NameError", name, err)
			continue
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("Find(%q): %v; want %q in it", name, err, w)
			}
		}
	}
	var many []inspect.Container
	for i := range 30 {
		many = append(many, inspect.Container{Namespace: "web", Pod: fmt.Sprintf("shop-%02d", 29-i), PodUID: fmt.Sprint(i), Name: "app"})
	}
	for name, want := range map[string]string{
		"shop": "similar names are web/shop-00, web/shop-01, web/shop-02, web/shop-03, web/shop-04, web/shop-05, web/shop-06, web/shop-07; cpupoold status lists 22 more",
		"x":    "there are web/shop-00, web/shop-01, web/shop-02, web/shop-03, web/shop-04, web/shop-05, web/shop-06, web/shop-07 and 22 more; cpupoold status lists all",
	} {
		if _, err := Find(many, name); err == nil || !strings.HasSuffix(err.Error(), "places; "+want) {
			t.Errorf("Find(%q): %v; want %q", name, err, want)
		}
	}
	if _, err := Find(nil, "x"); err == nil || !strings.Contains(err.Error(), "this node has no pods and no units") {
		t.Errorf("Find in nothing: %v", err)
	}
}

// FuzzFind checks that the found containers belong to one pod or unit. It also checks that the
// name with the UID finds its container.
func FuzzFind(f *testing.F) {
	for _, s := range []string{"ran/du-0", "u1/log", "/", "du-0/du/", "//", "aaaaaaaa1", "gnss.service"} {
		f.Add(s, "ns", "pod", "ctr")
	}
	f.Add("a/b/c", "a", "b", "c")
	f.Add("a/b", "a", "a/b", "b")
	f.Fuzz(func(t *testing.T, name, namespace, pod, container string) {
		all := append(testContainers(), inspect.Container{Namespace: namespace, Pod: pod, PodUID: "new", Name: container, ID: "new"})
		found, err := Find(all, name)
		if (err == nil) == (len(found) == 0) {
			t.Fatalf("Find(%q) = %v, %v", name, found, err)
		}
		for _, i := range found {
			if all[i].PodUID != all[found[0]].PodUID || all[i].Unit != all[found[0]].Unit {
				t.Fatalf("Find(%q) = %v of several pods or units", name, found)
			}
		}
		if strings.Contains(container, "/") || container == "" {
			return
		}
		if found, err := Find(all, "new/"+container); err != nil || !slices.Equal(found, []int{len(all) - 1}) {
			t.Fatalf("Find by UID and container %q = %v, %v; want it", container, found, err)
		}
	})
}
