#!/usr/bin/env bash
# Checks prose with Vale: Markdown, comments of Go and YAML files, user-facing strings
# of Go files, and commit messages. Vale is built from go.mod, with gcc and g++, unless
# VALE names a program.
#
#   prose.sh count               prints hits for each directory and rule
#   prose.sh files FILE...       lists the hits in files; fails if there are any
#   prose.sh record              writes baseline.txt: the hits of today
#   prose.sh check               fails if a directory has more hits of a rule than baseline.txt
#   prose.sh commits A..B        lists the hits in commit messages; fails if there are any
set -euo pipefail
export LC_ALL=C # baseline.txt has the same order on every machine
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

vale() {
	local args=(--config "$here/.vale.ini" --output=line --no-wrap --no-exit)
	if [ -n "${VALE:-}" ]; then
		"$VALE" "${args[@]}" "$@"
	else
		CGO_ENABLED=1 GOFLAGS= go tool -modfile="$here/go.mod" vale "${args[@]}" "$@"
	fi
}

# lint prints PATH:LINE:COLUMN:RULE:MESSAGE for files, with the strings of Go files.
lint() {
	local files go
	mapfile -t files < <(printf '%s\n' "$@" | grep -E '\.(md|go|yaml)$' | grep -vE '(^|/)testdata/' || true)
	mapfile -t go < <(printf '%s\n' "${files[@]}" | grep '\.go$' || true)
	[ ${#files[@]} -gt 0 ] || return 0
	if [ ${#go[@]} -gt 0 ]; then
		go run "$here/strings/main.go" "$work/strings" "${go[@]}"
	fi
	vale "${files[@]}" >"$work/hits"
	if [ -d "$work/strings" ]; then
		vale "$work/strings" >"$work/string-hits"
		sed "s|^$work/strings/||; s|\.strings\.txt:|:|" "$work/string-hits" >>"$work/hits"
	fi
	sort -t: -k1,1 -k2,2n -k3,3n -k4,4 "$work/hits" | uniq
}

# counts reads the output of lint and prints DIRECTORY RULE COUNT.
counts() {
	awk -F: '{ d = $1; if (!sub("/[^/]*$", "", d)) d = "."; n[d " " $4]++ } END { for (k in n) print k, n[k] }' | sort
}

# all lints the files of the repository into $work/now: the tracked ones that exist, and
# new ones that git does not ignore.
all() {
	local file files=()
	cd "$here/.."
	git -c core.quotePath=off ls-files --cached --others --exclude-standard >"$work/names"
	while read -r file; do
		if [ -f "$file" ]; then files+=("$file"); fi
	done < <(sort -u "$work/names")
	lint "${files[@]}" >"$work/all"
	counts <"$work/all" >"$work/now"
}

# Bash ignores set -e on the left of &&: each command here stands on its own line.
case ${1:-} in
count)
	all
	cat "$work/now"
	;;
record)
	all
	cp "$work/now" "$here/baseline.txt"
	;;
check)
	all
	awk 'FILENAME == ARGV[1] { was[$1 " " $2] = $3; before += $3; next }
		{ now += $3 }
		$3 > was[$1 " " $2] + 0 { print $1 ": " $2 ": " $3 " hits, baseline " was[$1 " " $2] + 0; bad = 1 }
		END {
			if (bad) print "prose: vale/prose.sh files FILE... lists the hits of your files; see CONTRIBUTING.md"
			else if (now < before) print "prose: " now " hits, baseline " before ": make prose-record lowers it"
			exit bad
		}' "$here/baseline.txt" "$work/now"
	;;
files)
	shift
	lint "$@" >"$work/all"
	cat "$work/all"
	[ ! -s "$work/all" ]
	;;
commits)
	mkdir "$work/commits"
	git rev-list --no-merges "${2:?prose.sh commits A..B}" >"$work/names"
	while read -r commit; do
		git log -1 --format='%s.%n%n%b' "$commit" >"$work/commits/${commit::12}.commit.txt"
	done <"$work/names"
	vale "$work/commits" >"$work/all"
	sed "s|^$work/commits/||; s|\.commit\.txt:|:|" "$work/all"
	[ ! -s "$work/all" ]
	;;
*)
	sed -n '2,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
	exit 2
	;;
esac
