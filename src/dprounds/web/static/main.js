// The planner: what is moved, asked and shown.

import { Lane, Refused, addressAt, ask } from "./asking.js";
import { Budget, Chart, element, figureFile, niceAbove, swatch } from "./chart.js";
import { METHODS, NUMBERS, lengthOf, mechanismsOf, plainNumber, relationOf, stateOf, wordsOfRun } from "./fields.js";
import { Form, roundedForHand } from "./form.js";
import { LoaderCosts } from "./loaders.js";
import { Question, remember, remembered } from "./question.js";
import { QUESTIONS } from "./vocabulary.js";
import { asCommand, asCsv, asPython } from "./words.js";

const at = (id) => document.getElementById(id);

// What each question asks for: its name in the answers, its name for people, and whether more is better.
const WANTED = Object.fromEntries(Object.entries(QUESTIONS).map(([question, { quantity: { name, title, more_is_better: more } }]) => (
  [question, { name, title: title.replace(/^[a-z]/, (letter) => letter.toUpperCase()), more }]
)));
// After a pause this long, in milliseconds, a move counts as done, and all of its answer is computed. Moves of a hand that drags come sooner.
const PAUSE = 60;
// An answer should be there within a tenth of a second. Where the exact one took longer the last time, the quickest bound
// stands in for it while the hand moves; the headline says so.
const TENTH = 100;
// Of which it may take this much, for no move takes as long as the last; and one quick answer does not undo a slow one.
const SHARE = 0.7;
// The exact answer takes about this much of the time of the table, where it is quick as a rule and where it is not.
const IN_TABLE = { quick: 0.35, slow: 0.8 };
// Where each part is shown.
const PLACES = { answer: ["headline", "sentence", "holds-for", "remarks"], table: ["table"], curve: ["rounds-chart", "legend"], attack: ["attack-figure"] };
// A figure to take away has a size of its own, whatever the screen's.
const FIGURE = { width: 760, height: 400 };

let { state, trouble } = stateOf(location.search);
let current = null; // the question asked
let moving = null; // the timer that says when a move is done
let overdue = null; // the timer that says that an answer has taken a tenth of a second
const shown = { answer: null, table: null, curve: null, attack: null }; // the question that each part on the screen belongs to
const pace = new Map(); // how long exact answers took last, by kind of question
const lanes = { quick: new Lane(), table: new Lane(), curve: new Lane(), attack: new Lane() };

const form = new Form(at("fields"), (name, value, event) => {
  if (name in NUMBERS) state.values[name] = value;
  else state[name] = value;
  if (name === "sampling" && state.relation !== null && relationOf(state) !== state.relation) state.relation = null;
  movedByHand(event);
});
const loaderCosts = new LoaderCosts(form, costText);
const AXES = { x: "rounds", y: "ε (nats)" };
const rounds = new Chart(at("rounds-chart"), AXES);
const attack = new Chart(at("attack-chart"), { x: "false alarms", y: "members found, at most", percent: true });
const budget = new Budget(rounds, {
  low: NUMBERS.epsilon.low,
  high: NUMBERS.epsilon.high,
  text: budgetText,
  moved: (value) => {
    state.values.epsilon = roundedForHand(value);
    movedByHand();
  },
  dropped: () => moved(),
});

function budgetText(value) {
  return `budget ε = ${roundedForHand(value)}`;
}

function movedByHand(event) {
  trouble = null; // of the link, which is no longer what is asked
  moved(event);
}

function moved(event) {
  current?.leave();
  current = new Question(state, {
    movedAt: event?.timeStamp ?? performance.now(),
    axis: shown.curve?.last,
    held: budget.dragging,
  });
  form.show(state);
  placeBudget();
  for (const name of ["table", "attack"]) lanes[name].stop();
  loaderCosts.leave();
  clearTimeout(moving);
  clearTimeout(overdue);
  moving = setTimeout(settled, PAUSE);
  overdue = setTimeout(mark, TENTH);
  mark();
  const slow = (pace.get(kind(state)) ?? usual(state)) > SHARE * TENTH;
  want(slow && !remembered(current.address("best")) ? "bound" : "best", current, lanes.quick);
}

function settled() {
  moving = null;
  history.replaceState(null, "", current.link);
  goOn();
}

// Ask for what is next: the curve follows the answer even while the hand moves; the rest waits until it rests. The table has the best answer
// too, if a bound stands in for it.
function goOn() {
  const { parts, refusal } = current;
  if (refusal !== null) return;
  // whether another method has an answer, or none has, is for the table to say
  const isRefused = parts.best?.refused !== undefined || parts.bound?.refused !== undefined;
  if (isRefused || (!moving && current.found)) want("table");
  if (!moving) lanes.curve.keepOnly(current.address("curve"));
  if (!current.isSettled) return;
  want("curve");
  if (!moving) want("attack");
  if (!moving && current.isWhole) loaderCosts.ask(current);
}

// Have a part of a question, unless it is there.
function want(part, question = current, lane = lanes[part]) {
  const address = question.address(part);
  if (question.parts[part] || address === null) return;
  const content = remembered(address);
  if (content) {
    arrived(part, address, { content }, question);
    return;
  }
  lane.run(address, async (signal) => {
    const begun = performance.now();
    let outcome;
    try {
      outcome = { content: await ask(address, signal) };
      if (signal.aborted) return;
      remember(address, outcome.content);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      outcome = { refused: error.message };
    } finally {
      if (part === "best") keepPace(question, performance.now() - begun, signal.aborted);
      if (part === "table" && question.parts.bound) {
        const share = usual(question.state) > 0 ? IN_TABLE.slow : IN_TABLE.quick;
        keepPace(question, share * (performance.now() - begun), signal.aborted);
      }
    }
    if (!signal.aborted) arrived(part, address, outcome, question);
  });
}

// Give what arrived to the question that asked for it and to the one that is asked now: each takes what is its own.
function arrived(part, address, outcome, asker) {
  for (const question of new Set([asker, current])) {
    if (question.take(part, address, outcome)) show(question);
  }
  goOn();
}

function kind({ question, mechanism, sampling }) {
  return [question, mechanism, sampling].join();
}

function keepPace(question, took, aborted) {
  const before = pace.get(kind(question.state)) ?? 0;
  // one that was given up would have taken longer
  pace.set(kind(question.state), Math.max(took, aborted ? before : SHARE * before));
}

// How long an exact answer takes as a rule, in milliseconds, until it is measured.
function usual({ question, mechanism, sampling }) {
  const sampled = question === "rate" || sampling !== "none";
  return sampled && (mechanism === "laplace" || mechanism === "discrete-gaussian") ? 2 * TENTH : 0;
}

// Show what a question has, but for what is on the screen already of a later one.
const SHOW = { answer: showAnswer, table: showTable, curve: draw, attack: drawAttack };
function show(question) {
  const isFirst = question.found && question.number > (shown.answer?.number ?? 0);
  for (const part of Object.keys(SHOW)) {
    const isThere = part === "answer" ? question.found : question.parts[part] && question.found;
    if (!isThere || question.number < (shown[part]?.number ?? 0)) continue;
    shown[part] = question;
    SHOW[part](question);
  }
  mark();
  if (isFirst) measure("answer", question);
  if (question.content("table") && question === current) document.dispatchEvent(new CustomEvent("answered", { detail: question }));
  if (question.isWhole && question === current && !question.isMeasured) {
    question.isMeasured = true;
    measure("settled", question);
  }
}

function measure(name, question) {
  performance.measure(name, { start: question.movedAt, detail: { question: question.state.question, method: question.row.method } });
}

// Dim what does not belong to the answer on the screen. What belongs to the question before stands as it was for a tenth of a second.
function mark() {
  const { refusal } = current;
  const isBefore = shown.answer !== current && refusal === null;
  const waits = isBefore && performance.now() - current.movedAt < TENTH - 1;
  for (const [part, places] of Object.entries(PLACES)) {
    const isStale = refusal !== null || isBefore || shown[part] !== shown.answer;
    for (const place of places) {
      if (!waits || shown[part] !== shown.answer) at(place).classList.toggle("stale", isStale);
    }
  }
  for (const [id, part] of [["answer", "answer"], ["rounds-figure", "curve"], ["attack-figure", "attack"], ["methods", "table"]]) {
    at(id).setAttribute("aria-busy", String(refusal === null && shown[part] !== current));
  }
  at("trouble").hidden = trouble === null;
  at("trouble").textContent = trouble ?? "";
  if (waits) return;
  at("found").classList.toggle("empty", refusal !== null && shown.answer === null);
  form.refuse(refusal);
  at("refusal").hidden = refusal === null;
  at("refusal").textContent = refusal ?? "";
}

function showAnswer(question) {
  const { found, row } = question;
  const wanted = WANTED[found.question];
  const isBound = !question.isSettled;
  at("side").textContent = isBound ? (wanted.more ? "at least " : "at most ") : "";
  at("headline").classList.toggle("interim", isBound);
  at("value").textContent = digits(row[wanted.name], !wanted.more);
  at("unit").textContent = unit(found, row);
  at("sentence").textContent = isBound ? `${found.sentence} The exact answer is being computed.` : found.sentence;
  at("holds-for").textContent = found.holds_for;
  const remarks = found.remarks.join(" ");
  at("remarks").hidden = !remarks;
  at("remarks").textContent = remarks;
  if (question.content("table")) at("spoken").textContent = [found.sentence, remarks].filter(Boolean).join(" ");
  keepHeight();
}

// The answer takes the room of the longest so far, so that nothing below it moves with every sentence.
function keepHeight() {
  const box = at("answer");
  const width = box.clientWidth;
  if (keepHeight.width !== width) box.style.minHeight = "";
  keepHeight.width = width;
  box.style.minHeight = `${box.offsetHeight}px`;
}

function unit(found, best) {
  const { name, title } = QUESTIONS[found.question].quantity;
  if (number(best[name]) === Infinity) return `no finite ${title} is proven`;
  if (name === "rounds") {
    const epochs = best.epochs === undefined ? "" : ` (${digits(best.epochs, false)} epochs)`;
    return `${best.rounds === 1 ? "round" : "rounds"}${epochs}`;
  }
  // a letter, ε or δ, is what rounds cost; a word is a parameter of theirs
  if (title.length === 1) return `is ${title} after ${digits(found.inputs.rounds)} round${found.inputs.rounds === 1 ? "" : "s"}`;
  return `is the ${title}${best.batch_size === undefined ? "" : `: batches of ${digits(best.batch_size)}`}`;
}

// An answer in a few words: what a loader costs, next to its name.
function costText(found, isExact) {
  const { name, title, more } = WANTED[found.question];
  const row = found.answers.at(-1);
  if (row[name] === undefined) return "";
  const side = isExact ? "" : more ? "≥ " : "≤ ";
  if (name === "rounds" && row.rounds === 0 && !isExact) return "none proven";
  return name === "rounds" ? `${side}${digits(row.rounds)} round${row.rounds === 1 ? "" : "s"}` : `${title} ${side}${digits(row[name], !more, 4)}`;
}

function draw(question) {
  const drawn = drawRounds(rounds, question, budget.dragging ? rounds.high.y : null);
  placeBudget();
  if (at("legend").dataset.drawn !== drawn.join()) {
    at("legend").dataset.drawn = drawn.join();
    at("legend").replaceChildren(...drawn.map((method) => {
      const item = document.createElement("li");
      item.title = explained(method);
      item.append(swatch(method), method);
      return item;
    }));
  }
}

// What a method is, in one line.
function explained(method) {
  return document.querySelector(`#explained [data-method="${method}"] dd`)?.textContent ?? "";
}

// The methods from the one whose line lies lowest.
const LAYERS = [...METHODS].sort((one, other) => layer(one) - layer(other));
function layer(method) {
  return Number(document.querySelector(`#explained [data-method="${method}"]`)?.dataset.layer ?? 0);
}

// Draw the curve of a question and the answer on it; return the methods that have a line.
function drawRounds(chart, question, fixedHigh = null) {
  const { row, unit: each, parts: { curve } } = question;
  const [count, last] = [question.rounds / each, question.last / each];
  const rows = curve.content?.answers ?? [];
  const spent = number(row.epsilon);
  const allowance = budgetOf(question.state) ?? 0;
  const best = rows.filter((each) => each.method === rows.at(-1).method);
  const least = Number.isFinite(spent) ? spent * (question.state.question === "epsilon" ? 1.5 : 1.2) : (best.at(-1)?.epsilon ?? 0) * 1.2;
  const high = fixedHigh ?? niceAbove(Math.max(allowance * 1.3, least) || 1);
  chart.titles.x = each > 1 ? `epochs of ${digits(each)} rounds` : "rounds";
  chart.frame(last, high);
  for (const method of LAYERS) {
    const points = rows.filter((each) => each.method === method).map((point) => [point.rounds / each, point.epsilon]);
    if (points.length) chart.curve(points, method);
  }
  if (curve.refused !== undefined) chart.say(curve.refused);
  else if (!rows.length) chart.say("No finite ε is proven for any of these rounds.");
  else if (best.at(-1).rounds < question.last) chart.say(`Beyond ${counted(best.at(-1).rounds, each)} no finite ε is proven.`, true);
  if (count <= last && spent <= high) chart.mark(count, spent, counted(question.rounds, each), true);
  return METHODS.filter((method) => rows.some((each) => each.method === method));
}

// Rounds, or epochs of so many rounds each.
function counted(rounds, each) {
  const count = rounds / each;
  return `${digits(count, false)} ${each > 1 ? "epoch" : "round"}${count === 1 ? "" : "s"}`;
}

// The ε that a state asks to keep, null if it asks for none.
function budgetOf({ question, values }) {
  const value = Number(plainNumber(values.epsilon));
  return question === "epsilon" || !(value > 0) ? null : value;
}

function placeBudget() {
  budget.place(budgetOf(state));
  at("budget-hint").classList.toggle("absent", state.question === "epsilon");
}

function drawAttack(question) {
  const { content: found, refused } = question.parts.attack;
  at("attack-sentence").textContent = found?.sentence ?? refused; // before the chart, which takes the height that is left
  attack.frame(1, 1);
  if (!found) {
    attack.say("No curve");
    return;
  }
  const points = found.answers.map((row) => [row.false_positive_rate, 1 - row.false_negative_rate]);
  attack.area(points, "reach");
  attack.curve([[0, 0], [1, 1]], "guess");
  attack.curve(points, "exact");
  const share = found.true_positive_rate_at_one_percent;
  attack.mark(0.01, share, `${digits(Math.min(100 * share, 100), true, 3)} % found`);
}

function showTable(question) {
  const { found, row: bestRow } = question;
  const wanted = WANTED[found.question];
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
  // on a narrow screen epochs and batch, which the headline has too, give way
  head.append(...titles.map((title) => cell("th", title, { scope: "col", className: title === withExtra?.[1] ? "wide" : "" })));
  at("table").tHead.replaceChildren(head);
  const base = (method) => number(found.answers.find((row) => row.method === method)?.[wanted.name]);
  at("table").tBodies[0].replaceChildren(...found.answers.map((row) => {
    const line = document.createElement("tr");
    line.classList.toggle("best", row === bestRow);
    line.append(cell("th", [swatch(row.method), ` ${row.method}`], { scope: "row", title: explained(row.method) }));
    if (row.error !== undefined) {
      line.append(cell("td", row.error, { colSpan: titles.length - 1, className: "why" }));
      return line;
    }
    line.append(cell("td", digits(row[wanted.name], !wanted.more)));
    if (withExtra) line.append(cell("td", digits(row[withExtra[0]], false), { className: "wide" }));
    for (const method of ["moments", "balle"]) {
      const [size, share] = change(row[`change_from_${method}`], base(method));
      // on a narrow screen the share alone has room
      line.append(cell("td", share ? [cell("span", `${size} `, { className: "wide" }), share] : size));
    }
    return line;
  }));
}

// A difference from a base: its size, and as a share of the base where there is one.
function change(difference, base) {
  const value = number(difference);
  if (value === undefined || value === null || !Number.isFinite(value)) return ["", ""];
  if (value === 0 || Math.abs(value) < 1e-5 * base) return ["same", ""]; // searches stop within a millionth
  const factor = base ? (base + value) / base : 1;
  const sign = value > 0 ? "+" : "−";
  const percent = Math.abs((100 * value) / base);
  const share = factor > 0 && factor < 0.001 ? `(÷ ${(1 / factor).toPrecision(2)})`
    : `(${sign}${percent < 1000 ? percent.toPrecision(3) : Math.round(percent).toLocaleString("en")} %)`;
  const size = Number.isInteger(value) ? Math.abs(value).toLocaleString("en") : Number(Math.abs(value).toPrecision(3)).toString();
  return [`${sign}${size}`, base ? share : ""];
}

export function number(value) {
  return value === "inf" ? Infinity : value === "-inf" ? -Infinity : value;
}

// This many digits, rounded to the side on which the statement stays true; whole numbers in full.
export function digits(given, up = true, count = 5) {
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

export function save(name, type, content) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  at("done").textContent = `Saved ${name}.`;
}

// The words of the run that is asked about now, as soon as its answer is whole; null if there is none, or the question has changed since.
export async function askedRun() {
  const question = current;
  if (!(await question.whole())) return null;
  const { delta, ...run } = wordsOfRun(question.state, question.row, question.found.inputs);
  return run;
}

// Ask what a link asks.
export function askAgain(link) {
  ({ state, trouble } = stateOf(new URL(link, location.href).search));
  showQuestion();
  moved();
}

// All of a question, as data.
function data(question) {
  return { ...question.found, curve: question.content("curve")?.answers ?? [], "trade-off": question.content("attack")?.answers ?? [] };
}

function figure(question) {
  const chart = new Chart(element("svg"), { ...AXES, size: FIGURE });
  const legend = drawRounds(chart, question);
  const value = budgetOf(question.state);
  const sheet = [...document.styleSheets].find((each) => each.href?.endsWith("/methods.css"));
  return figureFile(chart, {
    title: question.found.sentence,
    lines: [question.found.holds_for, ...question.found.remarks],
    legend,
    budget: value === null ? null : { value, text: budgetText(value) },
    rules: [...sheet.cssRules].map((rule) => rule.cssText).join(""),
  });
}

const ACTIONS = {
  "copy-python": (question) => copy(asPython(question.state, question.found, question.row), "the program"),
  "copy-command": (question) => copy(asCommand(question.state), "the command"),
  "copy-link": (question) => copy(new URL(question.link, location.href).href, "the link"),
  "copy-statement": async (question) => {
    const address = addressAt("statement", { ...wordsOfRun(question.state, question.row, question.found.inputs), method: question.row.method });
    try {
      copy((await ask(address, new AbortController().signal))[at("statement-form").value], "the statement");
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      at("done").textContent = error.message;
    }
  },
  "save-figure": (question) => save("dprounds.svg", "image/svg+xml", figure(question)),
  "save-csv": (question) => save("dprounds.csv", "text/csv", asCsv([
    ...question.found.answers.map((row) => ({ table: "answers", ...row })),
    ...data(question).curve.map((row) => ({ table: "curve", ...row })),
    ...data(question)["trade-off"].map((row) => ({ table: "trade-off", ...row })),
  ])),
  "save-json": (question) => save("dprounds.json", "application/json", `${JSON.stringify(data(question), null, 2)}\n`),
};
// What is taken away belongs to the question that was asked when the button was pressed, and waits until all of it is there.
for (const [id, act] of Object.entries(ACTIONS)) {
  at(id).addEventListener("click", async () => {
    const question = current;
    if (!question.isWhole && question.refusal === null) at("done").textContent = "Waiting for the whole answer…";
    if (await question.whole()) await act(question);
    else at("done").textContent = question.refusal === null ? "The question has changed since: press again." : "There is no answer to take.";
  });
}

function showQuestion() {
  for (const radio of document.querySelectorAll("[name=question]")) radio.checked = radio.value === state.question;
}
for (const radio of document.querySelectorAll("[name=question]")) {
  radio.addEventListener("change", (event) => {
    state.question = radio.value;
    if (!mechanismsOf(state.question).includes(state.mechanism)) state.mechanism = "gaussian";
    state.length = lengthOf(state);
    movedByHand(event);
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

addEventListener("popstate", () => askAgain(location.href));
new ResizeObserver(() => {
  if (shown.curve) draw(shown.curve);
  if (shown.attack) drawAttack(shown.attack);
  keepHeight();
}).observe(at("found"));

showQuestion();
moved();
