"use strict";

const at = (id) => document.getElementById(id);
let state = { number: 0 };
let chosen = null; // { cpu: 4 } or { name: "ns/pod/container" }
let focused = 0; // the CPU that the tab key goes to

// make returns an element with text or children in it.
function make(kind, content, attributes) {
  const e = document.createElement(kind);
  for (const [name, value] of Object.entries(attributes || {})) e.setAttribute(name, value);
  for (const part of [content].flat()) if (part !== undefined && part !== null) e.append(part);
  return e;
}

// members are the CPUs of a list in the kernel's format.
function members(list) {
  const all = new Set();
  for (const part of (list || "").split(",").filter(Boolean)) {
    const [first, last] = part.split("-").map(Number);
    for (let cpu = first; cpu <= (last ?? first); cpu++) all.add(cpu);
  }
  return all;
}

// runsOn are the CPUs of a container: its pool's or its own, and the shared ones beside these.
const runsOn = (c) => members([c.cpus, c.mixed].filter(Boolean).join(","));
const cpusOf = (c) => c.cpus + (c.mixed ? ` + ${c.mixed}` : "");
const fullName = (c) => (c.unit ? c.name : `${c.namespace}/${c.pod}/${c.name}`);
const poolName = (c) => (c.type && c.type !== c.pool ? `${c.pool} ${c.type}` : c.pool || "none");

function show() {
  const s = state.status;
  at("error").hidden = !state.error;
  at("error").textContent = state.error || "";
  if (!s) return;
  const name = s.node || "this machine";
  document.title = `${name}: CPU pools`;
  at("node").textContent = name;
  const problems = (s.problems || []).length + (s.faults || []).length;
  at("summary").textContent = `${s.cpus.length} ${s.cpus.length === 1 ? "CPU" : "CPUs"}, ${s.containers.length} ${s.containers.length === 1 ? "container or unit" : "containers and units"}, ` +
    `${problems === 0 ? "no problems" : problems === 1 ? "1 problem" : problems + " problems"}; ` +
    (s.daemon && s.daemon.mode ? `${s.daemon.mode}, as of ${new Date(s.time).toLocaleTimeString()}` : "simulated");
  showMachine();
  showRows();
  showProblems();
  showDetail();
}

function showMachine() {
  const held = document.activeElement && document.activeElement.closest && document.activeElement.closest("#machine .cpu");
  if (held) focused = Number(held.dataset.cpu);
  const picture = new DOMParser().parseFromString(state.picture, "image/svg+xml").documentElement;
  at("machine").replaceChildren(document.importNode(picture, true));
  const cpus = [...document.querySelectorAll("#machine .cpu")];
  if (!cpus.some((c) => Number(c.dataset.cpu) === focused) && cpus.length) focused = Number(cpus[0].dataset.cpu);
  for (const c of cpus) {
    c.setAttribute("role", "button");
    c.setAttribute("tabindex", Number(c.dataset.cpu) === focused ? "0" : "-1");
  }
  if (held) at("cpu" + focused)?.focus();
  mark();
}

function showRows() {
  const wanted = at("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = [];
  for (const c of state.status.containers) {
    const name = fullName(c);
    const text = [name, poolName(c), c.cpus, c.mode, c.code, c.reason, c.state].join(" ").toLowerCase();
    if (!wanted.every((w) => text.includes(w) || (/^\d+$/.test(w) && runsOn(c).has(Number(w))))) continue;
    const button = make("button", name, { type: "button" });
    button.addEventListener("click", () => choose({ name }));
    const row = make("tr", [make("th", button, { scope: "row" }), make("td", poolName(c)), make("td", cpusOf(c)), make("td", c.mode || ""), make("td", c.reason, c.refused ? { class: "bad" } : {})]);
    row.dataset.name = name;
    rows.push(row);
  }
  const active = document.activeElement && document.activeElement.closest && document.activeElement.closest("#rows tr");
  const name = active && active.dataset.name;
  at("rows").replaceChildren(...rows);
  if (name) rows.find((r) => r.dataset.name === name)?.querySelector("button").focus();
  at("found").textContent = `${rows.length} of ${state.status.containers.length}`;
  mark();
}

function showProblems() {
  const s = state.status;
  const all = [
    ...(s.problems || []).map((p) => `${p.pod || p.unit || "the node"}${p.container ? ", container " + p.container : ""}: ${p.text} (${p.code})`),
    ...(s.faults || []).map((f) => `${f.cgroup}: ${f.error}`),
    ...(s.waits || []).map((w) => `${w.cgroup}: ${w.property} ${w.reason}`),
  ];
  at("problems-part").hidden = all.length === 0;
  at("problems").replaceChildren(...all.map((text) => make("li", text)));
}

function choose(what) {
  chosen = what;
  showDetail();
  explainChosen();
  mark();
}

// showDetail says of what is chosen where it is and why.
function showDetail() {
  const s = state.status;
  const lines = [];
  const line = (name, value) => value && lines.push(make("dt", name), make("dd", value));
  let about = [];
  if (!s || !chosen) return;
  if (chosen.cpu !== undefined) {
    const c = s.cpus.find((c) => c.id === chosen.cpu);
    if (!c) return;
    line("CPU", at("cpu" + c.id)?.getAttribute("aria-label"));
    about = s.containers.filter((x) => (c.owner ? fullName(x) === c.owner : runsOn(x).has(c.id)));
    line("Runs", about.length ? about.map(fullName).join(", ") : "nobody that cpupoold places");
    if (!c.owner) about = [];
  } else {
    about = s.containers.filter((x) => fullName(x) === chosen.name);
    if (!about.length) line(chosen.name, "is not there any more");
  }
  for (const c of about) {
    line("Name", fullName(c));
    line("Pool", poolName(c) + (c.exclusive ? ", CPUs of its own" : ""));
    line("CPUs", c.cpus + (c.mixed ? `, and shared ones beside them: ${c.mixed}` : ""));
    line("Kept by", c.mode);
    line("Why", `${c.reason} (${c.code})`);
    line("State", c.state);
    line("Cgroup", c.cgroup);
    for (const f of s.faults || []) if (f.cgroup === c.cgroup) line("Not as planned", make("span", f.error, { class: "bad" }));
    for (const w of s.waits || []) if (w.cgroup === c.cgroup) line("Waits", `${w.property}: ${w.reason}`);
    for (const p of s.problems || []) if (p.unit ? p.unit === c.name : p.pod === `${c.namespace}/${c.pod}` && (!p.container || p.container === c.name)) line("Problem", make("span", `${p.text} (${p.code})`, { class: "bad" }));
    for (const e of s.lastWrites || []) if (e.cgroup && e.cgroup === c.cgroup) line("Wrote", `${new Date(e.time).toLocaleTimeString()} ${e.property} = ${e.value}`);
  }
  at("detail").replaceChildren(make("dl", lines));
}

// mark shows in picture and table what is chosen.
function mark() {
  const s = state.status;
  if (!s) return;
  let with_ = new Set();
  let names = new Set();
  if (chosen && chosen.cpu !== undefined) {
    with_.add(chosen.cpu);
    for (const c of s.containers) if (runsOn(c).has(chosen.cpu)) names.add(fullName(c));
  } else if (chosen) {
    names.add(chosen.name);
    for (const c of s.containers) if (fullName(c) === chosen.name) for (const cpu of runsOn(c)) with_.add(cpu);
  }
  for (const c of document.querySelectorAll("#machine .cpu")) {
    c.classList.toggle("with", with_.has(Number(c.dataset.cpu)));
    c.setAttribute("aria-pressed", String(with_.has(Number(c.dataset.cpu))));
  }
  for (const r of document.querySelectorAll("#rows tr")) r.classList.toggle("chosen", names.has(r.dataset.name));
}

// go moves the focus to the nearest CPU in a direction.
function go(from, dx, dy) {
  const middle = (e) => { const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; };
  const [x, y] = middle(from);
  let best = null, least = Infinity;
  for (const c of document.querySelectorAll("#machine .cpu")) {
    const [cx, cy] = middle(c);
    const ahead = (cx - x) * dx + (cy - y) * dy;
    const aside = Math.abs((cx - x) * dy) + Math.abs((cy - y) * dx);
    if (ahead < 1 || ahead + 3 * aside >= least) continue;
    best = c;
    least = ahead + 3 * aside;
  }
  if (best) focus(best);
}

function focus(cpu) {
  at("cpu" + focused)?.setAttribute("tabindex", "-1");
  focused = Number(cpu.dataset.cpu);
  cpu.setAttribute("tabindex", "0");
  cpu.focus();
}

at("machine").addEventListener("click", (e) => {
  const cpu = e.target.closest(".cpu");
  if (!cpu) return;
  focus(cpu);
  choose({ cpu: Number(cpu.dataset.cpu) });
});
at("machine").addEventListener("keydown", (e) => {
  const cpu = e.target.closest(".cpu");
  const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[e.key];
  if (!cpu || e.ctrlKey || e.altKey || e.metaKey) return;
  if (step) go(cpu, ...step);
  else if (e.key === "Enter" || e.key === " ") choose({ cpu: Number(cpu.dataset.cpu) });
  else return;
  e.preventDefault();
});
at("search").addEventListener("input", showRows);

async function follow() {
  for (;;) {
    try {
      const answer = await fetch(state.number ? `state?after=${state.number}` : "state");
      if (answer.status === 200) {
        state = await answer.json();
        if (state.status) state.status.containers ||= []; // a simulation of no pods has none
        show();
        continue;
      }
      if (answer.status !== 204) throw new Error(await answer.text());
    } catch (err) {
      at("error").hidden = false;
      at("error").textContent = `kubectl-cpupool serve does not answer: ${err.message}`;
      await new Promise((done) => setTimeout(done, 2000));
    }
  }
}
follow();
