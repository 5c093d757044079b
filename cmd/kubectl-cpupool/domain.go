package main

import (
	"errors"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
)

// domainFlag is a flag with a DNS subdomain.
type domainFlag string

// addDomain adds a flag for a DNS subdomain.
func addDomain(flags *pflag.FlagSet, domain *string, name, preset, usage string) {
	*domain = preset
	flags.Var((*domainFlag)(domain), name, usage)
}

func (f *domainFlag) Type() string { return "string" }

func (f *domainFlag) String() string { return string(*f) }

func (f *domainFlag) Set(text string) error {
	if len(validation.IsDNS1123Subdomain(text)) > 0 {
		return errors.New("is no DNS subdomain; write one like workload.openshift.io")
	}
	*f = domainFlag(text)
	return nil
}
