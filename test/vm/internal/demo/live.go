package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"
)

// intruder is a service that the demo starts on an exclusive CPU. It runs for some milliseconds each second, as a task that a sampled audit misses.
const intruder = "intruder.service"

// intrusion is the script of the intruder. It counts to 2,000, with a pause of a second.
const intrusion = `while :; do i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done; sleep 1; done`

// findings is the exit code of an audit with findings.
const findings = 3

// audit starts a task on an exclusive CPU of late, and shows that a live audit counts it.
func (s *scene) audit(ctx context.Context, rows []row) error {
	s.next()
	owner, err := find(rows, late)
	if err != nil {
		return err
	}
	cpu := owner.kernel.Effective.First()
	if _, err := s.m.Run(ctx, "systemd-run", "--unit="+intruder, "taskset", "--cpu-list", fmt.Sprint(cpu), "sh", "-c", intrusion); err != nil {
		return err
	}
	s.detail("%s runs for some milliseconds each second on CPU %d, which belongs to %s/%s", intruder, cpu, owner.pod, owner.Name)
	command := []string{"cpupoold", "audit", "--live", "10s"}
	out, err := s.m.Run(ctx, command...)
	fmt.Fprintf(s.out, "\n$ %s\n%s", strings.Join(command, " "), out)
	if exit := new(ssh.ExitError); err != nil && (!errors.As(err, &exit) || exit.ExitStatus() != findings) {
		return err
	}
	return counted(string(out), cpu, owner.pod+"/"+owner.Name)
}

// counted returns an error unless the report of a live audit has a row of the intruder on a CPU, and a share.
func counted(report string, cpu int, owner string) error {
	for line := range strings.Lines(report) {
		f := strings.Fields(line)
		if len(f) > 2 && f[0] == fmt.Sprint(cpu) && f[1] == owner && strings.Contains(line, intruder) {
			if !strings.Contains(report, "Share of exclusive CPU time without foreign tasks: ") {
				return errors.New("the live audit has no share")
			}
			return nil
		}
	}
	return fmt.Errorf("the live audit has not counted %s on CPU %d of %s", intruder, cpu, owner)
}
