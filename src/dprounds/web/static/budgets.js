// The budgets of a ledger: what is left, what was spent, and what the job on the page would cost. Only for who has a token.

import { Refused } from "./asking.js";
import { Chart } from "./chart.js";
import { askedRun, save } from "./main.js";

const at = (id) => document.getElementById(id);
const KEPT = "ledger-token";
// Entries of the history that are shown at once.
const PART = 20;
// Blocks that are shown: those with the least left.
const MOST_BLOCKS = 12;
// The longest unit of time that fits at least twice into what is drawn, in milliseconds.
const UNITS = [["days", 86_400_000], ["hours", 3_600_000], ["minutes", 60_000], ["seconds", 1000]];

let token = "";
let budgets = [];
let chosen = null; // the budget that is shown in full
let oldest = 0; // the number of the oldest entry in the table
let turn = 0; // what arrives for an earlier choice is not shown
let spent = null;
const chart = new Chart(at("spent-chart"), { x: "days", y: "spent", percent: "y" });

function kept(text) {
  try {
    if (text === undefined) return sessionStorage.getItem(KEPT) ?? "";
    if (text) sessionStorage.setItem(KEPT, text);
    else sessionStorage.removeItem(KEPT);
  } catch {
    // storage may be forbidden: then it lasts as long as the page
  }
  return text ?? "";
}

// The token goes into a header, and nowhere else.
async function request(route, { query = {}, body } = {}) {
  const headers = { authorization: `Bearer ${token}` };
  const options = body === undefined ? { headers } : { method: "POST", headers: { ...headers, "content-type": "application/json" }, body: JSON.stringify(body) };
  let response;
  try {
    response = await fetch(`/api/ledger/${route}?${new URLSearchParams(query)}`.replace(/\?$/, ""), { ...options, cache: "no-store" });
  } catch {
    throw new Refused("The server does not answer. Nothing was charged.");
  }
  if (response.ok) return response;
  throw new Refused((await response.json()).error);
}

async function ask(route, options) {
  return (await request(route, options)).json();
}

function say(id, sentence) {
  at(id).hidden = !sentence;
  at(id).textContent = sentence;
}

// Do something, and show in words why it was refused.
async function attempt(place, work) {
  say(place, "");
  try {
    await work();
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    say("job-cost", "");
    say(place, error.message);
  }
}

// What is left is rounded down, and what is taken up.
const down = (share) => `${(Math.floor(share * 10_000) / 100).toFixed(2)} %`;
const up = (share) => (share === "inf" ? "more than all" : `${(Math.ceil(share * 10_000) / 100).toFixed(2)} %`);
const many = (number, one, more = `${one}s`) => `${number.toLocaleString("en")} ${number === 1 ? one : more}`;
const small = (value) => (value < 1e-3 ? value.toExponential() : String(value));
const stated = ({ epsilon, delta }) => `ε = ${epsilon}${delta ? ` at δ = ${small(delta)}` : ""}`;

function node(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function bar({ name, share_left: left }) {
  const fill = node("span", { class: "fill" });
  fill.style.width = `${100 * left}%`;
  const about = { "aria-label": `Left of ${name}`, "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuetext": down(left) };
  return node("span", { class: "bar", role: "meter", "aria-valuenow": Math.floor(100 * left), ...about }, fill);
}

// Each block has the whole budget: one number for all of them is that of the block with the least left.
function ofFullest({ has_blocks: hasBlocks, blocks }) {
  if (!hasBlocks) return "";
  return blocks ? ` in the fullest of ${many(blocks, "block")}` : " in every block";
}

function showList() {
  const hadFocus = at("budget-list").contains(document.activeElement);
  at("budget-list").replaceChildren(...budgets.map((each) => {
    const button = node("button", { type: "button", "aria-pressed": String(each.name === chosen) },
      node("span", { class: "name" }, each.name), node("span", { class: "about" }, `${stated(each)}, ${each.filter}`),
      bar(each), node("span", { class: "left" }, `${down(each.share_left)} left${ofFullest(each)}`));
    button.addEventListener("click", () => choose(each.name));
    return node("li", {}, button);
  }));
  if (hadFocus) at("budget-list").querySelector("[aria-pressed=true]")?.focus({ preventScroll: true });
}

async function refresh() {
  ({ budgets } = await ask("status"));
  at("budgets-found").hidden = false;
  at("forget-token").hidden = false;
  showList();
  if (!budgets.length) say("budgets-refusal", "There is no open budget for this token.");
  const first = budgets.find(({ name }) => name === chosen) ?? budgets[0];
  if (first) await show(first.name);
}

function choose(name) {
  attempt("budgets-refusal", () => show(name));
}

async function show(name) {
  turn += 1;
  const mine = turn;
  chosen = name;
  showList();
  // jobs may have been charged or given back since the list was shown: all numbers are of now, as the curve is
  const { budgets: [status] } = await ask("status", { query: { name } });
  if (mine !== turn) return;
  budgets = budgets.map((each) => (each.name === name ? status : each));
  showList();
  at("budget").hidden = false;
  at("budget-name").textContent = name;
  at("budget-note").textContent = status.note;
  // the odometer says more than the budget only while it reads less
  const reads = status.reading !== null && status.reading < status.epsilon;
  const odometer = reads ? `, or what is spent so far by the odometer: ${stated({ ...status, epsilon: status.reading })}` : "";
  at("budget-published").textContent = `You may publish ${stated(status)}${odometer}. `
    + `${down(status.share_left)} is left${ofFullest(status)}; that is no guarantee. `
    + `${many(status.reserved, "job")} reserved, ${status.committed.toLocaleString("en")} committed, ${status.voided.toLocaleString("en")} voided.`;
  at("spent-caption").textContent = status.has_blocks ? "Share spent over time, of the fullest block" : "Share spent over time";
  for (const id of ["blocks", "job-blocks"]) at(id).hidden = !status.has_blocks;
  if (at("blocks-asked").dataset.of !== name) at("blocks-asked").value = "";
  at("blocks-asked").dataset.of = name;
  at("block-list").replaceChildren();
  at("blocks-others").textContent = "";
  say("job-cost", "");
  say("job-refusal", "");
  at("history-done").textContent = "";
  at("history").tBodies[0].replaceChildren();
  oldest = status.entries + 1;
  const left = status.has_blocks ? ask("blocks", { query: { name, limit: MOST_BLOCKS } }) : null;
  const [{ moments }, blocks] = await Promise.all([ask("spending", { query: { name } }), left, older(mine)]);
  if (mine !== turn) return;
  if (blocks) showBlocks(blocks);
  spent = moments;
  draw();
}

// The blocks with the least left; a press takes one into the question of the cost.
function showBlocks({ blocks, others, share_left_of_others: leftOfOthers }) {
  at("block-list").replaceChildren(...blocks.map(({ block, share_left: left }) => {
    const button = node("button", { type: "button", title: "Take it into the question below" }, node("span", { class: "name" }, block),
      bar({ name: block, share_left: left }), node("span", { class: "left" }, `${down(left)} left`));
    button.addEventListener("click", () => {
      if (!named().includes(block)) at("blocks-asked").value = [...named(), block].join("\n");
    });
    return node("li", {}, button);
  }));
  const rest = others ? `${many(others, "other block has", "other blocks have")} ${down(leftOfOthers)} left${others === 1 ? "" : " each"}, or more. ` : "";
  at("blocks-others").textContent = `${rest}A block that no job has named has the whole budget.`;
}

// One name on each line, as it is written: a space more is another block.
function named() {
  return at("blocks-asked").value.split("\n").filter((line) => line.trim());
}

async function older(mine) {
  const after = Math.max(oldest - PART - 1, 0);
  const { entries } = await ask("history", { query: { name: chosen, after, limit: oldest - after - 1 } });
  if (mine !== turn) return;
  oldest = after + 1;
  at("history").tBodies[0].append(...entries.reverse().map((entry) => node("tr", {},
    node("th", { scope: "row" }, String(entry.number)), node("td", {}, entry.at.slice(0, 19).replace("T", " ")), node("td", {}, entry.kind),
    node("td", {}, entry.key), node("td", {}, entry.by), node("td", { class: "why" }, entry.run || (entry.kind === "open" ? "" : entry.detail)))));
  at("older").hidden = after === 0;
}

// A share stays as it is until the next entry: the curve has steps, and goes on until now.
function draw() {
  if (!spent?.length) return;
  const begun = Date.parse(spent[0].at);
  const passed = Math.max(Date.now() - begun, 1000);
  const [name, unit] = UNITS.find(([, length]) => passed >= 2 * length) ?? UNITS.at(-1);
  chart.titles.x = `${name} since it was opened`;
  chart.frame(passed / unit, 1);
  const points = [];
  for (const { at: time, share } of spent) {
    const x = Math.min(Math.max((Date.parse(time) - begun) / unit, 0), passed / unit);
    if (points.length) points.push([x, points.at(-1)[1]]);
    points.push([x, Math.min(share, 1)]);
  }
  points.push([passed / unit, points.at(-1)[1]]);
  chart.area(points, "reach");
  chart.curve(points, "exact");
}

// The run that the page shows, as JSON has it.
async function job() {
  const run = await askedRun();
  if (run === null) throw new Refused("The page shows no run to ask about, or it has changed since: press again.");
  const isNumber = (text) => /^-?\d/.test(text);
  return Object.fromEntries(Object.entries(run).map(([name, value]) => [name, typeof value === "string" && isNumber(value) ? Number(value) : value]));
}

at("ask-cost").addEventListener("click", () => attempt("job-refusal", async () => {
  say("job-cost", "Waiting for the cost…");
  const mine = turn;
  const run = await job();
  const hasBlocks = budgets.find(({ name }) => name === chosen).has_blocks;
  const blocks = hasBlocks ? [...new Set(named())] : null;
  if (blocks?.length === 0) throw new Refused("Name the blocks that the job reads: each of them is charged.");
  const price = await ask("cost", { body: { name: chosen, ...run, ...(blocks && { blocks }) } });
  if (mine !== turn) return;
  if (!price.fits) throw new Refused(price.refusal);
  const each = hasBlocks ? ` in ${blocks.length === 1 ? "its one block" : `each of its ${many(blocks.length, "block")}`}` : "";
  const fullest = blocks?.length > 1 ? " in the fullest of them" : "";
  const fresh = price.new_blocks ? ` ${many(price.new_blocks, "block is", "blocks are")} new: no job has named ${price.new_blocks === 1 ? "it" : "them"} before.` : "";
  say("job-cost", `This job of ${many(Number(run.rounds), "round")} would cost ${up(price.share)} of the budget of ${price.name}${each}, of which ${down(price.share_left)} is left${fullest}. It fits.${fresh}`);
}));

for (const kind of ["csv", "json", "parquet"]) {
  at(`history-${kind}`).addEventListener("click", () => attempt("budgets-refusal", async () => {
    const response = await request("export", { query: { name: chosen, format: kind } });
    save(`history.${kind}`, response.headers.get("content-type"), await response.blob());
    at("history-done").textContent = `Saved history.${kind}.`;
  }));
}
at("older").addEventListener("click", () => attempt("budgets-refusal", () => older(turn)));

at("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  forget();
  token = kept(at("token").value.trim());
  at("token").value = "";
  begin();
});
at("forget-token").addEventListener("click", forget);

function begin() {
  attempt("budgets-refusal", refresh);
}

// Nothing that a token showed stays on the page without it.
function forget() {
  turn += 1;
  token = kept("");
  [budgets, chosen, spent] = [[], null, null];
  for (const id of ["budgets-found", "budget", "forget-token"]) at(id).hidden = true;
  at("budget-list").replaceChildren();
  at("history").tBodies[0].replaceChildren();
  at("block-list").replaceChildren();
  at("blocks-asked").value = "";
  delete at("blocks-asked").dataset.of;
  for (const id of ["budget-name", "budget-note", "budget-published", "blocks-others"]) at(id).textContent = "";
  for (const id of ["budgets-refusal", "job-cost", "job-refusal"]) say(id, "");
}

new ResizeObserver(draw).observe(at("budgets"));
token = kept();
if (token) begin();
