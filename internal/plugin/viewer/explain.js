"use strict";

// The explanation of what is chosen, as the daemon gives it. page.js has what is used here.
let asked = 0; // the number of the latest question: answers to others come too late

// askedAs is the name under which the server knows a container or unit, as viewer.Name.
const askedAs = (c) => (c.unit ? c.name : c.podUID ? `${c.podUID}/${c.name}` : fullName(c));

// subjectsChosen are those whom the choice means: of a CPU its owner alone, for others share theirs.
function subjectsChosen() {
  const all = state.status ? state.status.containers : [];
  if (!chosen) return [];
  if (chosen.cpu === undefined) return all.filter((c) => fullName(c) === chosen.name);
  const cpu = state.status.cpus.find((c) => c.id === chosen.cpu);
  return cpu && cpu.owner ? all.filter((c) => fullName(c) === cpu.owner) : [];
}

async function explainChosen() {
  const number = ++asked;
  const about = [...new Set(subjectsChosen().map(askedAs))];
  at("explain-part").hidden = false;
  at("again").hidden = true;
  at("explanation").replaceChildren();
  if (!about.length) {
    at("explained").textContent = chosen.cpu === undefined ? "It is not there any more." : "This CPU is nobody's own: choose a line of the table to see why somebody runs where it runs.";
    return;
  }
  at("explained").textContent = "Asking …";
  const parts = [];
  const said = [];
  for (const name of about) {
    let got;
    try {
      const answer = await fetch("explain?of=" + encodeURIComponent(name));
      got = answer.ok ? await answer.json() : { error: await answer.text() };
    } catch (err) {
      got = { error: `kubectl-cpupool serve does not answer: ${err.message}` };
    }
    if (number !== asked) return;
    if (got.error) said.push("No explanation: " + got.error);
    for (const s of (got.explanation && got.explanation.subjects) || []) {
      parts.push(subject(s, got.explanation.time));
      const met = (s.rules || []).find((r) => r.met);
      said.push(`${fullName(s.container)} is explained as of ${new Date(got.explanation.time).toLocaleTimeString()}` + (met ? `; what decided: ${met.statement}.` : "."));
    }
  }
  at("explained").textContent = said.join(" ");
  at("explanation").replaceChildren(...parts);
  at("again").hidden = false;
}

// part is a heading with what is under it; nothing where there is nothing.
const part = (title, content, empty) => (content ? [make("h3", title), content] : empty ? [make("h3", title), make("p", empty, { class: "hint" })] : []);
const list = (kind, items) => (items && items.length ? make(kind, items) : null);

// subject is all that is said of one container or unit.
function subject(s, time) {
  const c = s.container;
  const bad = (text) => make("li", text, { class: "bad" });
  const not = [
    ...(s.problems || []).map((p) => bad(`${p.text} (${p.code})`)),
    ...(s.faults || []).map((f) => bad(f.error)),
    ...(s.waits || []).map((w) => make("li", `${w.property} waits: ${w.reason}`)),
  ];
  return make("article", [
    make("p", `${fullName(c)}: ${c.reason} (${c.code})`),
    ...part("Rules, in the order in which they were tried", list("ol", (s.rules || []).map(ruleLine))),
    ...part("Where CPUs of its own could be, as if it had none now", list("ul", (s.candidates || []).map((x) => make("li", `${x.part}, free ${x.free || "none"}: ${x.why}`)))),
    ...part("What would change it, tried on the node as it was", list("ul", (s.changes || []).map((x) => make("li", `${x.what}: ${x.then}`))), "Nothing that was tried."),
    ...part("What the kernel says", kernelTable(s.kernel, s.wanted || {}), "It has no cgroup at the moment."),
    ...part("Not honoured, or not as planned", list("ul", not)),
    ...part("Decisions and writes", list("ol", (s.events || []).map(eventLine)), "None is kept."),
    s.earlier ? make("p", `${s.earlier} earlier ones are not shown.`, { class: "hint" }) : null,
  ], { "aria-label": `Explanation of ${fullName(c)}`, "data-time": time });
}

function ruleLine(r) {
  const text = `${r.statement}${r.answer ? ": " + r.answer : ""} (${r.name})`;
  return make("li", (r.met ? "Yes: " : "No: ") + text, r.met ? { class: "met" } : {});
}

// event is a line of what was decided or written.
function eventLine(e) {
  const what = e.property ? `${e.property} = ${e.value || ""}${e.before ? `, before ${e.before}` : ""}${e.via ? ` (by ${e.via})` : ""}` : e.value || "";
  const text = [new Date(e.time).toLocaleString(), e.kind, what, e.cause, e.code && `(${e.code})`].filter(Boolean).join(" ");
  return make("li", e.error ? [text + ": ", make("span", e.error, { class: "bad" })] : text);
}

// kernel is a table of the cgroup's files beside what they are to be.
function kernelTable(k, want) {
  if (!k) return null;
  const quota = want.unlimited ? "max" : want.quota > 0 ? `${want.quota} ${want.period}` : "";
  const rows = [
    ["cpuset.cpus", k.cpus, want.cpus], ["cpuset.cpus.effective", k.effective], ["cpuset.cpus.partition", k.partition],
    ["cpuset.mems", k.mems, want.mems], ["cpuset.mems.effective", k.memsEffective], ["cpu.weight", k.weight, want.weight && String(want.weight)], ["cpu.max", k.max, quota],
  ].filter((r) => r[1] || r[2]).map(([file, is, to]) => make("tr", [make("th", file, { scope: "row" }), make("td", is || ""), make("td", to || "")]));
  const head = make("thead", make("tr", ["File", "The kernel says", "Is to be"].map((text) => make("th", text, { scope: "col" }))));
  const parts = [make("p", `cgroup ${k.cgroup}`), make("table", [head, make("tbody", rows)])];
  if (k.error) parts.push(make("p", k.error, { class: "bad" }));
  return make("div", parts);
}

at("again").addEventListener("click", () => {
  explainChosen();
  at("explain-title").focus(); // the button is away while it is asked
});
