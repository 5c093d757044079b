package config

import (
	"errors"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// PowerFeature is something about the power of CPUs that pods may ask for.
type PowerFeature string

// The features: idle states, the frequency's governor, and the energy preference.
const (
	PowerCStates    PowerFeature = "cStates"
	PowerGovernor   PowerFeature = "governor"
	PowerPreference PowerFeature = "energyPreference"
)

// power reads off, or a list of features, each once.
func (d *decoder) power(key string, n *yaml.Node, to *[]PowerFeature) {
	n = deref(n)
	if n.Kind != yaml.SequenceNode {
		d.scalar(func(s string) error {
			if s != "off" {
				return errors.New("is not known; write off, or a list of cStates, governor and energyPreference")
			}
			*to = nil
			return nil
		})(key, n)
		return
	}
	var all []PowerFeature
	for i, item := range n.Content {
		d.scalar(func(s string) error {
			var f PowerFeature
			if err := setOneOf(&f, s, PowerCStates, PowerGovernor, PowerPreference); err != nil {
				return err
			}
			if slices.Contains(all, f) {
				return errors.New("is there twice; keep one")
			}
			all = append(all, f)
			return nil
		})(fmt.Sprintf("%s[%d]", key, i), item)
	}
	*to = all
}
