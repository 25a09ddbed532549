// Between a Rényi bound at an order and (ε, δ).

import { plainNumber } from "./fields.js";
import { View, cell } from "./view.js";

const at = (id) => document.getElementById(id);
// What is asked: its label, and what it is at first.
const ASKED = { order: ["Rényi order", "8"], rdp: ["Rényi bound", "0.5"], epsilon: ["ε", ""], delta: ["δ", "1e-5"] };

const inputs = Object.fromEntries(Object.entries(ASKED).map(([name, [label, value]]) => {
  const input = cell("input", [], { type: "text", inputMode: "decimal", id: `convert-${name}`, name, value, maxLength: 30, spellcheck: false });
  at("convert-form").append(cell("label", [label, input]));
  return [name, input];
}));

const view = new View(at("convert"), "convert", {
  words: () => Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, plainNumber(input.value)]).filter(([, text]) => text !== "")),
  // a Rényi bound that suffices for (ε, δ) is rounded down
  columns: [["epsilon", "ε", true], ["delta", "δ", true], ["rdp", "Rényi bound", false]],
  marked: (sentence) => {
    for (const [name, input] of Object.entries(inputs)) input.setAttribute("aria-invalid", String(sentence?.startsWith(`${name} `) ?? false));
  },
});
for (const input of Object.values(inputs)) input.addEventListener("input", () => view.moved());
