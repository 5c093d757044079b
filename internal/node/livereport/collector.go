package livereport

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/node/schedwatch"
)

// maxRows is the number of rows of a report. A process can change its name at each switch, so a long audit can meet
// any number of names. A collector holds twice as many, and then keeps the rows with the most time: many short
// tasks do not hide a long one.
const maxRows = 4096

// Collector adds the readings of one program. The zero value is ready to use.
type Collector struct {
	rows map[key]*entry
	last schedwatch.Reading
}

// key distinguishes the rows of a reading.
type key struct {
	cpu     int
	kind    schedwatch.Kind
	command string
	cgroup  uint64
}

type entry struct {
	schedwatch.Count

	path string // of the cgroup: "/" for the root, and "" for a removed one
}

// rootID is the number of the cgroup root in the kernel.
const rootID = 1

func total(kind string, c schedwatch.Count) Total {
	return Total{Kind: kind, Seconds: c.Time.Seconds(), Switches: c.Switches}
}

// Add adds a reading.
func (c *Collector) Add(r schedwatch.Reading) {
	if c.rows == nil {
		c.rows = make(map[key]*entry)
	}
	c.rows = add(c.rows, r.Tasks)
	r.Tasks = nil
	c.last = r
}

// longest returns the rows with the most time, at most maxRows. The others are in the totals of the reading.
func longest(rows map[key]*entry) map[key]*entry {
	if len(rows) <= maxRows {
		return rows
	}
	keys := slices.SortedFunc(maps.Keys(rows), func(a, b key) int {
		return cmp.Or(cmp.Compare(rows[b].Time, rows[a].Time), cmp.Compare(rows[b].Switches, rows[a].Switches),
			cmp.Compare(a.cpu, b.cpu), cmp.Compare(a.kind, b.kind), cmp.Compare(a.command, b.command), cmp.Compare(a.cgroup, b.cgroup))
	})
	kept := make(map[key]*entry, 2*maxRows)
	for _, k := range keys[:maxRows] {
		kept[k] = rows[k]
	}
	return kept
}

// add adds tasks to rows, and returns at most 2*maxRows rows.
func add(rows map[key]*entry, tasks []schedwatch.Task) map[key]*entry {
	for i := range tasks {
		t := &tasks[i]
		k := key{t.CPU, t.Kind, command(t), t.CgroupID}
		e := rows[k]
		if e == nil {
			if len(rows) >= 2*maxRows {
				rows = longest(rows)
			}
			e = &entry{}
			rows[k] = e
		}
		e.Count = e.Plus(schedwatch.Count{Time: t.Time, Switches: t.Switches})
		if e.path = cmp.Or(e.path, t.Cgroup); t.CgroupID == rootID {
			e.path = "/"
		}
	}
	return rows
}

// command returns the name of a task. Names of bound kernel threads end with the number of the
// CPU, such as ksoftirqd/4 and kworker/4:1H. These become one name.
func command(t *schedwatch.Task) string {
	name, cpu, isNumbered := strings.Cut(t.Command, "/")
	if t.Kind == schedwatch.BoundKernel && isNumbered && cpu != "" && cpu[0] >= '0' && cpu[0] <= '9' {
		return name + "/*"
	}
	return t.Command
}
