package report

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/inspect"
)

// TestRedactForeignTasks checks that a redacted report hides commands, cgroups, pods and containers of foreign tasks.
// It checks the status, the history and the log. Some names are common words.
func TestRedactForeignTasks(t *testing.T) {
	text := func(command, place string) string {
		return "CPUs 4-5 are exclusive, and tasks of other cgroups ran on them: " + strconv.Quote(command) + ", PID 812, cgroup " + place +
			"; confine host services with hostSlices, or set guaranteed.isolation: partition. `cpupoold audit --live 30s` lists all such tasks"
	}
	for _, c := range []struct{ command, place, want string }{
		{"acme-agent", `"kubepods/acme/inner" of pod acme-ran/acme-agent, container acme-main`, `ran on them: command-1, PID 812, cgroup cgroup-1 of pod namespace-1/pod-2, container container-1; confine host`},
		{"shared", `"kubepods/x; confine host services"`, "ran on them: command-1, PID 812, cgroup cgroup-1; confine host services with"},
		{"acme \"x\"\x1b", `"acme\\n\"y\""`, "ran on them: command-1, PID 812, cgroup cgroup-1; confine host"},
		{"acmed", `"system.slice/acmed.service"`, `ran on them: command-1, PID 812, cgroup "system.slice/unit-1.service"; confine host`},
	} {
		r := NewRedactor()
		problem := text(c.command, c.place)
		s := &inspect.Status{Problems: []inspect.Problem{{Pod: "default/x", Code: "ForeignTask", Text: problem}}}
		r.AddStatus(s)
		r.AddEvents([]history.Event{{Code: "ForeignTask", Cause: problem}})
		line := "level=WARN msg=\"problem appeared\" code=ForeignTask problem=" + strconv.Quote(problem)
		r.AddLog(line)
		data, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.JSON(data)
		var shown inspect.Status
		if err == nil {
			err = json.Unmarshal(got, &shown)
		}
		if err != nil || !strings.Contains(shown.Problems[0].Text, c.want) {
			t.Errorf("command %q: %v, %s; want %q", c.command, err, shown.Problems[0].Text, c.want)
		}
		for _, text := range []string{string(got), r.Text(line), r.Text(problem)} {
			if strings.Contains(text, "acme") || strings.Contains(text, strconv.Quote(c.command)) {
				t.Errorf("command %q: %s; want no names", c.command, text)
			}
		}
	}
}
