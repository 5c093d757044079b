"use strict";

// The explanation of the chosen CPU, container or unit: the answer in one sentence, the facts
// of the status, and the explanation of the daemon or of the simulation.
let asked = 0; // the number of the latest request: answers to others come too late

// askedAs is the name under which the server knows a container or unit, as viewer.Name.
const askedAs = (c) => (c.unit ? c.name : c.podUID ? `${c.podUID}/${c.name}` : fullName(c));

// chosenSubjects returns the containers or units of the choice. For a CPU it is the owner, or the
// containers of its claim. For a CPU of a pool there are none, because many can share it.
function chosenSubjects() {
  const all = state.status.containers;
  if (chosen.cpu === undefined) return all.filter((c) => fullName(c) === chosen.name);
  const cpu = state.status.cpus.find((c) => c.id === chosen.cpu);
  return cpu && cpu.owner ? all.filter((c) => fullName(c) === cpu.owner || claimsOf(c).some((name) => `claim ${name}` === cpu.owner)) : [];
}

// showDetail shows the facts of the status about the choice.
function showDetail() {
  const s = state.status;
  if (!s || !chosen) return;
  const lines = [];
  const line = (name, value) => value && lines.push(make("dt", name), make("dd", value));
  at("detail-title").textContent = chosen.cpu === undefined ? chosen.name : `CPU ${chosen.cpu}`;
  const about = chosenSubjects();
  if (chosen.cpu !== undefined) {
    const c = s.cpus.find((c) => c.id === chosen.cpu);
    line("CPU", at("cpu" + chosen.cpu)?.getAttribute("aria-label"));
    const here = s.containers.filter((x) => c && !c.owner && runsOn(x).has(c.id));
    if (here.length) line("Runs here", make("ul", here.map((x) => make("li", linkTo(fullName(x))))));
    if (c && c.owner && !about.length) line("Owner", c.owner);
  }
  for (const c of about) {
    if (chosen.cpu !== undefined) line("Owner", linkTo(fullName(c)));
    line("Pool", poolName(c) + (c.exclusive ? ", exclusive CPUs" : ""));
    line("Claims", claimsOf(c).join(", "));
    line("CPUs", c.cpus + (c.mixed ? `, and shared CPUs ${c.mixed}` : ""));
    line("Isolation", c.mode);
    line("Reason", [c.reason + " (", codeLink(c.code), ")"]);
    line("State", c.state);
    line("Cgroup", c.cgroup);
    for (const p of s.problems || []) if (p.text !== c.reason && subjectsOf(p).includes(c)) line("Problem", make("span", [p.text + " (", codeLink(p.code), ")"], { class: "bad" }));
    for (const f of s.faults || []) if (c.cgroup && f.cgroup === c.cgroup) line("Fault", make("span", f.error, { class: "bad" }));
    for (const w of s.waits || []) if (c.cgroup && w.cgroup === c.cgroup) line("Written later", `${w.property}: ${w.reason}`);
    for (const e of s.lastWrites || []) if (e.cgroup && e.cgroup === c.cgroup) line("Write", `${new Date(e.time).toLocaleTimeString()} ${e.property} = ${e.value}`);
  }
  at("detail").replaceChildren(...(lines.length ? [make("dl", lines)] : []));
}

// answerTo shows the answer in one sentence, and what to change.
function answerTo(sentences) {
  at("answer").replaceChildren(...sentences.flatMap(([sentence, fix]) => [make("p", sentence, { class: "sentence" }), fix ? make("p", "Fix: " + fix, { class: "fix" }) : null]).filter(Boolean));
}

// shortAnswer is the answer that the status alone has.
function shortAnswer() {
  const about = chosenSubjects();
  if (about.length) return about.map((c) => [`${fullName(c)}: ${c.reason}`]);
  if (chosen.cpu === undefined) return [[`${chosen.name} no longer exists on this node.`]];
  const c = state.status.cpus.find((c) => c.id === chosen.cpu);
  if (!c) return [[`This node has no CPU ${chosen.cpu}.`]];
  const here = state.status.containers.filter((x) => runsOn(x).has(c.id)).length;
  return [[c.use === "pool" ? `CPU ${c.id} is in the ${poolName(c)} pool, and ${count(here, "container or unit", "containers and units")} can run on it.` : at("cpu" + c.id)?.getAttribute("aria-label") || `CPU ${c.id}`]];
}

async function explainChosen() {
  const number = ++asked;
  const about = [...new Set(chosenSubjects().map(askedAs))];
  at("again").hidden = true;
  at("explanation").replaceChildren();
  answerTo(shortAnswer());
  at("explained").textContent = about.length ? "Asking …" : "";
  const parts = [], answers = [], errors = [];
  for (const name of about) {
    let got;
    try {
      const answer = await fetch(address("explain", { of: name }));
      got = answer.ok ? await answer.json() : { error: await answer.text() };
    } catch (err) {
      got = { error: `kubectl-cpupool serve does not answer: ${err.message}` };
    }
    if (number !== asked) return;
    if (got.error) errors.push("No explanation: " + got.error);
    for (const s of (got.explanation && got.explanation.subjects) || []) {
      answers.push([s.sentence || `${fullName(s.container)}: ${s.container.reason}`, s.fix]);
      parts.push(subject(s, got.explanation.time));
    }
  }
  if (!about.length) return;
  if (answers.length) answerTo(answers);
  at("explained").textContent = errors.join(" ");
  at("explanation").replaceChildren(...parts);
  at("again").hidden = !state.status.daemon || !state.status.daemon.mode; // a simulation does not change
}

// part is a closed part of the explanation, or nothing without content.
const part = (title, content) => (content ? [make("details", [make("summary", title), content])] : []);
const list = (kind, items) => (items && items.length ? make(kind, items) : null);

// subject is the explanation of one container or unit.
function subject(s, time) {
  const c = s.container;
  const bad = (text) => make("li", text, { class: "bad" });
  const faults = [
    ...(s.problems || []).map((p) => bad([p.text + " (", codeLink(p.code), ")"])),
    ...(s.faults || []).map((f) => bad(f.error)),
    ...(s.waits || []).map((w) => make("li", `${w.property} is written later: ${w.reason}`)),
  ];
  return make("article", [
    ...part("Changes that lead to other CPUs, tried on this node", list("ul", (s.changes || []).map((x) => make("li", `${x.what}: ${x.then}`)))),
    ...part("Rules, in their order", list("ol", (s.rules || []).map(ruleLine))),
    ...part("Places for exclusive CPUs", list("ul", (s.candidates || []).map((x) => make("li", `${x.part}, free ${x.free || "none"}: ${x.why}`)))),
    ...part("ResourceClaims", list("ul", (s.claims || []).map((x) => make("li", claimLine(x, c.name))))),
    ...part("Problems and faults", list("ul", faults)),
    ...part("Files of the cgroup", kernelTable(s.kernel, s.wanted || {})),
    ...part("Decisions and writes", list("ol", (s.events || []).map(eventLine))),
    s.earlier ? make("p", `${s.earlier} earlier events are left out.`, { class: "hint" }) : null,
    time && !time.startsWith("0001") ? make("p", `As of ${new Date(time).toLocaleTimeString()}.`, { class: "hint" }) : null,
  ], { "aria-label": `Explanation of ${fullName(c)}` });
}

// claimLine is a line of a claim, with the other containers that use its CPUs.
function claimLine(x, container) {
  const others = x.containers.filter((name) => name !== container);
  return `${x.namespace}/${x.name}: CPUs ${x.cpus || "none"}${x.away ? `, not usable now ${x.away}` : ""}${others.length ? `, shared with ${others.join(", ")}` : ""}: ${x.reason} (${x.code})`;
}

function ruleLine(r) {
  const text = `${r.statement}${r.answer ? ": " + r.answer : ""} (${r.name})`;
  return make("li", (r.met ? "Yes: " : "No: ") + text, r.met ? { class: "met" } : {});
}

// eventLine is a line of a decision or a write.
function eventLine(e) {
  const what = e.property ? `${e.property} = ${e.value || ""}${e.before ? `, before ${e.before}` : ""}${e.via ? ` (by ${e.via})` : ""}` : e.value || "";
  const text = [new Date(e.time).toLocaleString(), e.kind, what, e.cause, e.code && `(${e.code})`].filter(Boolean).join(" ");
  return make("li", e.error ? [text + ": ", make("span", e.error, { class: "bad" })] : text);
}

// kernelTable is a table of the cgroup's files with their desired values.
function kernelTable(k, want) {
  if (!k) return null;
  const quota = want.unlimited ? "max" : want.quota > 0 ? `${want.quota} ${want.period}` : "";
  const rows = [
    ["cpuset.cpus", k.cpus, want.cpus], ["cpuset.cpus.effective", k.effective], ["cpuset.cpus.partition", k.partition],
    ["cpuset.mems", k.mems, want.mems], ["cpuset.mems.effective", k.memsEffective], ["cpu.weight", k.weight, want.weight && String(want.weight)], ["cpu.max", k.max, quota],
  ].filter((r) => r[1] || r[2]).map(([file, is, to]) => [file, is || "", to || ""]);
  return make("div", [make("p", `cgroup ${k.cgroup}`), makeTable(["File", "Value", "Desired"], rows), k.error ? make("p", k.error, { class: "bad" }) : null]);
}

at("again").addEventListener("click", () => {
  explainChosen();
  at("detail-title").focus(); // the button is hidden until the answer comes
});
