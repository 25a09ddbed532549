// What each loader costs for the same question, next to its name in the form. What one loader answers is the same for all that are compared with it.

import { Lane, Refused, addressAt, ask } from "./asking.js";
import { isForGroup, relationOf, withLoader, words } from "./fields.js";
import { bestMethod, remember, remembered } from "./question.js";
import { LOADERS, RELATIONS } from "./vocabulary.js";

// For a group only Poisson sampling is.
function isExact(state) {
  return LOADERS[state.sampling].is_exact && (state.sampling === "poisson" || !isForGroup(state));
}

function shortRelation(state) {
  return (RELATIONS[relationOf(state)] ?? "").replace(" record", "");
}

export class LoaderCosts {
  #lane = new Lane();

  // `text` says the answer of a question in a few words.
  constructor(form, text) {
    this.form = form;
    this.text = text;
  }

  // Show what is known for a question, and ask for the rest, one loader after the other.
  ask(question) {
    const missing = this.#show(question.state);
    if (!missing.length) return;
    this.#lane.run(question.link, async (signal) => {
      for (const address of missing) {
        try {
          remember(address, await ask(address, signal));
        } catch (error) {
          if (!(error instanceof Refused)) throw error;
          remember(address, { refused: error.message });
        }
        if (signal.aborted) return;
        this.#show(question.state);
      }
    });
  }

  // The question has changed: what stands there belongs to the one before.
  leave() {
    this.#lane.stop();
    this.form.forgetCosts();
  }

  #show(state) {
    const missing = [];
    for (const loader of Object.keys(LOADERS)) {
      const other = withLoader(state, loader);
      if (other === null) {
        this.form.showCost(loader, { text: "", note: "" });
        continue;
      }
      const relation = shortRelation(other);
      if (state.relation !== null && relationOf(other) !== relationOf(state)) {
        this.form.showCost(loader, { text: "not known", note: shortRelation(state) });
        continue;
      }
      if (isForGroup(state) && !isForGroup(other)) {
        this.form.showCost(loader, { text: "not known", note: "for a group" });
        continue;
      }
      const address = addressAt(other.question, { ...words(other), method: bestMethod(other) });
      const content = remembered(address);
      if (content === undefined) missing.push(address);
      else if (content.refused !== undefined) this.form.showCost(loader, { text: "not known", note: "", title: content.refused });
      else this.form.showCost(loader, { text: this.text(content, isExact(other)), note: relation, title: content.sentence });
    }
    return missing;
  }
}
