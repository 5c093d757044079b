"use strict";

// Helpers of the other files. Texts of a node become text of elements, and never HTML: the
// tenants of a node choose the names of pods.

const at = (id) => document.getElementById(id);

// make returns an element with text or children in it.
function make(kind, content, attributes) {
  const e = document.createElement(kind);
  for (const [name, value] of Object.entries(attributes || {})) e.setAttribute(name, value);
  for (const part of [content].flat()) if (part !== undefined && part !== null) e.append(part);
  return e;
}

// makeTable returns a table. A column whose title starts with # has numbers.
function makeTable(titles, rows) {
  const kind = (i) => (titles[i].startsWith("#") ? { class: "number" } : {});
  const head = titles.map((t, i) => make("th", t.replace(/^#/, ""), { scope: "col", ...kind(i) }));
  const body = rows.map((r) => make("tr", r.map((cell, i) => make(i ? "td" : "th", cell, i ? kind(i) : { scope: "row" }))));
  return make("table", [make("thead", make("tr", head)), make("tbody", body)]);
}

// members returns the CPUs of a list in the kernel's format.
function members(list) {
  const all = new Set();
  for (const part of (list || "").split(",").filter(Boolean)) {
    const [first, last] = part.split("-").map(Number);
    for (let cpu = first; cpu <= (last ?? first); cpu++) all.add(cpu);
  }
  return all;
}

// listed returns CPUs as a list in the kernel's format.
function listed(cpus) {
  const parts = [];
  for (const cpu of [...cpus].sort((a, b) => a - b)) {
    const last = parts[parts.length - 1];
    if (last && last[1] === cpu - 1) last[1] = cpu;
    else parts.push([cpu, cpu]);
  }
  return parts.map(([a, b]) => (a === b ? `${a}` : `${a}-${b}`)).join(",") || "none";
}

const count = (n, one, many) => `${n} ${n === 1 ? one : many || one + "s"}`;

// runsOn returns the CPUs of a container: of its pool, or its exclusive and shared CPUs.
const runsOn = (c) => members([c.cpus, c.mixed].filter(Boolean).join(","));
const cpusOf = (c) => c.cpus + (c.mixed ? ` + ${c.mixed}` : "");
const claimsOf = (c) => c.claims || [];
const fullName = (c) => (c.unit ? c.name : `${c.namespace}/${c.pod}/${c.name}`);
const poolName = (c) => (c.type && c.type !== c.pool ? `${c.pool} ${c.type}` : c.pool || "none");

// A choice is { cpu: 4 } or { name: "ns/pod/container" }. It is the fragment of the address,
// so that it can be a link.
const fragment = (choice) => (choice.cpu === undefined ? "#name=" + encodeURIComponent(choice.name) : "#cpu=" + choice.cpu);

function choiceOf(text) {
  const [, kind, value] = /^#(name|cpu)=(.+)$/.exec(text) || [];
  try {
    if (kind === "cpu" && /^\d+$/.test(value)) return { cpu: Number(value) };
    if (kind === "name") return { name: decodeURIComponent(value) };
  } catch { /* not an encoded name */ }
  return null;
}

const linkTo = (name) => make("a", name, { href: fragment({ name }) });

// codeLink returns a code as a link to its description, or as text without a description.
function codeLink(code) {
  const to = (state.links || {})[code];
  return to ? make("a", code, { href: to, target: "_blank", rel: "noopener noreferrer", title: "description of this code" }) : code;
}
