"use strict";

// Pools with their load, free capacity by NUMA node, ResourceClaims, and the time before placements.

const percent = (part) => `${Math.round(100 * part)} %`;

// withLoad returns the cells of a line, with the load as the last one if it is known.
const withLoad = (cells, load) => (Object.keys(state.load || {}).length ? [...cells, load] : cells);

// loadOf returns how busy CPUs are, or nothing if that is not known.
function loadOf(cpus) {
  const known = cpus.filter((c) => c.online && state.load && state.load[c.id] !== undefined);
  if (!known.length) return "";
  const busy = known.reduce((sum, c) => sum + state.load[c.id], 0);
  return `${busy.toFixed(2)} of ${known.length} (${percent(busy / known.length)})`;
}

function showPools() {
  const s = state.status;
  at("pools-part").hidden = !s.pools.length;
  const rows = s.pools.map((p) => {
    const cpus = members(p.cpus);
    const inPool = s.cpus.filter((c) => (c.pool ? c.pool === p.name && (c.type || "") === (p.type || "") : false));
    const mine = p.name === "guaranteed" || p.name === "claims";
    return withLoad([poolName({ pool: p.name, type: p.type }), p.cpus || "none", String(cpus.size), String(p.containers), mine ? p.owned || "none" : "", mine ? p.free || "none" : ""], loadOf(inPool));
  });
  at("pools").replaceChildren(makeTable(withLoad(["Pool", "CPUs", "#Count", "#Containers", "Owned", "Free"], "Busy CPUs"), rows));
}

// showRoom shows the free CPUs of the guaranteed pool by NUMA node.
function showRoom() {
  const s = state.status;
  const pool = s.pools.find((p) => p.name === "guaranteed");
  at("room-part").hidden = !pool || !pool.cpus;
  if (at("room-part").hidden) return;
  const all = members(pool.cpus), free = members(pool.free);
  const nodes = new Map();
  for (const c of s.cpus) if (c.online) nodes.set(c.node, [...(nodes.get(c.node) || []), c]);
  const rows = [...nodes].sort(([a], [b]) => a - b).map(([node, cpus]) => {
    const here = cpus.filter((c) => free.has(c.id));
    const cores = new Set(cpus.map((c) => c.core));
    const whole = [...cores].filter((core) => cpus.every((c) => c.core !== core || free.has(c.id)));
    return withLoad([`NUMA node ${node}`, String(cpus.filter((c) => all.has(c.id)).length), String(here.length), String(whole.length), listed(here.map((c) => c.id))], loadOf(cpus));
  });
  const r = s.room;
  const parts = [makeTable(withLoad(["Part", "#Guaranteed CPUs", "#Free", "#Free cores", "Free CPUs"], "Busy CPUs"), rows)];
  if (r) {
    const most = `A new container can get ${count(r.pool, "exclusive CPU")} at most; ${r.numaNode} on one NUMA node, ${r.l3} with one L3 cache, ${r.wholeCores} on whole cores of one NUMA node.`;
    parts.unshift(make("p", most + (pool.fromShared && r.pool < free.size ? " The shared pool keeps the other free CPUs (guaranteed.floor)." : "")));
  }
  at("room").replaceChildren(...parts);
}

// showClaims shows the devices, and the ResourceClaims with their CPUs.
function showClaims() {
  const s = state.status, devices = s.devices || [], claims = s.claims || [];
  at("claims-part").hidden = !devices.length && !claims.length;
  const free = devices.map((d) => [d.name, `NUMA node ${d.node}`, d.cpus || "none", String(members(d.cpus).size), d.free || "none"]);
  const rows = claims.flatMap((c) => c.parts.map((p) => [`${c.namespace}/${c.name}`, c.uid.slice(0, 8), c.pod || c.podUID, p.device || "", p.cpus || "none", c.away || "", c.containers.join(", "),
    make("span", [c.reason + " (", codeLink(c.code), ")"], c.code === "Claim" ? {} : { class: "bad" })]));
  at("claims").replaceChildren(
    ...(devices.length ? [makeTable(["Device", "Place", "CPUs", "#Capacity", "Free"], free)] : []),
    ...(claims.length ? [makeTable(["Claim", "UID", "Pod", "Device", "CPUs", "Not usable now", "Containers", "Reason"], rows)] : []));
}

// showExposure shows the time that containers had before their first placement.
function showExposure() {
  const placed = (state.status.placements || []).filter((p) => p.containers);
  at("exposure-part").hidden = !placed.length;
  const mean = (sum, n) => `${(1000 * sum / n).toFixed(1)} ms`;
  const rows = placed.map((p) => [p.way, String(p.containers), mean(p.seconds, p.containers), mean(p.cpuSeconds, p.containers)]);
  at("exposure").replaceChildren(makeTable(["Placed by", "#Containers", "#Time, mean", "#CPU time, mean"], rows));
}

function showCapacity() {
  showPools();
  showRoom();
  showClaims();
  showExposure();
}
