package config

import "github.com/cpupoold/cpupoold/pkg/workload"

// Names are the names of annotations and resources.
func (c *Config) Names() workload.Names {
	return workload.Names{Domain: c.AnnotationDomain, PoolDomain: c.PoolDomain}
}
