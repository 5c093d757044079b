"use strict";

// The state of the page: which node, what is chosen, and the requests for newer states.
let state = { number: null };
let chosen = choiceOf(location.hash);
let node = new URLSearchParams(location.search).get("node") || "";
let request = new AbortController(); // of the latest state

// address returns the address of a path about the node.
function address(path, query) {
  const all = new URLSearchParams(query);
  if (node) all.set("node", node);
  return `${path}?${all}`;
}

function show() {
  const s = state.status;
  at("error").hidden = !state.error;
  at("error").textContent = state.error || "";
  showNodes();
  if (!s) return;
  const name = s.node || "this machine";
  document.title = `${name}: CPU pools`;
  at("node").textContent = name;
  const problems = (s.problems || []).length + (s.faults || []).length;
  at("summary").textContent = `${problems ? count(problems, "problem") : "no problems"}; ${count(s.cpus.length, "CPU")}, ${count(s.containers.length, "container or unit", "containers and units")}; ` +
    (s.daemon && s.daemon.mode ? `${s.daemon.mode}, as of ${new Date(s.time).toLocaleTimeString()}` : "simulated");
  at("audit").hidden = !s.audit;
  at("audit").textContent = s.audit?.summary || "";
  at("notes-part").hidden = !(state.notes || []).length;
  at("notes").replaceChildren(...(state.notes || []).map((n) => make("li", n)));
  at("alone").href = address("picture.svg");
  showFilters();
  showMachine();
  showLists();
  showCapacity();
  showDetail();
}

// showNodes offers the nodes, and links to the others that have problems.
function showNodes() {
  const nodes = state.nodes || [];
  const now = (state.status && state.status.node) || node;
  at("nodes-part").hidden = nodes.length < 2;
  const select = at("nodes");
  const words = (n) => n.name + (n.problems ? ` (${count(n.problems, "problem")})` : "");
  const options = nodes.map((n) => make("option", words(n), { value: n.name }));
  if (options.map((o) => o.text).join("\n") !== [...select.options].map((o) => o.text).join("\n")) select.replaceChildren(...options);
  select.value = now;
  const others = nodes.filter((n) => n.problems && n.name !== now);
  const most = 12; // the list of nodes has the others
  at("elsewhere-part").hidden = !others.length;
  at("elsewhere-title").textContent = `${count(others.length, "other node")} with problems`;
  at("elsewhere").replaceChildren(...others.slice(0, most).map((n) => make("li", make("a", words(n), { href: "?node=" + encodeURIComponent(n.name), "data-node": n.name }))));
}

// choose shows the explanation of a CPU, container or unit, and makes it the address.
function choose(what) {
  chosen = what;
  history.replaceState(null, "", fragment(what));
  showChoice();
}

function showChoice() {
  if (!chosen || !state.status) return;
  showDetail();
  explainChosen();
  mark();
}

// A link to a container changes the fragment alone.
window.addEventListener("hashchange", () => {
  chosen = choiceOf(location.hash);
  showChoice();
  if (chosen && chosen.name && state.status) reveal(chosen.name);
});

// The address does not change if the container is chosen already.
document.addEventListener("click", (e) => {
  const link = e.target.closest && e.target.closest("a");
  if (link && link.hash && link.hash === location.hash && chosen && chosen.name) reveal(chosen.name);
});

function toNode(name) {
  node = name;
  chosen = null;
  state = { number: null };
  at("answer").replaceChildren();
  at("detail").replaceChildren();
  at("explanation").replaceChildren();
  at("again").hidden = true;
  at("detail-title").textContent = "Explanation";
  at("explained").textContent = "Choose a CPU, or a line of the table.";
  asked++;
  request.abort();
}

function goToNode(name) {
  history.pushState(null, "", "?node=" + encodeURIComponent(name));
  toNode(name);
}

at("nodes").addEventListener("change", (e) => goToNode(e.target.value));
at("elsewhere").addEventListener("click", (e) => {
  const link = e.target.closest("a");
  if (!link || e.ctrlKey || e.metaKey || e.shiftKey) return; // another tab or window
  e.preventDefault();
  goToNode(link.dataset.node);
  at("nodes").focus(); // the link disappears
});
window.addEventListener("popstate", () => {
  const name = new URLSearchParams(location.search).get("node") || "";
  if (name !== node) toNode(name);
});

// A window of another width needs another picture.
let width = at("machine").clientWidth;
new ResizeObserver(() => {
  const now = at("machine").clientWidth;
  if (Math.abs(now - width) < 20) return;
  width = now;
  state.number = null;
  request.abort();
}).observe(at("machine"));

async function follow() {
  for (;;) {
    request = new AbortController();
    try {
      const answer = await fetch(address("state", { width, ...(state.number === null ? {} : { after: state.number }) }), { signal: request.signal });
      if (answer.status === 200) {
        const first = !state.status, next = await answer.json();
        if (request.signal.aborted) continue;
        state = next;
        if (state.status) {
          for (const part of ["containers", "pools"]) state.status[part] ||= []; // absent in a simulation without pods
          show();
          if (first) showChoice();
        } else show();
        continue;
      }
      if (answer.status !== 204) throw new Error(await answer.text());
    } catch (err) {
      if (err.name === "AbortError") continue;
      at("error").hidden = false;
      at("error").textContent = `kubectl-cpupool serve: ${err.message}`;
      await new Promise((done) => setTimeout(done, 2000));
    }
  }
}
follow();
