// What can be set, its limits, and how the whole is written into the address and into a request. The words themselves are the server's.

import { MECHANISMS, NUMBERS, QUESTIONS } from "./vocabulary.js";

// A slider runs over the logarithm between its limits; what is typed may go beyond them, and the library judges it.
export { METHODS, NUMBERS } from "./vocabulary.js";

export const CHOICES = {
  mechanism: {
    name: "Mechanism",
    options: Object.fromEntries(Object.values(MECHANISMS).map(({ name, title }) => [name, title])),
  },
  sampling: {
    name: "Each round sees",
    options: { batch: "a random batch of the data set", rate: "each record at a rate", all: "all records" },
  },
  length: { name: "How long", options: { epochs: "in epochs", rounds: "in rounds" } },
};

export function startState() {
  const values = Object.fromEntries(Object.entries(NUMBERS).map(([name, { start }]) => [name, start]));
  return { question: "rounds", mechanism: "gaussian", sampling: "batch", length: "epochs", values };
}

// The mechanisms that a question knows how to vary.
export function mechanismsOf(question) {
  return QUESTIONS[question].mechanisms;
}

// What is shown, in order.
export function shown(state) {
  const { needs, answers } = QUESTIONS[state.question];
  const parameters = MECHANISMS[state.mechanism].parameters.filter((name) => !answers.includes(name));
  const sampled = { batch: ["batch_size", "dataset_size"], rate: ["sampling_rate"], all: [] }[state.sampling];
  const sampling = answers.includes("sampling_rate") ? ["dataset_size"] : ["sampling", ...sampled];
  const length = answers.includes("rounds") ? [] : ["length", lengthOf(state)];
  return [...needs, "mechanism", ...parameters, ...sampling, ...length];
}

// Epochs mean something only where records are sampled.
export function lengthOf(state) {
  return state.sampling === "all" && state.question !== "rate" ? "rounds" : state.length;
}

// The words of the question as the API and the command line take them.
export function words(state) {
  const found = {};
  for (const name of shown(state)) {
    if (name === "mechanism") {
      if (state.mechanism !== "gaussian") found.mechanism = state.mechanism;
    } else if (name in NUMBERS) {
      found[name] = plainNumber(state.values[name]);
    }
  }
  return found;
}

// The words of the run that was found, for its curves: the answer takes the place of what was asked for, and rounds that of epochs.
export function wordsOfRun(state, row, inputs) {
  const { epsilon, epochs, dataset_size, ...found } = words(state);
  if (found.batch_size !== undefined) found.dataset_size = dataset_size;
  const { quantity: { name } } = QUESTIONS[state.question];
  if (name !== "epsilon") found[name] = row[name]; // the curves have every ε
  return { ...found, rounds: row.rounds ?? inputs.rounds };
}

// A number as JSON writes it, from what people type: 60,000 or .5; anything else as it is, for the library to refuse.
export function plainNumber(text) {
  const bare = String(text).trim().replace(/(\d)[,_ \u202f](?=\d{3})/g, "$1").replace(/^\+/, "");
  if (!/^-?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(bare)) return bare;
  return bare.replace(/^(-?)\./, "$10.").replace(/\.(?=$|e)/i, "").replace(/^(-?)0+(?=\d)/, "$1");
}

export function addressOf(state) {
  return `?${new URLSearchParams({ question: state.question, ...words(state) })}`;
}

// The state that an address describes, in which the words that it holds say how it was asked; and what of it this page does not know, in words.
export function stateOf(search) {
  const given = new URLSearchParams(search);
  const state = startState();
  const unknown = [...given.keys()].filter((name) => !["question", "mechanism"].includes(name) && !(name in NUMBERS));
  const troubles = unknown.slice(0, 1).map((name) => `${quoted(name)} is no word of this page`);
  const question = given.get("question");
  if (question !== null && !Object.hasOwn(QUESTIONS, question)) {
    return { state, trouble: `This link asks ${quoted(question)}; this page answers ${Object.keys(QUESTIONS).join(", ")}. It shows its own example instead.` };
  }
  if (question !== null) state.question = question;
  const mechanism = given.get("mechanism") ?? "gaussian";
  const mechanisms = mechanismsOf(state.question);
  if (mechanisms.includes(mechanism)) state.mechanism = mechanism;
  else troubles.push(`${quoted(mechanism)} is no mechanism of this question, which takes ${mechanisms.join(", ")}`);
  for (const name of Object.keys(NUMBERS)) {
    if (given.has(name)) state.values[name] = given.get(name).slice(0, 60);
  }
  if (given.has("sampling_rate")) state.sampling = "rate";
  else if (given.has("question") && !given.has("batch_size") && state.question !== "rate") state.sampling = "all";
  if (given.has("rounds")) state.length = "rounds";
  return { state, trouble: troubles.length ? `Of this link, ${troubles.join("; ")}. Left out.` : null };
}

function quoted(text) {
  return `“${text.length > 40 ? `${text.slice(0, 40)}…` : text}”`;
}
