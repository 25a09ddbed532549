// The inputs: a slider and a typed number for each quantity, kept in step.

import { CHOICES, NUMBERS, batchOf, lengthOf, mechanismsOf, plainNumber, relationOf, relationsOf, shown } from "./fields.js";
import { LOADERS } from "./vocabulary.js";

const STEPS = 1000;

function node(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Three digits are enough for a hand; whole numbers stay whole.
export function roundedForHand(value, whole = false) {
  const three = Number(value.toPrecision(3));
  if (whole) return String(Math.max(Math.round(three), 1));
  return three < 1e-3 ? three.toExponential() : String(three);
}

function position({ low, high }, value) {
  const share = Math.log(value / low) / Math.log(high / low);
  return Number.isFinite(share) ? Math.round(Math.min(Math.max(share, 0), 1) * STEPS) : 0;
}

export class Form {
  // `moved` is called with a name and its new text or choice, and the event.
  constructor(holder, moved) {
    this.fields = new Map();
    for (const name of Object.keys(CHOICES)) this.fields.set(name, this.#choice(name, moved));
    this.fields.set("sampling", this.#loaders(moved));
    for (const name of Object.keys(NUMBERS)) this.fields.set(name, this.#number(name, moved));
    holder.append(...[...this.fields.values()].map(({ row }) => row));
    this.holder = holder;
  }

  #choice(name, moved) {
    const select = node("select", { id: name, name });
    for (const [value, text] of Object.entries(CHOICES[name].options)) select.append(node("option", { value }, text));
    select.addEventListener("change", (event) => moved(name, select.value, event));
    const row = node("div", { class: "field choice" }, node("label", { for: name }, CHOICES[name].name), select);
    return { row, select };
  }

  // The loaders in plain words, with what each costs.
  #loaders(moved) {
    const radios = new Map();
    const costs = new Map();
    const row = node("fieldset", { class: "field loaders", id: "sampling" }, node("legend", {}, "How does your loader choose a batch?"));
    for (const [name, { title, meaning }] of Object.entries(LOADERS)) {
      const radio = node("input", { type: "radio", name: "sampling", value: name });
      radio.addEventListener("change", (event) => moved("sampling", name, event));
      const cost = node("span", { class: "cost" });
      radios.set(name, radio);
      costs.set(name, cost);
      row.append(node("label", {}, radio, node("span", { class: "plain" }, meaning, " ", node("em", {}, `(${title})`)), cost));
    }
    return { row, radios, costs };
  }

  showCost(loader, { text, note, title = "" }) {
    const cost = this.fields.get("sampling").costs.get(loader);
    cost.replaceChildren(node("b", {}, text), ...(note ? [" ", node("small", {}, note)] : []));
    cost.classList.remove("stale");
    cost.title = title;
  }

  forgetCosts() {
    for (const cost of this.fields.get("sampling").costs.values()) cost.classList.add("stale");
  }

  #number(name, moved) {
    const about = NUMBERS[name];
    const typed = node("input", {
      type: "text", inputmode: "decimal", id: name, name, maxlength: 60, spellcheck: "false", "aria-describedby": `${name}-about ${name}-wrong`,
    });
    const slider = node("input", {
      type: "range", id: `${name}-slider`, min: 0, max: STEPS, step: 1, "aria-label": `${about.label}, slider`,
    });
    const wrong = node("p", { class: "wrong", id: `${name}-wrong`, hidden: "" });
    slider.addEventListener("input", (event) => {
      const value = about.low * (about.high / about.low) ** (slider.valueAsNumber / STEPS);
      typed.value = roundedForHand(value, about.whole);
      slider.setAttribute("aria-valuetext", `${typed.value} ${about.unit}`);
      moved(name, typed.value, event);
    });
    typed.addEventListener("input", (event) => {
      this.#slide(name, typed.value);
      moved(name, typed.value, event);
    });
    const top = node("div", { class: "top" }, node("label", { for: name }, about.label), node("span", { class: "about", id: `${name}-about` }, about.unit));
    const row = node("div", { class: "field" }, top, node("div", { class: "typed" }, slider, typed), wrong);
    return { row, typed, slider, wrong };
  }

  #slide(name, text) {
    const { slider } = this.fields.get(name);
    slider.value = position(NUMBERS[name], Number(plainNumber(text)));
    slider.setAttribute("aria-valuetext", `${text} ${NUMBERS[name].unit}`);
  }

  // Show what the state asks for, in its order, each at its value.
  show(state) {
    const names = shown(state);
    for (const [name, { row }] of this.fields) row.hidden = !names.includes(name);
    const inOrder = names.map((name) => this.fields.get(name).row);
    // Moving a row takes the focus from what is in it, so rows are moved only if they are not in order.
    const present = [...this.holder.children].filter((row) => inOrder.includes(row));
    if (present.some((row, i) => row !== inOrder[i])) this.holder.append(...inOrder);
    const chosen = { mechanism: state.mechanism, batch: batchOf(state), relation: relationOf(state) ?? "", length: lengthOf(state) };
    for (const option of this.fields.get("relation").select.options) option.disabled = option.hidden = !relationsOf(state).includes(option.value);
    for (const [name, value] of Object.entries(chosen)) this.fields.get(name).select.value = value;
    for (const [name, radio] of this.fields.get("sampling").radios) radio.checked = name === state.sampling;
    const known = mechanismsOf(state.question);
    for (const option of this.fields.get("mechanism").select.options) option.disabled = option.hidden = !known.includes(option.value);
    const [epochs] = this.fields.get("length").select.options;
    epochs.disabled = state.sampling === "none" && state.question !== "rate";
    for (const name of Object.keys(NUMBERS)) {
      const { typed } = this.fields.get(name);
      if (typed.value !== state.values[name]) {
        typed.value = state.values[name];
        this.#slide(name, state.values[name]);
      }
    }
  }

  // Put a refusal next to the field that it names.
  refuse(sentence) {
    for (const [name, { typed, wrong, row }] of this.fields) {
      if (!typed) continue;
      const here = !row.hidden && sentence !== null && sentence.startsWith(`${name} `);
      typed.setAttribute("aria-invalid", String(here));
      wrong.hidden = !here;
      wrong.textContent = here ? sentence : "";
    }
  }
}
