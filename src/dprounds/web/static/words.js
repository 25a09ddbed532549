// The question in other tongues: Python, the command line, a table for a spreadsheet.

import { words } from "./fields.js";
import { MECHANISMS } from "./vocabulary.js";

// A program that prints the answer of the row that is shown.
export function asPython(state, found, best) {
  const given = words(state);
  const { makes: maker, parameters } = MECHANISMS[state.mechanism];
  const imports = new Set([maker]);
  const budget = [given.epsilon && `epsilon=${given.epsilon}`, given.delta && `delta=${given.delta}`, `method="${best.method}"`].filter(Boolean).join(", ");

  const epoch = found.inputs.rounds_per_epoch ?? 1;
  const rate = given.batch_size ? `${given.batch_size} / ${given.dataset_size}` : given.sampling_rate ?? null;
  const step = (noise, share = rate) => {
    const made = `${maker}(${noise ?? parameters.map((name) => given[name]).join(", ")})`;
    if (share === null) return made;
    const [loader, sizes] = {
      allocation: ["RandomAllocation", epoch],
      shuffled: ["Shuffled", epoch],
      truncated: ["TruncatedPoissonSampled", `${share}, ${given.largest_batch}, ${given.dataset_size}`],
      "fixed-size": ["FixedSizeSampled", `${given.batch_size}, ${given.dataset_size}`],
    }[given.sampling] ?? ["PoissonSampled", share];
    imports.add(loader);
    const more = [given.relation && `, relation="${given.relation}"`, given.group_size && `, group_size=${given.group_size}`].filter(Boolean).join("");
    return `${loader}(${made}, ${sizes}${more})`;
  };
  // of an epoch, so many: part of one counts as one
  const rounds = epoch > 1 && found.inputs.rounds !== undefined ? Math.ceil(found.inputs.rounds / epoch) : found.inputs.rounds ?? given.rounds;
  const lines = [];
  if (state.question === "rounds") {
    imports.add("max_rounds");
    lines.push(`step = ${step(null)}`, `print(${epoch > 1 ? `${epoch} * ` : ""}max_rounds(step, ${budget}))`);
  } else if (state.question === "epsilon" || state.question === "delta") {
    lines.push(`run = ${step(null)} * ${rounds}`, `print(run.${state.question}(${budget}))`);
  } else if (state.question === "noise") {
    imports.add("min_noise_multiplier");
    lines.push(`print(min_noise_multiplier(lambda s: ${step("s")} * ${rounds}, ${budget}))`);
  } else if (given.rounds) {
    imports.add("max_sampling_rate");
    lines.push(`print(max_sampling_rate(lambda q: ${step(null, "q")} * ${given.rounds}, ${budget}))`);
  } else {
    // the rounds of that many epochs change with the batch, which is what is answered
    const mechanism = given.mechanism ? `mechanism="${given.mechanism}", ` : "";
    const setting = `Setting(${mechanism}noise_multiplier=${given.noise_multiplier}, dataset_size=${given.dataset_size}, epochs=${given.epochs})`;
    return `from dprounds.questions import Setting, rate\n\nsetting = ${setting}\n`
      + `print(rate(setting, ${budget}).best.values["sampling_rate"])\n`;
  }
  return `from dprounds import ${[...imports].sort().join(", ")}\n\n${lines.join("\n")}\n`;
}

export function asCommand(state) {
  const flags = Object.entries(words(state)).map(([name, value]) => `--${name.replaceAll("_", "-")} ${quoted(value)}`);
  return `dprounds ${state.question} ${flags.join(" ")}`;
}

function quoted(text) {
  return /^[\w.+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

// Rows of any shape as comma-separated values, a column for each name that occurs.
export function asCsv(rows) {
  const names = [...new Set(rows.flatMap(Object.keys))];
  const cell = (value) => (/[",\n]/.test(value ?? "") ? `"${String(value).replaceAll('"', '""')}"` : value ?? "");
  return [names, ...rows.map((row) => names.map((name) => row[name]))].map((line) => line.map(cell).join(",")).join("\r\n") + "\r\n";
}
