// The question asked, and what has arrived for it: all that the page shows and saves is made of one of these.

import { addressAt } from "./asking.js";
import { niceAbove } from "./chart.js";
import { addressOf, words, wordsOfRun } from "./fields.js";
import { MECHANISMS } from "./vocabulary.js";

// A bound that is soon there may stand in for the best answer.
const QUICKEST = "closed-form";
// Answers are a few kilobytes each.
const MOST_KNOWN = 200;

// What arrived last, by its address: a part that two questions share is there at once.
const known = new Map();

export function remember(address, content) {
  known.delete(address);
  known.set(address, content);
  if (known.size > MOST_KNOWN) known.delete(known.keys().next().value);
}

export function remembered(address) {
  return known.get(address);
}

export function bestMethod({ mechanism }) {
  return MECHANISMS[mechanism].is_exact ? "exact" : "optimal";
}

let count = 0;

// A part belongs to a question if it is what the server says at the part's address, and that follows from the question alone. `axis` is how far
// the curve before it reached, and `held` says that the axis must stay.
export class Question {
  #waiting = [];

  constructor(state, { movedAt, axis = null, held = false }) {
    count += 1;
    this.number = count;
    this.state = structuredClone(state);
    this.link = addressOf(state);
    this.movedAt = movedAt;
    this.axis = axis;
    this.held = held;
    this.parts = {}; // bound, best, table, curve, attack: each { content } or { refused }
    this.refusal = null; // why there is no answer
  }

  // Where the server says what a part is; null as long as that cannot be known.
  address(part) {
    const { state } = this;
    if (part === "bound") return addressAt(state.question, { ...words(state), method: QUICKEST });
    if (part === "best") return addressAt(state.question, { ...words(state), method: bestMethod(state) });
    if (part === "table") return addressAt(state.question, words(state));
    if (!this.isSettled) return null;
    const { rounds, delta, ...step } = wordsOfRun(state, this.row, this.found.inputs);
    if (part === "attack") return addressAt("trade-off", { ...step, rounds });
    return addressAt("curve", { ...step, delta, last: this.last });
  }

  // Take in what arrived, if it belongs here.
  take(part, address, outcome) {
    if (this.address(part) !== address) return false;
    this.parts[part] = outcome;
    if (part === "table" && outcome.refused !== undefined) this.refusal = outcome.refused;
    if (this.isWhole || this.refusal !== null) this.#end(this.isWhole);
    return true;
  }

  content(part) {
    return this.parts[part]?.content;
  }

  // The best answer that is there.
  get found() {
    return this.content("table") ?? this.content("best") ?? this.content("bound");
  }

  get row() {
    return this.found?.answers.findLast((each) => each.error === undefined);
  }

  // Whether nothing tighter will come than what is there.
  get isSettled() {
    return this.content("table") !== undefined || this.content("best") !== undefined;
  }

  get isWhole() {
    return this.content("table") !== undefined && this.parts.curve !== undefined && this.parts.attack !== undefined;
  }

  // How many rounds the answer is about.
  get rounds() {
    return this.row.rounds ?? this.found.inputs.rounds;
  }

  // How many rounds the curve counts as one: those of an epoch, where every record joins one of them.
  get unit() {
    return this.found?.inputs.rounds_per_epoch ?? 1;
  }

  // How far the curve reaches: somewhat beyond the rounds in question, and not another length for every small move.
  get last() {
    const { unit, rounds } = this;
    if (this.axis && this.axis % unit === 0 && (this.held || (rounds > 0.45 * this.axis && rounds < 0.93 * this.axis))) return this.axis;
    const count = Math.max(niceAbove(Math.max(rounds / unit, 1) * 1.25), unit > 1 ? 3 : 10);
    return Math.min(Math.ceil(count) * unit, 2 ** 53);
  }

  // Whether all of it is there, as soon as that is known; false if the question was left before.
  whole() {
    if (this.isWhole || this.refusal !== null) return Promise.resolve(this.isWhole);
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  leave() {
    this.#end(false);
  }

  #end(isWhole) {
    for (const resolve of this.#waiting.splice(0)) resolve(isWhole);
  }
}
