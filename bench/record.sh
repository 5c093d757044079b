#!/usr/bin/env bash
# Runs the Go benchmarks and prints one record for docs/benchmarks.md: where, what, and the raw samples.
set -euo pipefail
cd "$(dirname "$0")/.."

cat <<TXT
## $(date -u +%F), $(git describe --always --dirty)

| | |
|---|---|
| CPU | $(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -1), $(nproc) usable |
| kernel | $(uname -sr) |
| Go | $(go env GOVERSION) $(go env GOOS)/$(go env GOARCH) |

\`\`\`
$(go test -run '^$' -bench . -benchmem -count "${COUNT:-5}" ./pkg/... ./internal/...)
\`\`\`
TXT
