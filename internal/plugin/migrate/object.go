package migrate

import (
	"fmt"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"
)

// object is a document of a kind that a configuration takes once, or in a few parts that
// belong together.
type object struct {
	file string // and the place in it
	name string // metadata.name; CPU-Pooler: the key in the ConfigMap
	keys string // where the keys are in the object
	// about describes the object in messages; it starts with a blank.
	about string
	doc   *yaml.Node
}

func newObject(file string, doc *yaml.Node) object {
	name, _ := text(doc, "metadata", "name")
	return object{file: file, name: name, doc: doc}
}

// String names it for people.
func (o object) String() string {
	if o.name == "" || strings.HasSuffix(o.file, ": "+o.name) {
		return o.file + o.about
	}
	return shorten(o.name) + " in " + o.file + o.about
}

// inside returns the name of the object's file, without the names of outer files and
// without the object's number.
func (o object) inside() string {
	file := o.file[strings.LastIndex(o.file, ": ")+1:]
	if i := strings.LastIndexByte(file, '['); i > 0 && strings.HasSuffix(file, "]") {
		file = file[:i]
	}
	return strings.TrimSpace(file)
}

// isDropIn reports whether a kubelet reads a file as a drop-in: *.conf in a directory such
// as kubelet.conf.d.
func (o object) isDropIn() bool {
	file := o.inside()
	return path.Ext(file) == ".conf" && path.Ext(path.Dir(file)) == ".d"
}

// order is less for the kubelet's own file than for drop-ins.
func (o object) order() int {
	if o.isDropIn() {
		return 1
	}
	return 0
}

func atMost(names []string) string {
	const most = 10
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
}

// one returns the object of a kind that a flag names, or the only object.
func (f *facts) one(kind, flag, meant string, all []object) (object, bool) {
	var names []string
	for _, o := range all {
		if meant != "" && o.name == meant {
			return o, true
		}
		names = append(names, o.String())
	}
	switch {
	case meant != "" && len(all) == 0:
		f.fail("there is no %s %q in these files", kind, shorten(meant))
	case meant != "":
		f.fail("there is no %s %q in these files; there are %s", kind, shorten(meant), atMost(names))
	case len(all) > 1:
		f.fail("%s: there are %d, and a node has one; name it with %s: %s", kind, len(all), flag, atMost(names))
	case len(all) == 1:
		return all[0], true
	}
	return object{}, false
}
