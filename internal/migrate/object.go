package migrate

import (
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

// isDropIn says that a kubelet takes a file over another one: it does so with what ends in
// .conf in its directory of drop-ins. Its own file is called kubelet.conf on OpenShift.
func (o object) isDropIn() bool {
	file, _, _ := strings.Cut(o.file, "[") // a document in it
	return path.Ext(file) == ".conf" && path.Base(file) != "kubelet.conf"
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
		f.fail("there is no %s %q in these files; there are %s", kind, shorten(meant), strings.Join(names, ", "))
	case len(all) > 1:
		f.fail("%s: there are %d, and a node has one; name it with %s: %s", kind, len(all), flag, strings.Join(names, ", "))
	case len(all) == 1:
		return all[0], true
	}
	return object{}, false
}
