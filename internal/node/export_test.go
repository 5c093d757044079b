package node

import "time"

func ParseMilli(s string) (int64, error) { return parseMilli(s) }

func RetryAfter(header string) time.Duration { return retryAfterHeader(header) }
