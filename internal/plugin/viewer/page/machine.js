"use strict";

// The picture of the machine: keyboard, mouse, and the marks of chosen and filtered CPUs.
let focused = 0; // the CPU that the tab key goes to

const allCPUs = () => [...document.querySelectorAll("#machine .cpu")];

function showMachine() {
  const held = document.activeElement && document.activeElement.closest && document.activeElement.closest("#machine .cpu");
  if (held) focused = Number(held.dataset.cpu);
  const picture = new DOMParser().parseFromString(state.picture, "image/svg+xml").documentElement;
  at("machine").replaceChildren(document.importNode(picture, true));
  const cpus = allCPUs();
  if (!cpus.some((c) => Number(c.dataset.cpu) === focused) && cpus.length) focused = Number(cpus[0].dataset.cpu);
  for (const c of cpus) {
    c.setAttribute("role", "button");
    c.setAttribute("tabindex", Number(c.dataset.cpu) === focused ? "0" : "-1");
  }
  if (held) at("cpu" + focused)?.focus();
}

// mark shows in picture and table the chosen container or CPU, and the CPUs of the filters.
function mark() {
  const s = state.status;
  if (!s) return;
  const cpus = new Set(), names = new Set();
  if (chosen && chosen.cpu !== undefined) {
    cpus.add(chosen.cpu);
    for (const c of s.containers) if (runsOn(c).has(chosen.cpu)) names.add(fullName(c));
  } else if (chosen) {
    names.add(chosen.name);
    for (const c of s.containers) if (fullName(c) === chosen.name) for (const cpu of runsOn(c)) cpus.add(cpu);
  }
  const within = filteredCPUs();
  for (const c of allCPUs()) {
    const cpu = Number(c.dataset.cpu);
    c.classList.toggle("with", cpus.has(cpu));
    c.classList.toggle("filtered", within !== null && !within.has(cpu));
    c.setAttribute("aria-pressed", String(cpus.has(cpu)));
  }
  for (const r of document.querySelectorAll("#rows tr")) r.classList.toggle("chosen", names.has(r.dataset.name));
}

// go moves the focus to the nearest CPU in a direction.
function go(from, dx, dy) {
  const middle = (e) => { const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; };
  const [x, y] = middle(from);
  let best = null, least = Infinity;
  for (const c of allCPUs()) {
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
