// Package control is how an operator on the node asks the running daemon for
// something: HTTP over a Unix socket that only root can open.
//
// The client and the server are one program, cpupoold, though perhaps of two
// versions. Fields may be added; what is there keeps its meaning under /v1.
//
//	POST /v1/moves  [{"podUID": "…", "container": "du", "from": "2,4", "to": "2-3"}]
//
// makes the moves one after another and answers, when the last of them is
// verified or one is not made, with a [Result] for each:
//
//	[{"podUID": "…", "container": "du", "from": "2,4", "to": "2-3", "outcome": "done"}]
//
//	GET /v1/status?after=7&wait=30s
//	GET /v1/events?after=7&wait=30s&since=2026-01-31T12:00:00Z&about=ran/du-0&kind=wrote&limit=10
//
// answer with an inspect.Status and with inspect.Events. With wait, 30s at most, the
// answer comes when something has happened after event number after.
//
//	GET /v1/explain?about=ran/du-0/du
//
// answers with an inspect.Explanation, or with HTTP status 404 when the name names nothing,
// or more than one thing.
//
// Whatever else goes wrong is answered with an HTTP status of 400 or above and
// {"error": "…"}.
package control
