// Requests to our own server: one at a time on a lane, the newest first.

import { QUESTIONS } from "./vocabulary.js";

// A request that is still under way after this long, while a newer one waits, is given up.
const PATIENCE = 300;

export class Refused extends Error {}

// A needed word that is empty is not given: the library says that it is missing, and suggests a δ.
export function addressAt(question, words) {
  const given = Object.entries(words).filter(([name, value]) => value !== "" || !QUESTIONS[question]?.needs.includes(name));
  return `/api/${question}?${new URLSearchParams(given)}`;
}

export async function ask(address, signal) {
  let response;
  try {
    response = await fetch(address, { signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("The server does not answer. Start it again: dprounds serve.");
  }
  const content = await response.json();
  if (!response.ok) throw new Refused(content.error);
  return content;
}

// While someone drags, moves come faster than answers. A lane answers one move at a time and skips those between, so
// that the page keeps up instead of starting over with every move.
export class Lane {
  #current = null;
  #next = null;

  // `job` takes an AbortSignal; what it does after an abort must have no effect. What is under way for the same address is not begun again.
  run(address, job) {
    this.#next = this.#current?.address === address ? null : { address, job };
    if (!this.#current) this.#start();
    else if (this.#next) setTimeout(giveUp, Math.max(PATIENCE - (performance.now() - this.#current.begun), 0), this.#current, this);
  }

  // Leave what is under way or waits, unless it is for this address.
  keepOnly(address) {
    if (this.#next?.address !== address) this.#next = null;
    if (this.#current && this.#current.address !== address) abort(this.#current);
  }

  stop() {
    this.keepOnly(undefined);
  }

  get waiting() {
    return this.#next !== null;
  }

  async #start() {
    while (this.#next) {
      const { address, job } = this.#next;
      this.#next = null;
      const current = { address, control: new AbortController(), begun: performance.now() };
      this.#current = current;
      try {
        await job(current.control.signal);
      } catch (error) {
        if (error.name !== "AbortError") throw error;
      } finally {
        this.#current = null;
      }
    }
  }

  isOn(current) {
    return this.#current === current;
  }
}

function giveUp(current, lane) {
  if (lane.isOn(current) && lane.waiting) abort(current);
}

function abort(current) {
  current.control.abort();
  current.address = null; // the same may be asked again
}
