package daemon

import (
	"errors"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/internal/node/restore"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// flood writes two files of a container's cgroup in turn. The values stay the same.
func (s *script) flood(name, count string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	for i := range n {
		file := s.Runtime.Cgroup(s.ids[name]) + "/" + [...]string{cgroup.FileCPUs, cgroup.FileWeight}[i%2]
		value, err := s.Tree.ReadFile(file, 4096)
		if err = errors.Join(err, s.Tree.Write(file, strings.TrimSpace(string(value)))); err != nil {
			return err
		}
	}
	s.Tree.Forget()
	return nil
}

func (s *script) setOnline(online bool, list string) error {
	cpus, err := cpuset.Parse(list)
	if err != nil {
		return err
	}
	now := s.Tree.Online()
	if online {
		now = now.Union(cpus)
	} else {
		now = now.Difference(cpus)
	}
	s.SetOnline(now)
	return s.loop.watchers.usable.Read(s.loop.watchers.useCPUs)
}

// restore is cpupoold restore: it restores the originals of the journal.
func (s *script) restore() error {
	if s.loop != nil {
		return errors.New("a daemon runs")
	}
	h := s.Host()
	report, err := restore.OnHost(s.ctx, &h, s.Journal(), s.options().Config.Isolation, false)
	s.written()
	s.printf("restored %d values; %d differ without effect", len(report.Restored), len(report.Differs))
	return err
}
