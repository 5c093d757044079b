package webhook

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/version"

	"github.com/cpupoold/cpupoold/internal/admission"
)

// The program gets the version of the API server again after versionTTL, because clusters are
// upgraded while it runs. After an error it does so after versionRetryInterval.
const (
	versionTTL           = 10 * time.Minute
	versionRetryInterval = time.Minute
	versionTimeout       = 5 * time.Second
)

// defaults holds the defaults of spec.resources that follow from the API server's version. After
// an error, they stay as they are. Before the first answer, the newest API server decides.
type defaults struct {
	current admission.Defaults
	next    time.Time // of the next question
}

// get returns the defaults, and asks for the version if it is time.
func (d *defaults) get(ctx context.Context, ask func(context.Context) (*version.Info, error), log *slog.Logger) admission.Defaults {
	now := time.Now()
	if now.Before(d.next) {
		return d.current
	}
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	info, err := ask(ctx)
	minor := 0
	if err == nil {
		minor, err = minorOf(info)
	}
	if err != nil {
		d.next = now.Add(versionRetryInterval)
		log.Warn("the version of the API server is unknown, which decides the defaults of spec.resources; allow the account to get /version",
			"error", err)
		return d.current
	}
	d.next = now.Add(versionTTL)
	if is := admission.DefaultsOf(minor); is != d.current {
		d.current = is
		log.Info("defaults of spec.resources follow the API server", "version", info.GitVersion)
	}
	return d.current
}

// minorOf returns the minor version of the defaults of an API server. Feature gates follow the
// emulated version if there is one (apiserver --emulated-version).
func minorOf(info *version.Info) (int, error) {
	major, minor := cmp.Or(info.EmulationMajor, info.Major), cmp.Or(info.EmulationMinor, info.Minor)
	digits := strings.TrimRight(minor, "+") // some providers append it
	n, err := strconv.Atoi(digits)
	if err != nil || major != "1" || n < 0 {
		return 0, fmt.Errorf("version %q.%q is not 1.x", major, minor)
	}
	return n, nil
}
