package report

import (
	"fmt"
	"regexp"
)

// Kinds of names in the problem ForeignTask. They are replaced only there: the author of a task chooses any text.
const (
	command Kind = "command"
	group   Kind = "cgroup"
)

// foreignTask matches the task in the problem ForeignTask (package publish), also inside of quotes. A command has
// at most 15 bytes, so it contains no ", PID 7, cgroup ".
type foreignTask struct{ task, place, unit *regexp.Regexp }

func foreignTasks() foreignTask {
	return foreignTask{
		task:  regexp.MustCompile(`(ran on (?:it|them): )(.{2,250}?)(, PID \d+, cgroup )(.+)(; confine host services)`),
		place: regexp.MustCompile(`^(.*?)( of pod [a-z0-9.-]+/[a-z0-9.-]+, container [a-z0-9.-]+)?$`),
		unit:  regexp.MustCompile(`^[\\"]*(/|system\.slice/[A-Za-z0-9@_.\\-]+\.service)[\\"]*$`),
	}
}

// hideForeignTasks replaces the commands and the cgroups of foreign tasks in a text. The units of the host keep
// their place: [Redactor.Text] replaces their names.
func (r *Redactor) hideForeignTasks(s string) string {
	return r.foreign.task.ReplaceAllStringFunc(s, func(found string) string {
		m := r.foreign.task.FindStringSubmatch(found)
		at := r.foreign.place.FindStringSubmatch(m[4])
		if !r.foreign.unit.MatchString(at[1]) {
			at[1] = r.positional(group, at[1])
		}
		return m[1] + r.positional(command, m[2]) + m[3] + at[1] + at[2] + m[5]
	})
}

// positional returns the replacement of a text. Quotes and their escapes do not matter.
func (r *Redactor) positional(k Kind, text string) string {
	key := string(k) + " " + regexp.MustCompile(`[\\"]+`).ReplaceAllString(text, "")
	if r.positions[key] == "" {
		r.counts[k]++
		r.positions[key] = fmt.Sprintf("%s-%d", k, r.counts[k])
	}
	return r.positions[key]
}
