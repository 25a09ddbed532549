// What can be set, its limits, and how the whole is written into the address and into a request.

export const METHODS = ["moments", "balle", "closed-form", "optimal", "exact"];

// A slider runs over the logarithm between its limits; what is typed may go beyond them, and the library judges it.
export const NUMBERS = {
  epsilon: { name: "Budget ε", about: "nats", low: 0.05, high: 50, start: "3" },
  delta: { name: "Failure mass δ", about: "below 1 / records", low: 1e-12, high: 0.1, start: "1e-5" },
  noise_multiplier: { name: "Noise multiplier", about: "noise ÷ sensitivity", low: 0.3, high: 300, start: "1.1" },
  step_epsilon: { name: "ε of one round", about: "nats", low: 1e-4, high: 10, start: "0.1" },
  step_delta: { name: "δ of one round", about: "failure mass", low: 1e-15, high: 1e-3, start: "1e-9" },
  rho: { name: "ρ of one round", about: "zCDP, nats", low: 1e-7, high: 1, start: "0.001" },
  batch_size: { name: "Batch", about: "expected records a round", low: 1, high: 1e6, start: "256", whole: true },
  dataset_size: { name: "Data set", about: "records", low: 100, high: 1e9, start: "60000", whole: true },
  sampling_rate: { name: "Sampling rate", about: "share of records a round", low: 1e-6, high: 1, start: "0.004" },
  epochs: { name: "Epochs", about: "passes over the data", low: 1, high: 1000, start: "60" },
  rounds: { name: "Rounds", about: "releases", low: 1, high: 1e7, start: "14062", whole: true },
};

export const CHOICES = {
  mechanism: {
    name: "Mechanism",
    options: {
      "gaussian": "Gaussian noise (DP-SGD)",
      "laplace": "Laplace noise",
      "discrete-gaussian": "Discrete Gaussian noise",
      "randomized-response": "Randomized response",
      "pure-dp": "Any ε-DP mechanism",
      "approximate-dp": "Any (ε, δ)-DP mechanism",
      "zcdp": "Any ρ-zCDP mechanism",
    },
  },
  sampling: {
    name: "Each round sees",
    options: { batch: "a random batch of the data set", rate: "each record at a rate", all: "all records" },
  },
  length: { name: "How long", options: { epochs: "in epochs", rounds: "in rounds" } },
};

const NEEDS = {
  "gaussian": ["noise_multiplier"], "laplace": ["noise_multiplier"], "discrete-gaussian": ["noise_multiplier"],
  "randomized-response": ["step_epsilon"], "pure-dp": ["step_epsilon"], "approximate-dp": ["step_epsilon", "step_delta"],
  "zcdp": ["rho"],
};
const NOISY = ["gaussian", "laplace", "discrete-gaussian"];
export const QUESTIONS = ["rounds", "epsilon", "delta", "noise", "rate"];

export function startState() {
  const values = Object.fromEntries(Object.entries(NUMBERS).map(([name, { start }]) => [name, start]));
  return { question: "rounds", mechanism: "gaussian", sampling: "batch", length: "epochs", values };
}

// The mechanisms that a question knows how to vary.
export function mechanismsOf(question) {
  return question === "noise" || question === "rate" ? NOISY : Object.keys(NEEDS);
}

// What is shown, in order.
export function shown(state) {
  const budget = { epsilon: ["delta"], delta: ["epsilon"] }[state.question] ?? ["epsilon", "delta"];
  const noise = state.question === "noise" ? [] : NEEDS[state.mechanism];
  const sampled = { batch: ["batch_size", "dataset_size"], rate: ["sampling_rate"], all: [] }[state.sampling];
  const sampling = state.question === "rate" ? ["dataset_size"] : ["sampling", ...sampled];
  const length = state.question === "rounds" ? [] : ["length", lengthOf(state)];
  return [...budget, "mechanism", ...noise, ...sampling, ...length];
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
  if (state.question === "delta") found.delta = row.delta;
  if (state.question === "noise") found.noise_multiplier = row.noise_multiplier;
  if (state.question === "rate") found.sampling_rate = row.sampling_rate;
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
  if (question !== null && !QUESTIONS.includes(question)) {
    return { state, trouble: `This link asks ${quoted(question)}; this page answers ${QUESTIONS.join(", ")}. It shows its own example instead.` };
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
