// Requests to our own server: one at a time on a lane, the newest first.

// A request that is still under way after this long, while a newer one waits, is given up.
const PATIENCE = 300;

export class Refused extends Error {}

export async function ask(question, words, signal) {
  let response;
  try {
    response = await fetch(`/api/${question}?${new URLSearchParams(words)}`, { signal });
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

  // `job` takes an AbortSignal; what it does after an abort must have no effect.
  run(job) {
    this.#next = job;
    if (!this.#current) this.#start();
    else setTimeout(giveUp, Math.max(PATIENCE - (performance.now() - this.#current.begun), 0), this.#current, this);
  }

  stop() {
    this.#next = null;
    this.#current?.control.abort();
  }

  get waiting() {
    return this.#next !== null;
  }

  async #start() {
    while (this.#next) {
      const job = this.#next;
      this.#next = null;
      const current = { control: new AbortController(), begun: performance.now() };
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
  if (lane.isOn(current) && lane.waiting) current.control.abort();
}
