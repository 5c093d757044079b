package migrate

import (
	"fmt"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"
)

// object is one of those of which a configuration is made of one alone, or of a few that
// belong together.
type object struct {
	file string // and the place in it
	name string // metadata.name; CPU-Pooler: the key in the ConfigMap
	keys string // where the keys are in the object
	// about says more of it to people, after a blank.
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

// inside is the name of the file that it is in, without those of what that file is in, and
// without its number there.
func (o object) inside() string {
	file := o.file[strings.LastIndex(o.file, ": ")+1:]
	if i := strings.LastIndexByte(file, '['); i > 0 && strings.HasSuffix(file, "]") {
		file = file[:i]
	}
	return strings.TrimSpace(file)
}

// isDropIn says that a kubelet takes a file over another one: *.conf in a directory such as
// kubelet.conf.d.
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

// one chooses the object of a kind that is meant: what a flag names, or else the only one.
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
