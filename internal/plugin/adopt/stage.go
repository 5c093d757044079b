package adopt

import (
	"cmp"
	"fmt"
	"strings"
)

// Stage is a part of the order.
type Stage int

// The stages, in their order.
const (
	// Refused are pods that would not come back.
	Refused Stage = iota
	Replicated
	Stateful
	EveryNode
	Ending
	Alone
	Static
)

const staticKind = "static pod"

// words returns the name of a stage in JSON, and what its pods are and why they have their place.
func (s Stage) words() (name, why string) {
	all := [...]struct{ name, why string }{
		Refused:    {"refused", "Would be refused: put these right before anything restarts them"},
		Replicated: {"replicated", "Deployments and the like: other replicas serve meanwhile, and a mistake shows in one pod first"},
		Stateful:   {"stateful", "StatefulSets: one pod after the other, each has to come back before the next"},
		EveryNode:  {"everyNode", "DaemonSets: each node is without its pod for a moment, so they wait until the others have shown that pods come back"},
		Ending:     {"ending", "Jobs: they end by themselves, and what they make next is counted"},
		Alone:      {"alone", "Pods without an owner: no controller creates them again"},
		Static:     {"static", "Static pods, last: no webhook sees them, and a control plane that does not come back cannot be mended through its API"},
	}
	return all[s].name, all[s].why
}

// Why describes the pods of a stage, and states the reason for their place.
func (s Stage) Why() string {
	_, why := s.words()
	return why
}

// MarshalText returns the name of a stage.
func (s Stage) MarshalText() ([]byte, error) {
	name, _ := s.words()
	return []byte(name), nil
}

func stageOf(kind string) Stage {
	known := map[string]Stage{"StatefulSet": Stateful, "DaemonSet": EveryNode, "Job": Ending, "CronJob": Ending, "Pod": Alone, staticKind: Static}
	return cmp.Or(known[kind], Replicated)
}

func how(s *Step) string {
	if s.Stage == Refused {
		return "correct it as the warning says"
	}
	switch s.Kind {
	case "Deployment", "StatefulSet", "DaemonSet":
		return fmt.Sprintf("kubectl -n %s rollout restart %s/%s", s.Namespace, strings.ToLower(s.Kind), s.Name)
	case "Job", "CronJob":
		return "wait until it has ended"
	case "Pod":
		return fmt.Sprintf("kubectl -n %s get pod %s -o yaml, delete it, and create it again", s.Namespace, s.Name)
	case staticKind:
		return "on its node: kubectl cpupool mutate --in-place -f MANIFEST"
	default:
		return fmt.Sprintf("delete its pods one at a time (%s %s)", s.Kind, s.Name)
	}
}
