package adopt

import (
	"encoding/json"
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

// Why returns what the pods of a stage are, and why they have their place.
func (s Stage) Why() string {
	switch s {
	case Refused:
		return "Would be refused: put these right before anything restarts them"
	case Replicated:
		return "Deployments and the like: other replicas serve meanwhile, and a mistake shows in one pod first"
	case Stateful:
		return "StatefulSets: one pod after the other, each has to come back before the next"
	case EveryNode:
		return "DaemonSets: each node is without its pod for a moment, so they wait until the others have shown that pods come back"
	case Ending:
		return "Jobs: they end by themselves, and what they make next is counted"
	case Alone:
		return "Pods without an owner: nobody makes them again"
	case Static:
		return "Static pods, last: no webhook sees them, and a control plane that does not come back cannot be mended through its API"
	default:
		return ""
	}
}

// MarshalJSON writes a stage as a word.
func (s Stage) MarshalJSON() ([]byte, error) {
	words := []string{"refused", "replicated", "stateful", "everyNode", "ending", "alone", "static"}
	if s < 0 || int(s) >= len(words) {
		return nil, fmt.Errorf("no stage %d", int(s))
	}
	return json.Marshal(words[s])
}

func stageOf(kind string) Stage {
	switch kind {
	case "StatefulSet":
		return Stateful
	case "DaemonSet":
		return EveryNode
	case "Job", "CronJob":
		return Ending
	case "Pod":
		return Alone
	case staticKind:
		return Static
	default:
		return Replicated
	}
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
