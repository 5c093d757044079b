package daemon

import (
	"fmt"

	"github.com/cpupoold/cpupoold/internal/node/actor"
)

// recordedJob is a job that the loop has submitted.
type recordedJob struct {
	set, key string
	run      actor.Job[event]
}

// label returns a line about a job and its result.
func (j recordedJob) label(e event) string {
	failed := func(err error) string {
		if err != nil {
			return ": failed"
		}
		return ""
	}
	switch e := e.(type) {
	case written:
		if e.skipped {
			return fmt.Sprintf("skip %s %s = %s (%s)", e.write.Path, e.write.Property, e.write.Value, e.write.Via)
		}
		return fmt.Sprintf("persist %s %s = %s (%s)%s", e.write.Path, e.write.Property, e.write.Value, e.write.Via, failed(e.err))
	case unitRead:
		return fmt.Sprintf("ask systemd for the properties of %s", e.path)
	case recordRead:
		return fmt.Sprintf("ask runtime and systemd for the record of %s", e.Path)
	case listed:
		return "ask the runtime for all pods and containers" + failed(e.Err)
	case podFetched:
		return fmt.Sprintf("ask the runtime for pod %s%s", e.ID, failed(e.Err))
	case containerFetched:
		return fmt.Sprintf("ask the runtime for container %s%s", e.ID, failed(e.Err))
	case formulaFound:
		return "ask the OCI runtime for its version"
	case saved:
		return "save the journal" + failed(e.err)
	case filesWritten:
		return "write the files for applications" + failed(e.Err)
	}
	if j.set == "update" {
		return "wait for the runtime's update of " + j.key
	}
	switch j.key { // without a result
	case "cpus":
		return "read the CPUs that are online"
	case "memory":
		return "return memory to the kernel"
	}
	return fmt.Sprintf("%s job %s", j.set, j.key)
}

// recorder records the jobs of one set of workers.
type recorder struct {
	set string
	s   *script
}

func (r recorder) Submit(key string, j actor.Job[event]) {
	r.s.jobs = append(r.s.jobs, recordedJob{r.set, key, j})
}
