package node

import (
	"time"

	"github.com/cenkalti/backoff/v5"
)

const LongestPause = longestPause

func NewPause(first time.Duration) *backoff.ExponentialBackOff { return newPause(first) }

func ParseMilli(s string) (int64, error) { return parseMilli(s) }

func RetryAfter(header string) time.Duration { return retryAfterHeader(header) }
