package nodestatus

import (
	"io/fs"
	"time"

	"github.com/cenkalti/backoff/v5"
)

const MaxPause = maxPause

func NewBackoff(first time.Duration) *backoff.ExponentialBackOff { return newBackoff(first) }

func RetryAfter(header string) time.Duration { return retryAfterHeader(header) }

func Fingerprint(pods []PodName) string { return fingerprint(pods) }

func Memory(sys fs.FS, id int) (map[string]int64, error) { return nodeMemory(sys, id) }

func (t *Topology) Apply(name, uid string, memory map[int]map[string]int64) []byte {
	return t.manifest(name, uid, memory)
}
