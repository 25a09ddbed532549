// A run of several parts, typed or from a file: what all of its releases cost together.

import { plainNumber } from "./fields.js";
import { View, cell, line } from "./view.js";

const at = (id) => document.getElementById(id);
const COLUMNS = { noise_multiplier: "Noise multiplier", batch_size: "Batch", dataset_size: "Data set", rounds: "Rounds" };
const START = [{ noise_multiplier: "1.1", batch_size: "256", dataset_size: "60000", rounds: "14100" }, { noise_multiplier: "20", rounds: "10" }];
const NUMBER = /^[+-]?[0-9][0-9]*(\.[0-9]+)?([eE][+-]?[0-9]+)?$/; // as TOML writes it

let opened = null; // the text of a file, in place of what is typed

// What is typed, as a file of a run has it; what is no number is handed on as a text, for the library to refuse.
function typed() {
  return [...at("parts-rows").tBodies[0].rows].map((row) => (
    ["[[part]]", ...[...row.querySelectorAll("input")].map((input) => [input.name, plainNumber(input.value)]).filter(([, text]) => text !== "")
      .map(([name, text]) => `${name} = ${NUMBER.test(text) ? text : JSON.stringify(text)}`)].join("\n")
  )).join("\n");
}

const view = new View(at("parts"), "epsilon", {
  words: () => ({ delta: plainNumber(at("parts-delta").value), run: opened ?? typed() }),
  columns: [["epsilon", "ε", true]],
  marked: (sentence) => at("parts-delta").setAttribute("aria-invalid", String(sentence?.startsWith("delta ") ?? false)),
});

function add(values = {}) {
  const made = line(...Object.entries(COLUMNS).map(([name, title]) => {
    const input = cell("input", [], { type: "text", inputMode: "decimal", name, value: values[name] ?? "", maxLength: 30, spellcheck: false });
    input.setAttribute("aria-label", title);
    return cell("td", input);
  }));
  const away = cell("button", "×", { type: "button", title: "Leave this part out" });
  away.setAttribute("aria-label", "Leave this part out");
  away.addEventListener("click", () => {
    made.remove();
    view.moved();
  });
  made.append(cell("td", away));
  at("parts-rows").tBodies[0].append(made);
  return made;
}

at("parts-rows").tHead.append(line(...Object.values(COLUMNS).map((title) => cell("th", title, { scope: "col" })), cell("td", "")));
START.forEach(add);
at("parts-add").addEventListener("click", () => {
  add().querySelector("input").focus();
});
at("parts-form").addEventListener("input", async (event) => {
  if (event.target === at("parts-file")) {
    const [file] = at("parts-file").files;
    opened = file ? await file.text() : null;
    at("parts-rows").classList.toggle("stale", opened !== null);
  } else if (event.target !== at("parts-delta")) {
    opened = null; // what is typed counts again
    at("parts-file").value = "";
    at("parts-rows").classList.remove("stale");
  }
  view.moved();
});
