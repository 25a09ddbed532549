// A question with a form of its own, below the planner: its sentence and a row for each method.

import { Lane, Refused, addressAt, ask } from "./asking.js";
import { digits } from "./main.js";
import { swatch } from "./chart.js";

const PAUSE = 350; // milliseconds without a move until the answer is asked for

export function cell(name, text, attributes = {}) {
  const made = document.createElement(name);
  Object.assign(made, attributes);
  made.append(...[text].flat());
  return made;
}

export function line(...cells) {
  const made = document.createElement("tr");
  made.append(...cells);
  return made;
}

// `words` says what is asked, by name, or null as long as that is not known; `columns` are the values of an answer: name, title, rounded up or not.
export class View {
  #lane = new Lane();
  #timer = null;

  constructor(details, question, { words, columns, marked = () => {} }) {
    Object.assign(this, { details, question, words, columns, marked });
    this.refusal = cell("p", "", { className: "refusal", hidden: true });
    this.refusal.setAttribute("role", "alert");
    this.sentence = cell("p", "", { className: "sentence" });
    this.sentence.setAttribute("aria-live", "polite");
    this.remarks = cell("p", "", { className: "hint" });
    this.table = document.createElement("table");
    const scroll = cell("div", this.table, { className: "scroll", tabIndex: 0, hidden: true });
    this.scroll = scroll;
    scroll.setAttribute("role", "region");
    scroll.setAttribute("aria-label", "Answers by method");
    details.append(this.refusal, this.sentence, this.remarks, scroll);
    details.addEventListener("toggle", () => this.#ask());
    details.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
  }

  // Something moved: what is shown is not its answer.
  moved() {
    this.#dim(true);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#ask(), PAUSE);
  }

  #dim(isStale) {
    for (const part of [this.sentence, this.remarks, this.scroll]) part.classList.toggle("stale", isStale);
  }

  #ask() {
    const words = this.words();
    if (!this.details.open || words === null) return;
    const address = addressAt(this.question, words);
    this.#lane.run(address, async (signal) => {
      try {
        const found = await ask(address, signal);
        if (!signal.aborted) this.#show(found);
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        this.#refuse(error.message);
        this.#dim(true);
      }
    });
  }

  #refuse(sentence) {
    this.refusal.textContent = sentence ?? "";
    this.refusal.hidden = sentence === null;
    this.marked(sentence);
  }

  #show(found) {
    this.#refuse(null);
    this.#dim(false);
    this.sentence.textContent = found.sentence;
    this.remarks.textContent = [found.holds_for, ...found.remarks].join(" ");
    this.scroll.hidden = false;
    const columns = this.columns.filter(([name]) => found.answers.some((row) => row[name] !== undefined && row[name] !== null));
    const head = document.createElement("thead");
    head.append(line(cell("th", "Method", { scope: "col" }), ...columns.map(([, title]) => cell("th", title, { scope: "col" }))));
    const body = document.createElement("tbody");
    body.append(...found.answers.map((row) => {
      const first = cell("th", [swatch(row.method), ` ${row.method}`], { scope: "row" });
      if (row.error !== undefined) return line(first, cell("td", row.error, { colSpan: columns.length, className: "why" }));
      return line(first, ...columns.map(([name, , up]) => cell("td", digits(row[name], up))));
    }));
    body.lastChild.classList.toggle("best", found.answers.at(-1).error === undefined);
    this.table.replaceChildren(head, body);
  }
}
