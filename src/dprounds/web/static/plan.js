// The plan of batch size and epochs: what the library's planner answers, and a chart of noise above the floor over epochs.

import { Lane, Refused, addressAt, ask } from "./asking.js";
import { Chart, element, niceAbove } from "./chart.js";
import { plainNumber } from "./fields.js";
import { LOADERS } from "./vocabulary.js";

const at = (id) => document.getElementById(id);
// What is asked: its label, and what it is at first.
const ASKED = {
  dataset_size: ["Records", "60000"], epsilon: ["Budget ε", "3"], delta: ["Failure mass δ", "1e-5"], epochs: ["Epochs, at most", "60"],
  habit: ["Batch size today", "256"], sampling: ["Batches", "poisson"],
};
const PAUSE = 350; // milliseconds without a move until the answer is asked for
const NEAR = 0.1; // what the planner counts as near the floor
const PARTS = 8; // of a line between two points
const MOST = 2; // more than three times the floor is not drawn

const WORDED = ["plan-sentence", "plan-remarks", "plan-table"];

const lane = new Lane();
let plan = null;
let curves = null; // by batch size: points of epochs and excess
let timer = null;
let dragging = false;
const chart = new Chart(at("plan-chart"), { x: "epochs", y: "noise above the floor", percent: "y" });

const inputs = Object.fromEntries(Object.entries(ASKED).map(([name, [label, start]]) => {
  const input = document.createElement(name === "sampling" ? "select" : "input");
  if (name === "sampling") input.append(...Object.entries(LOADERS).filter(([loader]) => loader !== "none").map(([loader, { title }]) => new Option(title, loader)));
  else Object.assign(input, { type: "text", inputMode: "decimal", maxLength: 30, spellcheck: false });
  Object.assign(input, { id: `plan-${name}`, name, value: start });
  const row = document.createElement("label");
  row.append(label, input);
  at("plan-form").append(row);
  input.setAttribute("aria-describedby", "plan-refusal");
  input.addEventListener("input", () => {
    at("plan-chart").classList.add("stale");
    if (name === "epochs" && curves) place();
    later();
  });
  return [name, input];
}));

const line = element("line", { class: "line" });
const grip = element("rect", { class: "grip", width: 28 });
const knob = element("circle", { class: "knob", r: 7 });
const note = element("text", { class: "note ground", "aria-hidden": "true" });
const slider = element("g", { class: "epochs", role: "slider", tabindex: 0, hidden: "", "aria-label": "Epochs", "aria-valuemin": 1 }, grip, line, knob, note);
at("plan-chart").append(slider);

function words() {
  return Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, plainNumber(input.value)]).filter(([, text]) => text !== ""));
}

// Another question: what is shown is not its answer. The curves stay where only the epochs moved.
function later() {
  for (const id of WORDED) at(id).classList.add("stale");
  clearTimeout(timer);
  timer = setTimeout(asked, PAUSE);
}

function asked() {
  const given = words();
  const address = addressAt("plan", given);
  lane.run(address, async (signal) => {
    at("plan-figure").setAttribute("aria-busy", "true");
    try {
      const found = await ask(address, signal);
      if (signal.aborted) return;
      plan = found;
      showWords();
      const { batch_size } = plan.answers.at(-1);
      let drawn;
      try {
        drawn = await ask(addressAt("plan-curve", { ...given, batch_size }), signal);
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        refuse(`The plan is complete, but its chart is not. ${error.message}`);
        at("plan-chart").classList.add("stale");
        return;
      }
      if (signal.aborted) return;
      curves = new Map();
      for (const row of drawn.answers) {
        if (!curves.has(row.batch_size)) curves.set(row.batch_size, []);
        curves.get(row.batch_size).push([row.epochs, row.excess]);
      }
      for (const [size, points] of curves) curves.set(size, between(points));
      at("plan-chart").classList.remove("stale");
      draw();
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      refuse(error.message);
      at("plan-chart").classList.add("stale");
      for (const id of WORDED) at(id).classList.add("stale");
      at("plan").classList.toggle("empty", !plan);
    } finally {
      at("plan-figure").setAttribute("aria-busy", "false");
    }
  });
}

// Show a refusal, or none, with the label of the field that it names, and mark the field.
function refuse(sentence) {
  const named = Object.keys(inputs).find((name) => sentence?.startsWith(`${name} `));
  at("plan-refusal").textContent = named ? ASKED[named][0].split(",")[0] + sentence.slice(named.length) : sentence ?? "";
  at("plan-refusal").hidden = sentence === null;
  for (const [name, input] of Object.entries(inputs)) input.setAttribute("aria-invalid", String(name === named));
}

const epochsText = (count) => `${count.toLocaleString("en")} epoch${count === 1 ? "" : "s"}`;
function fiveDigitsUp(value) {
  const decimals = Math.max(0, 4 - Math.max(0, Math.floor(Math.log10(value))));
  return (Math.ceil(value * 10 ** decimals) / 10 ** decimals).toFixed(decimals);
}
const percent = (value) => `${(100 * value).toFixed(1)} %`;

function showWords() {
  refuse(null);
  at("plan").classList.remove("empty");
  for (const id of WORDED) at(id).classList.remove("stale");
  at("plan-sentence").textContent = plan.sentence;
  at("plan-remarks").textContent = [plan.holds_for, ...plan.remarks].join(" ");
  const columns = [
    ["Batch size", (row) => row.batch_size.toLocaleString("en")], ["Rounds", (row) => row.rounds.toLocaleString("en")],
    ["Epochs", (row) => Number(row.epochs.toPrecision(4)).toLocaleString("en")],
    ["Noise", (row) => fiveDigitsUp(row.noise_multiplier)], ["Above floor, %", (row) => (100 * row.excess).toFixed(1)],
    ["By Rényi, %", (row) => (100 * row.renyi_excess).toFixed(1)],
    ["Epochs to 10 %", (row) => (row.epochs_within === null ? "never" : row.epochs_within.toLocaleString("en"))],
  ];
  const line = (kind, texts) => {
    const made = document.createElement("tr");
    made.append(...texts.map((text, i) => {
      const cell = document.createElement(i && kind === "td" ? "td" : "th");
      cell.scope = kind === "th" ? "col" : "row";
      cell.textContent = text;
      return cell;
    }));
    return made;
  };
  at("plan-table").tHead.replaceChildren(line("th", columns.map(([title]) => title)));
  at("plan-table").tBodies[0].replaceChildren(...plan.answers.map((row, i) => {
    const made = line("td", columns.map(([, text]) => text(row)));
    if (i < plan.answers.length - 1) return made;
    made.classList.add("best");
    made.firstChild.prepend("Plan: ");
    return made;
  }));
}

// The same points and some between them: the excess falls about as a power of the epochs.
function between(points) {
  return points.flatMap(([x, y], i) => {
    const [x1, y1] = points[i + 1] ?? [x, y];
    const parts = y > 0 && y1 > 0 && x1 > x ? PARTS : 1;
    return Array.from({ length: parts }, (_, k) => [x * (x1 / x) ** (k / parts), parts > 1 ? y * (y1 / y) ** (k / parts) : y]);
  });
}

// The part of a falling curve that is not above the chart.
function below(points, high) {
  const first = points.findIndex(([, y]) => y <= high);
  if (first <= 0) return first < 0 ? [] : points;
  const [[x0, y0], [x1, y1]] = [points[first - 1], points[first]];
  return [[x0 + ((x1 - x0) * (y0 - high)) / (y0 - y1), high], ...points.slice(first)];
}

// The excess at so many epochs, on the line between two points.
function excessAt(points, epochs) {
  const next = points.findIndex(([x]) => x >= epochs);
  if (next <= 0) return next === 0 && points[0][0] === epochs ? points[0][1] : null;
  const [[x0, y0], [x1, y1]] = [points[next - 1], points[next]];
  return y0 + ((y1 - y0) * (epochs - x0)) / (x1 - x0);
}

function draw() {
  if (!curves || !at("plan").open || at("plan").classList.contains("empty")) return;
  const best = plan.answers.at(-1);
  const { habit } = plan.inputs;
  const today = plan.answers.slice(0, -1).find((row) => row.batch_size === habit);
  const last = Math.max(...[...curves.values()].map((points) => points.at(-1)[0]));
  const marked = Math.max(best.excess, today?.excess ?? 0);
  chart.frame(niceAbove(last), niceAbove(Math.min(Math.max(1.5 * marked, 3 * NEAR), MOST)));
  const { left, right } = chart.box();
  chart.back.append(element("rect", { class: "near", x: left, y: chart.y(NEAR), width: right - left, height: chart.y(0) - chart.y(NEAR) }));
  const kinds = [...curves.keys()].map((size, i) => (
    [size, `size size-${i}${size === best.batch_size ? " of-plan" : size === habit ? " of-habit" : ""}`]
  ));
  for (const [size, kind] of kinds) {
    const points = below(curves.get(size), chart.high.y).filter(([x]) => x <= chart.high.x);
    if (points.length) chart.curve(points, kind);
  }
  chart.mark(best.epochs, best.excess, "plan", false, plan.inputs.epochs ?? null);
  if (today) chart.mark(today.epochs, today.excess, "today");
  at("plan-legend").replaceChildren(...kinds.map(([size, kind]) => {
    const item = document.createElement("li");
    item.append(
      element("svg", { class: "swatch", viewBox: "0 0 30 10", "aria-hidden": "true" }, element("line", { x1: 0, y1: 5, x2: 30, y2: 5, class: `curve ${kind}` })),
      `batches of ${size.toLocaleString("en")}`,
    );
    return item;
  }));
  place();
}

function place() {
  const epochs = Number(plainNumber(inputs.epochs.value));
  slider.toggleAttribute("hidden", !(epochs > 0) || !chart.size);
  if (!(epochs > 0) || !chart.size) return;
  const { left, right, top, bottom } = chart.box();
  const x = Math.min(chart.x(epochs), right);
  for (const [key, value] of Object.entries({ x1: x, x2: x, y1: top, y2: bottom })) line.setAttribute(key, value);
  for (const [key, value] of Object.entries({ x: x - 14, y: top, height: bottom - top })) grip.setAttribute(key, value);
  knob.setAttribute("cx", x);
  knob.setAttribute("cy", top + 8);
  const read = [...curves].map(([size, points]) => [size, excessAt(points, epochs)]).filter(([size, value]) => (
    value !== null && [plan.answers.at(-1).batch_size, plan.inputs.habit].includes(size)
  ));
  const text = `${epochsText(epochs)}${dragging ? read.map(([size, value]) => `; ${size.toLocaleString("en")}: ${percent(value)}`).join("") : ""}`;
  const before = x > (left + right) / 2;
  for (const [key, value] of Object.entries({ x: x + (before ? -12 : 12), y: top + 12, "text-anchor": before ? "end" : "start" })) note.setAttribute(key, value);
  note.textContent = text;
  slider.setAttribute("aria-valuemax", chart.high.x);
  slider.setAttribute("aria-valuenow", epochs);
  slider.setAttribute("aria-valuetext", [epochsText(epochs), ...read.map(([size, value]) => `batches of ${size}: ${percent(value)} above the floor`)].join(", "));
}

function moveTo(epochs) {
  const whole = Math.min(Math.max(Math.round(epochs), 1), Math.floor(chart.high.x));
  inputs.epochs.value = String(whole);
  place();
  if (!dragging) later();
}

slider.addEventListener("pointerdown", (event) => {
  dragging = true;
  slider.setPointerCapture(event.pointerId);
  slider.focus({ preventScroll: true });
  event.preventDefault();
});
slider.addEventListener("pointermove", (event) => {
  if (!dragging) return;
  const { left, right } = chart.box();
  const share = (event.clientX - chart.svg.getBoundingClientRect().left - left) / (right - left);
  moveTo(share * chart.high.x);
});
for (const name of ["pointerup", "pointercancel"]) {
  slider.addEventListener(name, () => {
    dragging = false;
    place();
    later();
  });
}
slider.addEventListener("keydown", (event) => {
  const now = Number(plainNumber(inputs.epochs.value));
  const step = { ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1, PageUp: 10, PageDown: -10 }[event.key];
  const target = step === undefined ? { Home: 1, End: chart.high.x }[event.key] : now + step;
  if (target === undefined) return;
  event.preventDefault();
  moveTo(target);
});

at("plan-form").addEventListener("submit", (event) => event.preventDefault());
at("plan").addEventListener("toggle", () => {
  if (at("plan").open && !plan) asked();
  draw();
});
new ResizeObserver(draw).observe(at("plan-figure"));
