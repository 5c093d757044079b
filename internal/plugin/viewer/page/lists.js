"use strict";

// Problems and containers, with the filters of both.

// showFilters offers the pools and namespaces of the containers, and keeps the selection.
function showFilters() {
  const offer = (id, every, names) => {
    const select = at(id), before = select.value;
    select.replaceChildren(make("option", every, { value: "" }), ...[...new Set(names)].sort().map((n) => make("option", n, { value: n })));
    select.value = before;
    if (select.selectedIndex < 0) select.value = "";
  };
  offer("pool", "all pools", state.status.containers.map(poolName));
  offer("namespace", "all namespaces", state.status.containers.map((c) => c.namespace).filter(Boolean));
}

// filters returns whether a container passes, or null without a filter.
function filters() {
  const words = at("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const pool = at("pool").value, namespace = at("namespace").value;
  if (!words.length && !pool && !namespace) return null;
  return (c) => {
    if ((pool && poolName(c) !== pool) || (namespace && c.namespace !== namespace)) return false;
    const text = [fullName(c), poolName(c), c.cpus, c.mode, c.code, c.reason, c.state, ...claimsOf(c)].join(" ").toLowerCase();
    return words.every((w) => text.includes(w) || (/^\d+$/.test(w) && runsOn(c).has(Number(w))));
  };
}

// filteredCPUs returns the CPUs of the containers that pass the filters, or null without a filter.
function filteredCPUs() {
  const passes = filters();
  return passes && new Set(state.status.containers.filter(passes).flatMap((c) => [...runsOn(c)]));
}

function showRows() {
  const passes = filters() || (() => true);
  const rows = state.status.containers.filter(passes).map((c) => {
    const name = fullName(c);
    const row = make("tr", [make("th", linkTo(name), { scope: "row" }), make("td", poolName(c)), make("td", cpusOf(c)), make("td", c.mode || ""),
      make("td", [c.reason + " (", codeLink(c.code), ")"], c.refused ? { class: "bad" } : {})]);
    row.dataset.name = name;
    return row;
  });
  const active = document.activeElement && document.activeElement.closest && document.activeElement.closest("#rows tr");
  const name = active && active.dataset.name;
  at("rows").replaceChildren(...rows);
  if (name) rowOf(name)?.querySelector("a").focus();
  at("found").textContent = `${rows.length} of ${state.status.containers.length}`;
}

const rowOf = (name) => [...document.querySelectorAll("#rows tr")].find((r) => r.dataset.name === name);

// subjectsOf returns the containers or the unit of a problem, a fault or a wait.
function subjectsOf(p) {
  return state.status.containers.filter((c) => {
    if (p.cgroup !== undefined) return c.cgroup === p.cgroup;
    if (p.claim) return c.podUID === p.podUID && claimsOf(c).includes(p.claim);
    if (p.unit || c.unit) return Boolean(p.unit && c.unit) && c.name === p.unit;
    return (p.podUID ? c.podUID === p.podUID : `${c.namespace}/${c.pod}` === p.pod) && (!p.container || c.name === p.container);
  });
}

// nameOf returns the name of a problem as a link to its container, or as text without one.
function nameOf(p) {
  const found = subjectsOf(p);
  const name = p.cgroup ?? p.unit ?? (p.claim ? `claim ${p.claim}` : p.pod ? p.pod + (p.container ? "/" + p.container : "") : "this node");
  if (!found.length) return name;
  return p.cgroup !== undefined ? linkTo(fullName(found[0])) : make("a", name, { href: fragment({ name: fullName(found[0]) }) });
}

// showProblems lists problems, then faults, then waits. The filters apply to problems of
// containers, and a problem of the node always shows.
function showProblems() {
  const s = state.status, passes = filters();
  const shows = (p) => { const found = subjectsOf(p); return !passes || !found.length || found.some(passes); };
  const problems = (s.problems || []).filter(shows), faults = (s.faults || []).filter(shows), waits = (s.waits || []).filter(shows);
  at("problems").replaceChildren(
    ...problems.map((p) => make("li", [nameOf(p), `: ${p.text} (`, codeLink(p.code), ")"], { class: "problem" })),
    ...faults.map((f) => make("li", [nameOf(f), `: differs from the plan: ${f.error}`], { class: "problem" })),
    ...waits.map((w) => make("li", [nameOf(w), `: ${w.property} is written later: ${w.reason}`], { class: "hint" })));
  const shown = problems.length + faults.length;
  const all = (s.problems || []).length + (s.faults || []).length;
  at("problems-title").textContent = shown === all ? count(all, "problem") : `${shown} of ${count(all, "problem")}`;
  at("problems-part").hidden = all + (s.waits || []).length === 0;
}

// reveal makes the line of a container visible, and moves the focus there.
function reveal(name) {
  if (!rowOf(name)) {
    at("filters").reset();
    showLists();
  }
  const row = rowOf(name);
  row?.scrollIntoView({ block: "nearest" });
  row?.querySelector("a").focus({ preventScroll: true });
}

function showLists() {
  showRows();
  showProblems();
  mark();
}

for (const id of ["search", "pool", "namespace"]) at(id).addEventListener("input", () => state.status && showLists());
at("filters").addEventListener("submit", (e) => e.preventDefault());
