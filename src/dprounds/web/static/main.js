// The planner: what is moved, asked and shown.

import { Lane, Refused, ask } from "./asking.js";
import { Budget, Chart, figureFile, niceAbove, swatch } from "./chart.js";
import { METHODS, NUMBERS, addressOf, lengthOf, mechanismsOf, plainNumber, stateOf, words, wordsOfRun } from "./fields.js";
import { Form, roundedForHand } from "./form.js";
import { asCommand, asCsv, asPython } from "./words.js";

const at = (id) => document.getElementById(id);

// What each question asks for: its name in the answers, its name for people, and whether more is better.
const WANTED = {
  rounds: { name: "rounds", title: "Rounds", more: true },
  epsilon: { name: "epsilon", title: "ε", more: false },
  noise: { name: "noise_multiplier", title: "Noise multiplier", more: false },
  rate: { name: "sampling_rate", title: "Sampling rate", more: true },
};
// After a pause this long a move counts as done, and what takes longer is computed: all methods, and the attacker.
const PAUSE = 120;
// An answer should be there within a tenth of a second. Where the exact one took longer the last time, the quickest bound
// stands in for it while the hand moves; the sentence says so.
const TENTH = 100;
// Of which it may take so much, for no move takes as long as the last; and one quick answer does not undo a slow one.
const SHARE = 0.7;
const QUICKEST = "closed-form";
// While the hand moves a coarser curve will do.
const POINTS = { moving: 24, still: 60 };

let state = stateOf(location.search);
let move = 0; // how many moves there were
let moving = null; // the timer that says when a move is done
let movedAt = performance.now();
const latest = { move: -1, rank: -1, answers: null, row: null, state: null, curve: null, attack: null };
const asked = { curve: "", fine: false, attack: "" };
const pace = new Map(); // how long exact answers took last, by kind of question
const lanes = { quick: new Lane(), best: new Lane(), curve: new Lane(), full: new Lane(), attack: new Lane() };

const form = new Form(at("fields"), (name, value, event) => {
  if (name in NUMBERS) state.values[name] = value;
  else state[name] = value;
  moved(event);
});
const rounds = new Chart(at("rounds-chart"), { x: "rounds", y: "ε (nats)" });
const attack = new Chart(at("attack-chart"), { x: "false alarms", y: "members found, at most", percent: true });
const budget = new Budget(rounds, {
  low: NUMBERS.epsilon.low,
  high: NUMBERS.epsilon.high,
  text: (value) => `budget ε = ${roundedForHand(value)}`,
  moved: (value) => {
    state.values.epsilon = roundedForHand(Math.min(value, budget.dragging ? rounds.high.y : NUMBERS.epsilon.high));
    moved();
  },
  dropped: () => draw(),
});

function moved(event) {
  move += 1;
  movedAt = event?.timeStamp ?? performance.now();
  form.show(state);
  placeBudget();
  for (const lane of [lanes.best, lanes.full, lanes.attack, ...(asked.fine ? [lanes.curve] : [])]) lane.stop();
  clearTimeout(moving);
  moving = setTimeout(settled, PAUSE);
  lanes.quick.run(quickly);
}

function settled() {
  moving = null;
  history.replaceState(null, "", addressOf(state));
  goOn();
}

// Once the hand rests and something is there: the best method, if another stood in for it, then the rest.
function goOn() {
  if (moving || latest.move !== move) return;
  if (latest.rank < METHODS.indexOf(best(state))) lanes.best.run((signal) => single(best(state), signal));
  else rest();
}

// What takes longer, and so waits until the answer is there: all methods, the finer curve, and the attacker.
function rest() {
  if (latest.rank < METHODS.length) lanes.full.run(fully);
  wantAttack();
  wantCurve(wordsOfRun(latest.state, latest.row, latest.answers.inputs));
}

function best({ mechanism }) {
  return mechanism === "zcdp" ? "optimal" : "exact";
}

// One method, the best, is soon there; the table of all follows when the hand rests.
function quickly(signal) {
  const slow = (pace.get(kind(state)) ?? usual(state)) > SHARE * TENTH;
  return single(slow ? QUICKEST : best(state), signal); // the best follows once the hand rests
}

function kind({ question, mechanism, sampling }) {
  return [question, mechanism, sampling === "all"].join();
}

async function single(method, signal) {
  const mine = { move, state: structuredClone(state), movedAt };
  const begun = performance.now();
  try {
    const found = await ask(mine.state.question, { ...words(mine.state), method }, signal);
    if (signal.aborted) return;
    show(found, mine, false);
    goOn();
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    // whether another method has an answer, or none has, is for the full question to say
    if (mine.move === move) lanes.full.run(fully);
  } finally {
    const took = performance.now() - begun;
    const before = pace.get(kind(mine.state)) ?? 0;
    // one that was given up would have taken longer
    if (method !== QUICKEST) pace.set(kind(mine.state), Math.max(took, signal.aborted ? before : SHARE * before));
  }
}

// How long an exact answer takes as a rule, in milliseconds, until it is measured.
function usual({ question, mechanism, sampling }) {
  const sampled = question === "rate" || sampling !== "all";
  return sampled && (mechanism === "laplace" || mechanism === "discrete-gaussian") ? 2 * TENTH : 0;
}

async function fully(signal) {
  const mine = { move, state: structuredClone(state), movedAt };
  try {
    const found = await ask(mine.state.question, words(mine.state), signal);
    if (!signal.aborted) show(found, mine, true);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    if (!signal.aborted && mine.move === move) refuse(error.message, mine);
  }
}

function show(found, mine, full) {
  const row = found.answers.findLast((each) => each.error === undefined);
  const rank = full ? METHODS.length : METHODS.indexOf(row.method);
  if (mine.move < latest.move || (mine.move === latest.move && rank <= latest.rank)) return;
  const first = mine.move > latest.move;
  Object.assign(latest, { move: mine.move, answers: found, row, state: mine.state, rank });
  refuse(null);
  const wanted = WANTED[found.question];
  at("value").textContent = digits(row[wanted.name], !wanted.more);
  at("unit").textContent = unit(found, row);
  at("sentence").textContent = found.sentence;
  if (full) {
    at("spoken").textContent = found.sentence;
    table(found, wanted);
  }
  // the curve follows the answer, not to slow it down; where every move makes a curve of another step, the hand rests first
  const followed = found.question === "rounds" || found.question === "epsilon";
  if (followed || (mine.move === move && !moving)) wantCurve(wordsOfRun(mine.state, row, found.inputs));
  wantAttack();
  draw();
  if (first) performance.measure("answer", { start: mine.movedAt, detail: { question: found.question, method: row.method } });
}

function unit(found, best) {
  if (found.question === "rounds") {
    const epochs = best.epochs === undefined ? "" : ` (${digits(best.epochs, false)} epochs)`;
    return `${best.rounds === 1 ? "round" : "rounds"}${epochs}`;
  }
  if (found.question === "epsilon") return `is ε after ${digits(found.inputs.rounds)} round${found.inputs.rounds === 1 ? "" : "s"}`;
  if (found.question === "noise") return "is the noise multiplier";
  return best.batch_size === undefined ? "is the sampling rate" : `is the sampling rate: batches of ${digits(best.batch_size)}`;
}

// A refusal takes the answer's place; what was found last stays, dimmed.
function refuse(sentence) {
  const named = form.refuse(sentence);
  at("refusal").hidden = sentence === null;
  at("refusal").textContent = sentence ?? "";
  at("refusal").classList.toggle("named", named);
  for (const id of ["headline", "sentence", "charts", "table"]) at(id).classList.toggle("stale", sentence !== null);
}

// Ask for the curve of a step, unless it is there or on its way.
function wantCurve({ epochs, rounds: given, epsilon, ...step }) {
  const last = budget.dragging && latest.curve ? latest.curve.last : wantedLast(given);
  const sampled = { ...step, last };
  if (sampled.batch_size === undefined) delete sampled.dataset_size;
  const points = moving ? POINTS.moving : POINTS.still;
  const key = JSON.stringify([sampled, points]);
  if (key === asked.curve || JSON.stringify([sampled, POINTS.still]) === asked.curve) return;
  asked.curve = key;
  asked.fine = !moving;
  lanes.curve.run(async (signal) => {
    try {
      const found = await ask("curve", { ...sampled, points }, signal);
      if (signal.aborted) return;
      latest.curve = { last, rows: found.answers };
      draw();
    } catch (error) {
      asked.curve = "";
      if (!(error instanceof Refused)) throw error; // the question itself says what is wrong
    }
  });
}

// How far the curve should reach: somewhat beyond the rounds in question, and not another length for every small move.
function wantedLast(given) {
  const target = Number(given ?? (latest.row ? latest.row.rounds ?? latest.answers.inputs.rounds : 0)) || 0;
  const before = latest.curve?.last;
  if (before && target > 0.45 * before && target < 0.93 * before) return before;
  return Math.min(Math.max(niceAbove(Math.max(target, 1) * 1.25), 10), 2 ** 53);
}

function wantAttack() {
  if (moving || latest.move !== move || latest.row.method === QUICKEST) return;
  const run = wordsOfRun(latest.state, latest.row, latest.answers.inputs);
  const { delta, dataset_size, ...rest } = run;
  const sampled = rest.batch_size === undefined ? rest : { ...rest, dataset_size };
  const key = JSON.stringify(sampled);
  if (key === asked.attack) return;
  asked.attack = key;
  at("attack-figure").classList.add("stale");
  lanes.attack.run(async (signal) => {
    try {
      const found = await ask("trade-off", sampled, signal);
      if (signal.aborted) return;
      latest.attack = found;
      at("attack-sentence").textContent = found.sentence;
      at("attack-figure").classList.remove("stale");
      drawAttack();
    } catch (error) {
      asked.attack = "";
      if (!(error instanceof Refused)) throw error;
      latest.attack = null;
      at("attack-sentence").textContent = error.message;
    }
  });
}

function draw() {
  const { curve, row, answers } = latest;
  if (!curve || !row) return;
  const spent = number(row.epsilon);
  const allowance = state.question === "epsilon" ? 0 : Number(plainNumber(state.values.epsilon)) || 0;
  const top = Math.max(allowance * 1.3, (Number.isFinite(spent) ? spent : 0) * (answers.question === "epsilon" ? 1.5 : 1.2), 1e-6);
  const high = budget.dragging ? rounds.high.y : niceAbove(top);
  rounds.frame(curve.last, high);
  for (const method of METHODS) {
    const points = curve.rows.filter((each) => each.method === method).map((each) => [each.rounds, each.epsilon]);
    if (points.length) rounds.curve(points, method);
  }
  const count = row.rounds ?? answers.inputs.rounds;
  if (count !== undefined && count <= curve.last && spent <= high) rounds.mark(count, spent, `${digits(count)} round${count === 1 ? "" : "s"}`, true);
  placeBudget();
  const drawn = METHODS.filter((method) => curve.rows.some((each) => each.method === method));
  if (at("legend").dataset.drawn !== drawn.join()) {
    at("legend").dataset.drawn = drawn.join();
    at("legend").replaceChildren(...drawn.map((method) => {
      const item = document.createElement("li");
      item.append(swatch(method), method);
      return item;
    }));
  }
}

function placeBudget() {
  const value = Number(plainNumber(state.values.epsilon));
  budget.place(state.question === "epsilon" || !(value > 0) ? null : value);
  at("budget-hint").hidden = state.question === "epsilon";
}

function drawAttack() {
  if (!latest.attack) return;
  const points = latest.attack.answers.map((row) => [row.false_positive_rate, 1 - row.false_negative_rate]);
  attack.frame(1, 1);
  attack.area(points, "reach");
  attack.curve([[0, 0], [1, 1]], "guess");
  attack.curve(points, "exact");
  const share = latest.attack.true_positive_rate_at_one_percent;
  attack.mark(0.01, share, `${digits(Math.min(100 * share, 100), true, 3)} % found`);
}

function table(found, wanted) {
  const extra = { rounds: ["epochs", "Epochs", false], rate: ["batch_size", "Batch", false] }[found.question];
  const withExtra = extra && found.answers.some((row) => row[extra[0]] !== undefined) ? extra : null;
  const cell = (name, text, attributes = {}) => {
    const made = document.createElement(name);
    Object.assign(made, attributes);
    made.append(...[text].flat());
    return made;
  };
  const head = document.createElement("tr");
  const titles = ["Method", wanted.title, ...(withExtra ? [withExtra[1]] : []), "Against moments", "Against Balle"];
  head.append(...titles.map((title) => cell("th", title, { scope: "col" })));
  at("table").tHead.replaceChildren(head);
  const base = (method) => number(found.answers.find((row) => row.method === method)?.[wanted.name]);
  at("table").tBodies[0].replaceChildren(...found.answers.map((row) => {
    const line = document.createElement("tr");
    line.classList.toggle("best", row === latest.row);
    line.append(cell("th", [swatch(row.method), ` ${row.method}`], { scope: "row" }));
    if (row.error !== undefined) {
      line.append(cell("td", row.error, { colSpan: titles.length - 1, className: "why" }));
      return line;
    }
    line.append(cell("td", digits(row[wanted.name], !wanted.more)));
    if (withExtra) line.append(cell("td", digits(row[withExtra[0]], false)));
    for (const method of ["moments", "balle"]) line.append(cell("td", change(row[`change_from_${method}`], base(method))));
    return line;
  }));
}

function change(difference, base) {
  const value = number(difference);
  if (value === undefined || value === null || !Number.isFinite(value)) return "";
  if (value === 0 || Math.abs(value) < 1e-5 * base) return "same"; // searches stop within a millionth
  const factor = base ? (base + value) / base : 1;
  const share = !base ? "" : factor > 0 && factor < 0.001 ? ` (÷ ${(1 / factor).toPrecision(2)})` : ` (${value > 0 ? "+" : "−"}${Math.abs((100 * value) / base).toPrecision(3)} %)`;
  const size = Number.isInteger(value) ? Math.abs(value).toLocaleString("en") : Number(Math.abs(value).toPrecision(3)).toString();
  return `${value > 0 ? "+" : "−"}${size}${share}`;
}

function number(value) {
  return value === "inf" ? Infinity : value === "-inf" ? -Infinity : value;
}

// So many digits, rounded to the side on which the statement stays true; whole numbers in full.
function digits(given, up = true, count = 5) {
  const value = number(given);
  if (value === undefined || value === null) return "";
  if (!Number.isFinite(value)) return "∞";
  if (Number.isInteger(value)) return value < 1e15 ? value.toLocaleString("en") : value.toExponential(4);
  // no zeros in place of digits: they would look exact
  if (Math.abs(value) >= 10 ** (count - 1) && Math.abs(value) < 1e9) return (up ? Math.ceil(value) : Math.floor(value)).toLocaleString("en");
  let near = Number(value.toPrecision(count));
  const last = 10 ** (Math.floor(Math.log10(Math.abs(value))) - count + 1);
  if (up && near < value) near += last;
  if (!up && near > value) near -= last;
  const text = near.toPrecision(count);
  return Math.abs(near) < 1e-4 || Math.abs(near) >= 1e9 ? Number(text).toExponential() : Number(text).toLocaleString("en", { maximumSignificantDigits: count });
}

async function copy(text, what) {
  at("copied").textContent = text;
  at("copied").hidden = false;
  try {
    await navigator.clipboard.writeText(text);
    at("done").textContent = `Copied ${what}.`;
  } catch {
    // not a secure page, or not allowed: it is there to be copied by hand
    getSelection().selectAllChildren(at("copied"));
    at("done").textContent = "Selected below: copy it from there.";
  }
}

function save(name, type, content) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  at("done").textContent = `Saved ${name}.`;
}

function data() {
  return { ...latest.answers, curve: latest.curve?.rows ?? [], "trade-off": latest.attack?.answers ?? [] };
}

const ACTIONS = {
  "copy-python": () => copy(asPython(latest.state, latest.answers, latest.row), "the program"),
  "copy-command": () => copy(asCommand(latest.state), "the command"),
  "copy-link": () => copy(new URL(addressOf(state), location.href).href, "the link"),
  "save-figure": () => save("dprounds.svg", "image/svg+xml", figureFile(at("rounds-chart"), latest.answers.sentence, at("legend").dataset.drawn.split(","))),
  "save-csv": () => save("dprounds.csv", "text/csv", asCsv([
    ...latest.answers.answers.map((row) => ({ table: "answers", ...row })),
    ...(latest.curve?.rows ?? []).map((row) => ({ table: "curve", ...row })),
    ...(latest.attack?.answers ?? []).map((row) => ({ table: "trade-off", ...row })),
  ])),
  "save-json": () => save("dprounds.json", "application/json", `${JSON.stringify(data(), null, 2)}\n`),
};
for (const [id, act] of Object.entries(ACTIONS)) at(id).addEventListener("click", () => latest.answers && act());

function showQuestion() {
  for (const radio of document.querySelectorAll("[name=question]")) radio.checked = radio.value === state.question;
}
for (const radio of document.querySelectorAll("[name=question]")) {
  radio.addEventListener("change", (event) => {
    state.question = radio.value;
    if (!mechanismsOf(state.question).includes(state.mechanism)) state.mechanism = "gaussian";
    state.length = lengthOf(state);
    moved(event);
  });
}
at("asked").addEventListener("submit", (event) => event.preventDefault());

// Light or dark: as the system says, until someone says otherwise.
const system = matchMedia("(prefers-color-scheme: dark)");
function theme(word) {
  if (word) document.documentElement.dataset.theme = word;
  const dark = (word ?? (system.matches ? "dark" : "light")) === "dark";
  at("theme").setAttribute("aria-pressed", String(dark));
  at("theme").textContent = dark ? "Light" : "Dark";
}
function chosenTheme() {
  try {
    return localStorage.getItem("theme");
  } catch {
    return null; // storage may be forbidden
  }
}
at("theme").addEventListener("click", () => {
  const word = at("theme").getAttribute("aria-pressed") === "true" ? "light" : "dark";
  try {
    localStorage.setItem("theme", word);
  } catch {
    // then it lasts as long as the page
  }
  theme(word);
});
system.addEventListener("change", () => theme(chosenTheme()));
theme(chosenTheme());

addEventListener("popstate", () => {
  state = stateOf(location.search);
  showQuestion();
  moved();
});
new ResizeObserver(() => {
  draw();
  drawAttack();
}).observe(at("charts"));

showQuestion();
form.show(state);
moved();
