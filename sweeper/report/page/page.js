"use strict";
const index = JSON.parse(document.getElementById("index").textContent);
const body = document.querySelector("#points tbody");
const rows = [...body.rows];
const make = (tag, attributes = {}, ...inside) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...inside);
  return made;
};

// Sorting: a heading sorts down first when it is a number; missing figures stay last.
document.querySelectorAll("#points thead th").forEach((head, column) => {
  head.querySelector("button").addEventListener("click", () => {
    const number = head.classList.contains("n");
    const first = number ? "descending" : "ascending";
    const other = number ? "ascending" : "descending";
    const order = head.getAttribute("aria-sort") === first ? other : first;
    document.querySelectorAll("#points thead th").forEach(h => h.setAttribute("aria-sort", "none"));
    head.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const value = row => row.cells[column].dataset.o;
    rows.sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      if (x === "" || y === "") return (x === "") - (y === "");
      return sign * (number ? x - y : x.localeCompare(y, undefined, { numeric: true }));
    });
    body.append(...rows);
  });
});

// Narrowing: every word of the search and every choice must fit.
const search = document.getElementById("search");
const choices = [...document.querySelectorAll("select[data-facet]")];
rows.forEach(row => { row.facets = JSON.parse(row.dataset.f); });
function narrow() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const row of rows) {
    const reason = row.lastElementChild.title || "";
    row.words ??= (row.cells[0].textContent + " " + row.facets.join(" ") + " " + reason).toLowerCase();
    const fits = words.every(w => row.words.includes(w))
      && choices.every(c => !c.value || row.facets[c.dataset.facet] === c.value);
    row.hidden = !fits;
    count += fits;
  }
  document.getElementById("shown").textContent =
    count === rows.length ? `${count} points` : `${count} of ${rows.length} points`;
}
search.addEventListener("input", narrow);
choices.forEach(choice => choice.addEventListener("change", narrow));
document.querySelector(".filters").addEventListener("reset", () => setTimeout(narrow));
document.querySelector(".filters").addEventListener("submit", event => event.preventDefault());

// Copying; a page in a sandbox may not use the clipboard, then the text is selected.
document.querySelectorAll(".copy").forEach(button => button.addEventListener("click", async () => {
  const pre = button.previousElementSibling;
  try {
    await navigator.clipboard.writeText(pre.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(pre);
    button.textContent = document.execCommand("copy") ? "Copied" : "Selected";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
}));

// Requests lie in the page or beside it; a page from disk may load a script but not fetch a file.
const loaded = new Map();
window.sweeperSide = (name, data) => loaded.get(name).done(data);
function side(name) {
  if (loaded.has(name)) return loaded.get(name).promise;
  const entry = {};
  entry.promise = new Promise((done, failed) => { entry.done = done; entry.failed = failed; });
  loaded.set(name, entry);
  const block = document.getElementById(`side-${name}`);
  if (block) { entry.done(JSON.parse(block.textContent)); return entry.promise; }
  const script = make("script", { src: `requests/${name}.js` });
  script.onerror = () => entry.failed(new Error(
    `requests/${name}.js is not beside this page: open the report in the sweep's folder`));
  document.head.append(script);
  return entry.promise;
}

// Drill-down.
const detail = document.getElementById("detail");
const list = document.getElementById("requests");
let wanted = 0;
async function open(number) {
  const point = index.points[number];
  if (!point) return;
  const turn = ++wanted;
  rows.forEach(row => row.classList.toggle("chosen", row.dataset.p === String(number)));
  detail.hidden = false;
  const heading = document.getElementById("h-detail");
  heading.textContent = `Requests of ${point.label} · ${point.workload}`;
  list.replaceChildren(make("p", { class: "sub" }, "loading …"));
  heading.focus();
  detail.scrollIntoView({ block: "start" });
  try {
    const none = Promise.resolve([]);
    const [own, base, prompts] = await Promise.all([
      point.requests ? side(number) : none,
      point.baseline !== null && index.points[point.baseline].requests ? side(point.baseline) : none,
      point.prompts ? side(point.prompts) : Promise.resolve({}),
    ]);
    if (turn !== wanted) return;
    const key = r => JSON.stringify([r.id, r.turn, r.repeat]);
    const bases = new Map(base.map(r => [key(r), r]));
    const made = own.map((r, n) => request(r, bases.get(key(r)), prompts[r.id], n === 0, point));
    list.replaceChildren(legend(), ...(made.length ? made : [make("p", {}, point.why || "no requests")]));
  } catch (problem) {
    if (turn === wanted) list.replaceChildren(make("p", { role: "alert" }, problem.message));
  }
}
function legend() {
  return make("p", { class: "sub" }, make("span", { class: "a" }, "accepted draft tokens"),
    " · plain: tokens of the target · ", make("span", { class: "d" }, "differs from the other answer"));
}
function request(own, base, prompt, first, point) {
  const box = make("details", { class: "request" });
  box.open = first;
  const rate = own.spec && own.spec[1] ? ` · A/D ${own.spec[2]}/${own.spec[1]}` : "";
  // Both rates and no ratio: one request has no interval, and sampled answers differ in length.
  const speed = r => (r.tokens / r.seconds).toFixed(1);
  const rates = base && !base.error && !own.error && own.tokens && base.tokens
    ? ` · ${speed(own)} tokens/s, the baseline ${speed(base)}` : "";
  const turn = (own.turn ? ` turn ${own.turn}` : "") + (own.repeat ? ` repeat ${own.repeat}` : "");
  box.append(make("summary", {}, make("b", {}, own.id + turn), " ", make("span", { class: "meta" },
    [own.category, own.error ? "failed" : `${own.tokens} tokens in ${own.seconds.toFixed(2)} s`].filter(Boolean).join(" · ")
    + rate + rates)));
  let filled = false;
  const fill = () => {
    if (filled || !box.open) return;
    filled = true;
    box.append(...inside(own, base, prompt, point));
  };
  box.addEventListener("toggle", fill);
  fill();
  return box;
}
function inside(own, base, prompt, point) {
  const parts = [make("div", { class: "prompt" }, make("h5", {}, "Prompt"),
    make("div", { class: "text" }, prompt ? prompt.slice(0, own.turn + 1).join("\n\n")
      : "the prompt file is not there any more, or has changed"))];
  if (own.error) return [...parts, make("h5", {}, "Error"), make("div", { class: "text" }, own.error)];
  const differing = base && !base.error ? difference(own.text, base.text) : null;
  const left = make("div", {}, make("h5", {}, `Answer of ${point.label}`), text(own, differing && differing[0]));
  if (own.why) left.append(make("p", { class: "sub" }, `Not coloured by step: ${own.why}.`));
  if (own.strip) left.append(strip(own.strip));
  const both = make("div", { class: "both" }, left);
  if (point.baseline !== null) {
    const right = base ? text({ text: base.error || base.text }, differing && differing[1])
      : make("p", {}, "the baseline has no answer to this prompt");
    both.append(make("div", {}, make("h5", {}, "Answer of the baseline"), right));
  }
  const same = !differing ? "" : own.text === base.text ? "The two answers are equal."
    : `The first difference is at character ${common(own.text, base.text) + 1}.`;
  return [...parts, both, make("p", { class: "sub" }, same)];
}
function text(answer, differs) {
  const box = make("div", { class: "text" });
  let at = 0;
  const piece = (words, classes, title) => {
    for (const [from, to, odd] of runs(at, at + words.length, differs)) {
      const span = make("span", {}, words.slice(from - at, to - at));
      span.className = [...classes, odd ? "d" : ""].filter(Boolean).join(" ");
      if (title) span.title = title;
      box.append(span.className ? span : span.textContent);
    }
    at += words.length;
  };
  (answer.steps || [["", answer.text, 0, 0]]).forEach(([accepted, bonus, drafted, count], n) => {
    const title = drafted ? `step ${n}: ${count} of ${drafted} accepted` : "";
    if (accepted) piece(accepted, ["a"], title);
    if (bonus) piece(bonus, [], "");
  });
  return box;
}
function* runs(from, to, differs) {
  for (const [a, b] of differs || []) {
    if (b <= from || a >= to) continue;
    if (a > from) { yield [from, a, false]; from = a; }
    const end = Math.min(b, to);
    yield [from, end, true];
    from = end;
  }
  if (from < to) yield [from, to, false];
}
function common(one, other) {
  let n = 0;
  while (n < one.length && n < other.length && one[n] === other[n]) n++;
  return n;
}
// Words that are not in both answers in the same order, as character ranges of each answer.
function difference(one, other) {
  if (one === other) return [[], []];
  const cut = words => words.match(/\s+|[^\s]+/g) || [];
  const [x, y] = [cut(one), cut(other)];
  if (x.length * y.length > 4e6) {
    const n = common(one, other);
    return [[[n, one.length]], [[n, other.length]]];
  }
  const wide = y.length + 1, best = new Uint16Array((x.length + 1) * wide);
  for (let i = x.length - 1; i >= 0; i--) for (let j = y.length - 1; j >= 0; j--)
    best[i * wide + j] = x[i] === y[j] ? best[(i + 1) * wide + j + 1] + 1
      : Math.max(best[(i + 1) * wide + j], best[i * wide + j + 1]);
  const found = [[], []];
  let i = 0, j = 0, a = 0, b = 0;
  const odd = (side, start, length) => {
    const last = found[side].at(-1);
    if (last && last[1] === start) last[1] += length; else found[side].push([start, start + length]);
  };
  while (i < x.length || j < y.length) {
    if (i < x.length && j < y.length && x[i] === y[j]) { a += x[i++].length; b += y[j++].length; }
    else if (j >= y.length || (i < x.length && best[(i + 1) * wide + j] >= best[i * wide + j + 1]))
      { odd(0, a, x[i].length); a += x[i++].length; }
    else { odd(1, b, y[j].length); b += y[j++].length; }
  }
  return found;
}
function strip(steps) {
  const total = steps.reduce((sum, [, accepted]) => sum + accepted, 0);
  const box = make("div", { class: "strip", role: "img",
    "aria-label": `${steps.length} steps with a draft, ${total} tokens accepted` });
  steps.slice(0, 600).forEach(([drafted, accepted], n) => {
    const bar = make("b", { style: `height:${drafted ? 100 * accepted / drafted : 0}%` });
    box.append(make("i", { title: `step ${n + 1} with a draft: ${accepted} of ${drafted} accepted` }, bar));
  });
  return box;
}
// Plots of the later workloads are text until they are wanted, so that a large page opens at once.
function draw(workload) {
  workload.querySelectorAll("script.later").forEach(later => {
    const drawn = make("div", { class: "plots" });
    drawn.innerHTML = later.textContent;
    later.replaceWith(drawn);
  });
}
const workloads = document.querySelectorAll("details.workload");
workloads.forEach(one => one.addEventListener("toggle", () => { if (one.open) draw(one); }));

function follow() {
  const match = /^#point-(\d+)$/.exec(location.hash);
  if (match) open(Number(match[1]));
}
addEventListener("hashchange", follow);
document.addEventListener("click", event => {
  const link = event.target.closest('a[href^="#point-"]');
  if (link && link.getAttribute("href") === location.hash) follow();
});
addEventListener("beforeprint", () => workloads.forEach(draw));
addEventListener("beforeprint", () => document.querySelectorAll("details.workload, details.notes, .verdict details").forEach(d => { d.open = true; }));
follow();
