package manifest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxGroups is the maximum number of groups in a list of skipped inputs. A cluster has hundreds of
// kinds.
const maxGroups = 12

// Coverage records the inputs that a command reads, and the inputs that it skips. The zero value
// is empty.
type Coverage struct{ read, skipped []group }

// group holds the number of inputs with one label, and the place of the first.
type group struct {
	label, first string
	number       int
}

// Read records an input that the command reads, such as the kind of an object.
func (c *Coverage) Read(label string) { c.read = count(c.read, label, "") }

// Skip records an input that the command does not read. Label is its kind, or states why.
func (c *Coverage) Skip(label, place string) { c.skipped = count(c.skipped, label, place) }

// Add records the objects of a file. Reads reports whether the command reads an object. A file
// without objects and errors is empty.
func (c *Coverage) Add(file string, objects []Object, errs []error, reads func(*Object) bool) {
	for i := range objects {
		c.AddObject(file, &objects[i], reads(&objects[i]))
	}
	if len(objects)+len(errs) == 0 {
		c.Skip("empty file", file)
	}
}

// AddObject records an object of a file.
func (c *Coverage) AddObject(file string, o *Object, isRead bool) {
	label := o.Kind
	switch {
	case label == "":
		label = "document without kind"
	case o.templated:
		label += " with a variable as an amount"
	}
	if isRead {
		c.Read(label)
		return
	}
	c.Skip(label, file+":"+strconv.Itoa(o.Line()))
}

// Complete reports whether the command has skipped nothing.
func (c *Coverage) Complete() bool { return len(c.skipped) == 0 }

// String returns one line, such as "read: Pod (2); skipped: Service (web.yaml:3)".
func (c *Coverage) String() string {
	text := "read: " + listGroups(c.read)
	if len(c.skipped) > 0 {
		text += "; skipped: " + listGroups(c.skipped)
	}
	return text
}

// Err returns an error if the command has read nothing. Wanted names the inputs that it reads.
func (c *Coverage) Err(wanted string) error {
	switch {
	case len(c.read) > 0:
		return nil
	case len(c.skipped) == 0:
		return errors.New("nothing was read; give " + wanted)
	}
	return fmt.Errorf("nothing was read; skipped: %s; give %s", listGroups(c.skipped), wanted)
}

func count(groups []group, label, place string) []group {
	i := slices.IndexFunc(groups, func(g group) bool { return g.label == label })
	if i < 0 {
		return append(groups, group{label, place, 1})
	}
	groups[i].number++
	return groups
}

func listGroups(groups []group) string {
	if len(groups) == 0 {
		return "nothing"
	}
	var texts []string
	for _, g := range groups[:min(len(groups), maxGroups)] {
		text := g.label
		switch {
		case g.number > 1 && g.first != "":
			text += fmt.Sprintf(" (%d, first %s)", g.number, g.first)
		case g.number > 1:
			text += fmt.Sprintf(" (%d)", g.number)
		case g.first != "":
			text += " (" + g.first + ")"
		}
		texts = append(texts, text)
	}
	if more := len(groups) - maxGroups; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more kinds", more))
	}
	return strings.Join(texts, ", ")
}
