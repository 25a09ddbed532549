// Two settings side by side: one that was kept, and the one that is asked now.

import { askAgain, digits, number } from "./main.js";
import { cell, line } from "./view.js";
import { QUESTIONS } from "./vocabulary.js";

const at = (id) => document.getElementById(id);
let kept = null;
let now = null;

// The exact answer or the best there is, by its method, in the words of its question.
function shown({ found }, method) {
  const { name, title, more_is_better: more } = QUESTIONS[found.question].quantity;
  const row = found.answers.find((each) => each.method === method);
  if (!row || row.error !== undefined) return "";
  return name === "rounds" ? `${digits(row.rounds, false)} rounds` : `${title} ${digits(row[name], !more)}`;
}

function input(question, name) {
  const value = question.found.inputs[name];
  return typeof value === "number" || value === "inf" ? exact(number(value)) : String(value ?? "");
}

// An input is shown as it is.
function exact(value) {
  return Number.isInteger(value) && value < 1e15 ? value.toLocaleString("en") : String(value).replace("Infinity", "∞");
}

function draw() {
  at("compare").hidden = kept === null;
  if (kept === null || now === null) return;
  const both = [kept, now];
  const names = new Set(both.flatMap(({ found }) => Object.keys(found.inputs)));
  const differing = [...names].filter((name) => input(kept, name) !== input(now, name));
  const methods = new Set(both.flatMap(({ found }) => found.answers.map((row) => row.method)));
  const body = at("compare-table").tBodies[0];
  at("compare-table").tHead.replaceChildren(line(cell("td", ""), cell("th", "Kept", { scope: "col" }), cell("th", "Now", { scope: "col" })));
  const row = (title, texts) => line(cell("th", title, { scope: "row" }), ...texts.map((text) => cell("td", text)));
  body.replaceChildren(
    ...(kept.found.question === now.found.question ? [] : [row("Question", both.map(({ found }) => QUESTIONS[found.question].tab))]),
    ...differing.map((name) => row(name.replaceAll("_", " "), both.map((each) => input(each, name)))),
    ...(kept.found.holds_for === now.found.holds_for ? [] : [row("Holds for", both.map(({ found }) => found.holds_for.replace("Holds for: ", "")))]),
    ...[...methods].map((method) => row(method, both.map((each) => shown(each, method)))),
  );
  if (!differing.length) body.prepend(line(cell("td", "Both are the same: move an input.", { colSpan: 3, className: "why" })));
  body.lastChild.classList.add("best");
}

document.addEventListener("answered", ({ detail }) => {
  now = detail;
  at("keep").disabled = false;
  draw();
});
at("keep").disabled = true; // until there is an answer
at("keep").addEventListener("click", () => {
  kept = now;
  draw();
});
at("compare-back").addEventListener("click", () => askAgain(kept.link));
at("compare-forget").addEventListener("click", () => {
  kept = null;
  draw();
});
