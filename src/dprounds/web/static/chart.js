// Small charts in SVG: axes, curves, and a line that can be dragged.

const SVG = "http://www.w3.org/2000/svg";
const MARGIN = { left: 54, right: 14, top: 12, bottom: 42 };

export function element(name, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

export function swatch(method) {
  const line = element("line", { x1: 0, y1: 5, x2: 30, y2: 5, class: `curve ${method}` });
  return element("svg", { class: "swatch", viewBox: "0 0 30 10", "aria-hidden": "true" }, line);
}

// The next round number at or above a positive one.
export function niceAbove(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  const step = [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].find((candidate) => candidate * power >= value * (1 - 1e-12));
  return step * power;
}

function ticks(high, count) {
  const step = [1, 2, 2.5, 5, 10].map((each) => each * 10 ** Math.floor(Math.log10(high / count)))
    .find((each) => high / each <= count);
  return Array.from({ length: Math.floor(high / step + 1e-9) + 1 }, (_, i) => i * step);
}

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 });

export function tickText(value) {
  if (value === 0) return "0";
  if (value >= 1e15 || value < 1e-4) return value.toExponential(0);
  return value >= 1e5 ? compact.format(value) : String(Number(value.toPrecision(6)).toLocaleString("en"));
}

// Epsilon grows about as a power of the rounds, and straight lines between far points of a concave curve lie below it: between those the curve
// is the power through both, or the straight line where that is higher.
function bent(points) {
  const found = points.slice(0, 1);
  for (let i = 1; i < points.length; i += 1) {
    const [[x0, y0], [x1, y1]] = [points[i - 1], points[i]];
    const bends = x0 > 0 && y0 > 0 && y1 > 0 && x1 - x0 > 1 ? Math.floor(Math.log(x1 / x0) / 0.1) : 0;
    for (let bend = 1; bend <= bends; bend += 1) {
      const share = bend / (bends + 1);
      const x = x0 * (x1 / x0) ** share;
      found.push([x, Math.max(y0 * (y1 / y0) ** share, y0 + ((y1 - y0) * (x - x0)) / (x1 - x0))]);
    }
    found.push(points[i]);
  }
  return found;
}

export class Chart {
  // `size` for a chart that is not on the screen.
  constructor(svg, { x, y, percent = false, size = null }) {
    this.svg = svg;
    this.fixed = size;
    this.titles = { x, y };
    this.percent = percent;
    this.margin = { ...MARGIN, left: percent ? 64 : MARGIN.left }; // of both axes, or of "y" alone
    this.back = element("g", { "aria-hidden": "true" });
    this.front = element("g", { "aria-hidden": "true" });
    svg.append(this.back, this.front);
    this.high = { x: 1, y: 1 };
  }

  // Clear, and draw the axes from zero to `x` and `y`.
  frame(x, y) {
    this.high = { x, y };
    const { width, height } = this.fixed ?? this.svg.getBoundingClientRect();
    this.size = { width: Math.max(width, 200), height: Math.max(height, 150) };
    this.svg.setAttribute("viewBox", `0 0 ${this.size.width} ${this.size.height}`);
    const { left, right, top, bottom } = this.box();
    const share = (value) => `${Math.round(value * 100)} %`;
    const format = { x: this.percent === true ? share : tickText, y: this.percent ? share : tickText };
    this.back.replaceChildren();
    this.front.replaceChildren();
    const room = (right - left) / (this.percent === true ? 55 : 75);
    for (const tick of ticks(y, Math.max(3, Math.min(6, (bottom - top) / 40)))) {
      const at = this.y(tick);
      this.back.append(
        element("line", { class: "grid", x1: left, x2: right, y1: at, y2: at }),
        element("text", { x: left - 7, y: at + 4, "text-anchor": "end" }, format.y(tick)),
      );
    }
    for (const tick of ticks(x, Math.max(2, Math.min(6, room)))) {
      const at = this.x(tick);
      const anchor = at > right - 20 ? "end" : "middle";
      this.back.append(
        element("line", { class: "axis", x1: at, x2: at, y1: bottom, y2: bottom + 4 }),
        element("text", { x: anchor === "end" ? right + 8 : at, y: bottom + 17, "text-anchor": anchor }, format.x(tick)),
      );
    }
    this.back.append(
      element("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }),
      element("text", { x: (left + right) / 2, y: bottom + 35, "text-anchor": "middle" }, this.titles.x),
      element("text", { transform: `translate(13 ${(top + bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, this.titles.y),
    );
  }

  box() {
    const { width, height } = this.size;
    const { left, right, top, bottom } = this.margin;
    return { left, right: width - right, top, bottom: height - bottom };
  }

  x(value) {
    const { left, right } = this.box();
    return left + (value / this.high.x) * (right - left);
  }

  y(value) {
    const { top, bottom } = this.box();
    return bottom - (value / this.high.y) * (bottom - top);
  }

  // The value at a height on the screen.
  valueAt(clientY) {
    const { top, bottom } = this.box();
    const at = clientY - this.svg.getBoundingClientRect().top;
    return ((bottom - at) / (bottom - top)) * this.high.y;
  }

  // Words in the middle, where there is nothing to draw, or at the top.
  say(text, high = false) {
    const { left, right, top, bottom } = this.box();
    this.front.append(element("text", {
      class: "note ground", x: (left + right) / 2, y: high ? top + 14 : (top + bottom) / 2, "text-anchor": "middle",
    }, text));
  }

  // A curve through points, cut where it leaves the chart.
  curve(given, name, into = this.back) {
    const points = bent(given);
    const inside = [];
    for (let i = 0; i < points.length; i += 1) {
      const [x, y] = points[i];
      if (y > this.high.y) {
        if (i > 0 && points[i - 1][1] < this.high.y) {
          const [x0, y0] = points[i - 1];
          inside.push([x0 + ((x - x0) * (this.high.y - y0)) / (y - y0), this.high.y]);
        }
        break;
      }
      inside.push([x, y]);
    }
    const path = inside.map(([x, y]) => `${this.x(x).toFixed(1)},${this.y(y).toFixed(1)}`).join(" ");
    into.append(element("polyline", { class: `curve ${name}`, points: path }));
  }

  // What lies under a curve.
  area(points, name) {
    const path = points.map(([x, y]) => `${this.x(x).toFixed(1)},${this.y(y).toFixed(1)}`);
    const ends = [`${this.x(points.at(-1)[0])},${this.y(0)}`, `${this.x(points[0][0])},${this.y(0)}`];
    this.back.append(element("polygon", { class: name, points: [...path, ...ends].join(" ") }));
  }

  // A point with a line to its axis, and a note: next to the point, or at the axis, where no curve is in the way.
  // A line across the chart at `avoid` must not go through the note: then that is on the other side.
  mark(x, y, note, low = false, avoid = null) {
    const { left, right, bottom } = this.box();
    const at = { x: this.x(Math.min(x, this.high.x)), y: this.y(Math.min(y, this.high.y)) };
    const gap = avoid === null ? 0 : this.x(Math.min(avoid, this.high.x)) - at.x;
    const before = at.x > left + 0.65 * (right - left) || (gap > 0 && gap < 9 + 8 * note.length);
    this.front.append(
      element("line", { class: "drop", x1: at.x, x2: at.x, y1: at.y, y2: bottom }),
      element("circle", { class: "mark", cx: at.x, cy: at.y, r: 5 }),
      element("text", {
        class: "note ground", x: at.x + (before ? -9 : 9), y: low ? bottom - 9 : Math.max(at.y - 10, 24), "text-anchor": before ? "end" : "start",
      }, note),
    );
  }
}

// A horizontal line over a chart that can be moved by mouse, touch and keyboard.
export class Budget {
  constructor(chart, { low, high, text, moved, dropped }) {
    this.chart = chart;
    this.limits = { low, high };
    this.text = text;
    this.moved = moved;
    this.value = 1;
    this.dragging = false;
    this.line = element("line", { class: "line" });
    this.grip = element("rect", { class: "grip", height: 28 });
    this.knob = element("circle", { class: "knob", r: 7 });
    this.label = element("text", { class: "ground", "aria-hidden": "true" });
    this.group = element("g", {
      class: "budget", role: "slider", tabindex: 0, "aria-label": "Budget ε", "aria-orientation": "vertical",
      "aria-valuemin": low, "aria-valuemax": high,
    }, this.grip, this.line, this.knob, this.label);
    chart.svg.append(this.group);
    this.group.addEventListener("pointerdown", (event) => {
      this.dragging = true;
      this.group.setPointerCapture(event.pointerId);
      this.group.focus({ preventScroll: true });
      event.preventDefault();
    });
    this.group.addEventListener("pointermove", (event) => {
      if (this.dragging) this.#to(this.chart.valueAt(event.clientY)); // beyond the chart too: its scale follows when the line is dropped
    });
    for (const name of ["pointerup", "pointercancel"]) {
      this.group.addEventListener(name, () => {
        this.dragging = false;
        dropped();
      });
    }
    this.group.addEventListener("keydown", (event) => {
      const factor = { ArrowUp: 1.02, ArrowRight: 1.02, ArrowDown: 1 / 1.02, ArrowLeft: 1 / 1.02, PageUp: 1.2, PageDown: 1 / 1.2 };
      const target = event.key in factor ? this.value * factor[event.key] : { Home: low, End: high }[event.key];
      if (target === undefined) return;
      event.preventDefault();
      this.#to(target);
    });
  }

  #to(value) {
    this.moved(Math.min(Math.max(value, this.limits.low), this.limits.high));
  }

  // Put the line where the value is; hide it where there is none.
  place(value) {
    const isThere = value !== null && this.chart.size !== undefined;
    this.group.toggleAttribute("hidden", !isThere);
    if (!isThere) return;
    this.value = value;
    const { left, right } = this.chart.box();
    const at = this.chart.y(Math.min(value, this.chart.high.y));
    for (const [key, number] of Object.entries({ x1: left, x2: right, y1: at, y2: at })) this.line.setAttribute(key, number);
    for (const [key, number] of Object.entries({ x: left, y: at - 14, width: right - left })) this.grip.setAttribute(key, number);
    this.knob.setAttribute("cx", right - 8);
    this.knob.setAttribute("cy", at);
    this.label.setAttribute("x", left + 8); // where the curves are still below the budget
    this.label.setAttribute("y", at < 30 ? at + 16 : at - 8);
    this.label.textContent = this.text(value);
    this.group.setAttribute("aria-valuenow", value);
    this.group.setAttribute("aria-valuetext", this.text(value));
  }
}

// A drawn chart as a file of its own, on paper: the title and what else is to be read above it, the legend between them, each on as many lines
// as it needs.
export function figureFile(chart, { title, lines, legend, budget, rules }) {
  const { width, height } = chart.size;
  const pen = document.createElement("canvas").getContext("2d");
  const wrapped = (text, font) => {
    pen.font = font;
    const found = [""];
    for (const word of text.split(" ")) {
      const joined = found.at(-1) ? `${found.at(-1)} ${word}` : word;
      if (pen.measureText(joined).width * SLACK <= width - 2 * EDGE || !found.at(-1)) found[found.length - 1] = joined;
      else found.push(word);
    }
    return found;
  };
  const parts = [];
  let y = EDGE;
  const write = (text, name, font, step) => {
    for (const line of wrapped(text, font)) {
      y += step;
      parts.push(element("text", { class: name, x: EDGE, y }, line));
    }
  };
  write(title, "title", "600 14px sans-serif", 18);
  for (const line of lines) write(line, "quiet", "12px sans-serif", 16);
  pen.font = "12px sans-serif";
  let x = EDGE;
  y += 22;
  for (const method of legend) {
    const needs = 32 + pen.measureText(method).width * SLACK + 16;
    if (x + needs > width - EDGE && x > EDGE) {
      x = EDGE;
      y += 18;
    }
    parts.push(element("line", { class: `curve ${method}`, x1: x, x2: x + 26, y1: y - 4, y2: y - 4 }), element("text", { x: x + 32, y }, method));
    x += needs;
  }
  y += 10;
  if (budget !== null && budget.value <= chart.high.y) {
    const { left, right } = chart.box();
    const at = chart.y(budget.value);
    chart.back.append(
      element("line", { class: "budget", x1: left, x2: right, y1: at, y2: at }),
      element("text", { class: "of-budget ground", x: left + 8, y: at - 8 }, budget.text),
    );
  }
  const drawn = element("g", { transform: `translate(0 ${y})` }, ...[...chart.svg.childNodes].map((node) => node.cloneNode(true)));
  for (const node of drawn.querySelectorAll("[aria-hidden]")) node.removeAttribute("aria-hidden");
  const whole = element("svg", { viewBox: `0 0 ${width} ${height + y}`, width, height: height + y },
    element("title", {}, title), element("style", {}, `${PAPER}${rules}`), element("rect", { width, height: height + y, fill: "#fff" }), ...parts, drawn);
  return `${new XMLSerializer().serializeToString(whole)}\n`;
}

// Another machine's letters may be wider than this one's.
const SLACK = 1.12;
const EDGE = 14;
const PAPER = [
  "text{font:12px sans-serif;fill:#4c5561}", ".title{font-size:14px;font-weight:600;fill:#16191d}", ".grid{stroke:#e4e8ed}",
  ".axis{stroke:#4c5561}", ".curve{fill:none;stroke-linejoin:round}", ".drop{stroke:#16191d;stroke-dasharray:3 3}", ".mark{fill:#fff;stroke:#16191d;stroke-width:2}",
  ".note{fill:#16191d;font-weight:600}", ".ground{stroke:#fff;stroke-width:4;paint-order:stroke}",
  ".budget{stroke:#8f4a00;stroke-width:2.5;stroke-dasharray:9 5}", ".of-budget{fill:#8f4a00;font-weight:700}",
].join("");
