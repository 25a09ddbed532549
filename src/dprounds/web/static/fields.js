// What can be set, its limits, and how the whole is written into the address and into a request. The words themselves are the server's.

import { LOADERS, MECHANISMS, NUMBERS, QUESTIONS, RELATIONS } from "./vocabulary.js";

// A slider runs over the logarithm between its limits; what is typed may go beyond them, and the library judges it.
export { METHODS, NUMBERS } from "./vocabulary.js";

export const CHOICES = {
  mechanism: {
    name: "Mechanism",
    options: Object.fromEntries(Object.values(MECHANISMS).map(({ name, title }) => [name, title])),
  },
  batch: { name: "Batch size", options: { size: "in records", rate: "as a share of all" } },
  relation: { name: "Neighbours", options: RELATIONS },
  length: { name: "How long", options: { epochs: "in epochs", rounds: "in rounds" } },
};

// Values that mean nothing in addition, and are not said.
const UNSAID = { group_size: "1" };

// The relation is null until someone chooses another than the loader's own.
export function startState() {
  const values = { ...Object.fromEntries(Object.entries(NUMBERS).map(([name, { start }]) => [name, start])), ...UNSAID };
  return { question: "rounds", mechanism: "gaussian", sampling: "poisson", batch: "size", relation: null, length: "epochs", values };
}

// The mechanisms that a question knows how to vary.
export function mechanismsOf(question) {
  return QUESTIONS[question].mechanisms;
}

// What is shown, in order.
export function shown(state) {
  const { needs, answers } = QUESTIONS[state.question];
  const parameters = MECHANISMS[state.mechanism].parameters.filter((name) => !answers.includes(name));
  const sampling = answers.includes("sampling_rate") ? ["dataset_size"] : ["sampling", ...sampled(state)];
  const length = answers.includes("rounds") ? [] : ["length", lengthOf(state)];
  return [...needs, "mechanism", ...parameters, ...sampling, ...length];
}

function sampled(state) {
  const { sampling, mechanism } = state;
  if (sampling === "none") return [];
  const size = batchOf(state) === "rate" ? ["sampling_rate"] : ["batch_size", "dataset_size"];
  // what a group costs is known for Gaussian noise alone
  const most = sampling === "truncated" ? ["largest_batch"] : [];
  return [...(batchesOf(state).length > 1 ? ["batch"] : []), ...size, ...most, "relation", ...(LOADERS[sampling].has_groups && mechanism === "gaussian" ? ["group_size"] : [])];
}

// How a batch may be given: exactly that many of exactly this many records, where that is how it is drawn.
function batchesOf({ sampling }) {
  return ["fixed-size", "truncated"].includes(sampling) ? ["size"] : ["size", "rate"];
}

export function batchOf(state) {
  return batchesOf(state).includes(state.batch) ? state.batch : "size";
}

// Which data sets are neighbours.
export function relationOf({ sampling, relation }) {
  const { relations } = LOADERS[sampling];
  return relations.includes(relation) ? relation : relations[0];
}

export function relationsOf({ sampling }) {
  return LOADERS[sampling].relations;
}

// Whether several records of one person are protected together.
export function isForGroup(state) {
  return shown(state).includes("group_size") && plainNumber(state.values.group_size) !== UNSAID.group_size;
}

// The same question asked of another loader; null where it cannot be: batches of all records are other batches, a share is no number of records, and nobody has said where
// batches are cut.
export function withLoader(state, sampling) {
  if (sampling === state.sampling) return state;
  const isApart = ["none", "truncated"].includes(sampling) || state.sampling === "none" || QUESTIONS[state.question].answers.includes("sampling_rate");
  return isApart || (!batchesOf({ sampling }).includes(batchOf(state))) ? null : { ...state, sampling };
}

// Epochs mean something only where records are sampled.
export function lengthOf(state) {
  return state.sampling === "none" && state.question !== "rate" ? "rounds" : state.length;
}

// The words of the question as the API and the command line take them.
export function words(state) {
  const found = {};
  for (const name of shown(state)) {
    if (name === "mechanism") {
      if (state.mechanism !== "gaussian") found.mechanism = state.mechanism;
    } else if (name === "sampling") {
      if (!["poisson", "none"].includes(state.sampling)) found.sampling = state.sampling; // these follow from what is given
    } else if (name === "relation") {
      if (relationOf(state) !== relationsOf(state)[0]) found.relation = relationOf(state);
    } else if (name in NUMBERS) {
      const value = plainNumber(state.values[name]);
      if (value !== UNSAID[name]) found[name] = value;
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
  const unknown = [...given.keys()].filter((name) => !["question", "mechanism", "sampling", "relation"].includes(name) && !(name in NUMBERS));
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
  const sampling = given.get("sampling");
  if (given.has("sampling_rate")) state.batch = "rate";
  else if (question !== null && !given.has("batch_size") && state.question !== "rate") state.sampling = "none";
  if (Object.hasOwn(LOADERS, sampling ?? "poisson")) state.sampling = sampling ?? state.sampling;
  else troubles.push(`${quoted(sampling)} is no way to choose a batch; this page knows ${Object.keys(LOADERS).join(", ")}`);
  const relation = given.get("relation");
  if (relation === null || relationsOf(state).includes(relation)) state.relation = relation;
  else troubles.push(`${quoted(relation)} is no relation of ${LOADERS[state.sampling].title}`);
  if (given.has("rounds")) state.length = "rounds";
  return { state, trouble: troubles.length ? `Of this link, ${troubles.join("; ")}. Left out.` : null };
}

function quoted(text) {
  return `“${text.length > 40 ? `${text.slice(0, 40)}…` : text}”`;
}
