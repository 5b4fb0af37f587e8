// The data in arrays, the part of the plane that is visible, and round numbers along its axes.

const STEPS = 65535; // positions are whole numbers from 0 to this, between the limits of the plot
const ROW = 0.7; // fraction of its row that a cluster fills, if there is one feature only
const MAX_ZOOM = 200;
const GRAY = "#969ca5"; // of outliers

// Texts of the data become text nodes, never markup: this is the only way in which elements are made.
function make(namespace, name, attributes, children) {
  const element = document.createElementNS(namespace, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}
const html = (name, attributes = {}, ...children) => make("http://www.w3.org/1999/xhtml", name, attributes, children);
const svg = (name, attributes = {}, ...children) => make("http://www.w3.org/2000/svg", name, attributes, children);

function unpack(text, Kind) {
  return new Kind(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);
}

/** Nodes and solutions; the labels of a solution are unpacked when it is first shown. */
class Model {
  constructor(data) {
    Object.assign(this, data);
    const nodes = data.nodes;
    this.count = nodes.count;
    this.index = unpack(nodes.index, Uint32Array);
    this.sizes = unpack(nodes.sizes, Uint32Array);
    this.places = unpack(nodes.places, Uint16Array);
    this.points = unpack(nodes.points, Uint16Array);
    this.shares = nodes.shares && unpack(nodes.shares, Uint8Array);
    this.starts = new Uint32Array(this.count + 1);
    unpack(nodes.drawn, Uint16Array).forEach((drawn, i) => (this.starts[i + 1] = this.starts[i] + drawn));
    this.names = Array.from(this.index, (number, i) => (nodes.names ? nodes.names[i] : `node ${number}`));
    this.select(data.chosen);
  }

  /** Show another solution. */
  select(i) {
    const one = this.solutions[i];
    if (typeof one.labels === "string") {
      const Kind = one.wide ? Uint16Array : Uint8Array;
      for (const key of ["labels", "second"]) one[key] = unpack(one[key], Kind);
      for (const key of ["probabilities", "secondProbabilities"]) one[key] = unpack(one[key], Uint8Array);
      // With one feature, each cluster has its own row, from the lowest center up.
      const order = one.centers.map((_, c) => c).sort((a, b) => one.centers[a][0] - one.centers[b][0]);
      one.rank = [];
      order.forEach((c, row) => (one.rank[c] = row));
      one.outlier = one.wide ? 65535 : 255; // the label of nodes in no cluster
      one.rank[one.outlier] = -1;
    }
    this.solution = one;
    this.hasOutliers = one.labels.includes(one.outlier);
    this.at = this.placed(this.places, (i) => i);
    const owner = new Uint32Array(this.points.length / 2);
    for (let i = 0; i < this.count; i++) owner.fill(i, this.starts[i], this.starts[i + 1]);
    this.owner = owner;
    this.pointsAt = this.placed(this.points, (i) => owner[i]);
    this.centersAt = one.centers.map((center, c) => (center[0] === null ? [NaN, NaN] : this.place(center, c)));
  }

  /** Values of a position, [x, y]; in the row of the cluster, if there are rows. */
  place([x, y], cluster) {
    const [left, right] = this.plane.x.limits, [bottom, top] = this.plane.y.limits;
    const across = left + (x / STEPS) * (right - left);
    if (this.plane.hasRows) return [across, this.solution.rank[cluster] + ROW * (y / STEPS - 0.5)];
    return [across, bottom + (y / STEPS) * (top - bottom)];
  }

  placed(steps, nodeOf) {
    const values = new Float64Array(steps.length);
    for (let i = 0; i < steps.length / 2; i++) {
      if (!steps[2 * i] && !steps[2 * i + 1]) {
        values.fill(NaN, 2 * i, 2 * i + 2); // a missing place: the plot has a margin, so that no node is at its corner
        continue;
      }
      const label = this.solution.labels[nodeOf(i)];
      [values[2 * i], values[2 * i + 1]] = this.place([steps[2 * i], steps[2 * i + 1]], label);
    }
    return values;
  }

  /** The cluster of a node; null for an outlier. */
  clusterOf(node) {
    const label = this.solution.labels[node];
    return label === this.solution.outlier ? null : label;
  }

  color(label) {
    return label === this.solution.outlier ? GRAY : this.palette[label % this.palette.length];
  }

  /** Which marker a cluster has: clusters of the same color have different ones. */
  shape(cluster) {
    if (cluster === this.solution.outlier) return 3;
    const n = this.palette.length;
    return Math.floor((cluster % n) / this.sameMarker + Math.floor(cluster / n)) % 3;
  }
}

/** The mapping of values to pixels: the frame of the plot, and the window of values that it shows. */
class View {
  constructor(model) {
    this.model = model;
  }

  /** Use a new size, in pixels; keeps the window if the reader has zoomed in. */
  resize(width, height, margins) {
    const zoomed = this.window && this.isZoomed;
    Object.assign(this, { width, height, left: margins.left, top: margins.top });
    this.right = width - margins.right;
    this.bottom = height - margins.bottom;
    const { x, y, aspect, hasRows } = this.model.plane;
    const rows = [this.model.hasOutliers ? -1.6 : -0.6, this.model.solution.k - 0.4];
    const full = { x: [...x.limits], y: hasRows ? rows : [...y.limits] };
    if (aspect) {
      // Distances are the same in all directions: the longer side gets more values.
      const sides = (this.right - this.left) / (this.bottom - this.top);
      const wide = full.x[1] - full.x[0], high = aspect * (full.y[1] - full.y[0]);
      const more = [Math.max(sides * high - wide, 0) / 2, Math.max(wide / sides - high, 0) / 2 / aspect];
      full.x = [full.x[0] - more[0], full.x[1] + more[0]];
      full.y = [full.y[0] - more[1], full.y[1] + more[1]];
    }
    this.full = full;
    if (!zoomed) this.reset();
  }

  reset() {
    this.window = { x: [...this.full.x], y: [...this.full.y] };
  }

  get zoomed() {
    return (this.full.x[1] - this.full.x[0]) / (this.window.x[1] - this.window.x[0]);
  }

  get isZoomed() {
    return this.zoomed > 1.001;
  }

  x(value) {
    const [low, high] = this.window.x;
    return this.left + ((value - low) / (high - low)) * (this.right - this.left);
  }

  y(value) {
    const [low, high] = this.window.y;
    return this.bottom - ((value - low) / (high - low)) * (this.bottom - this.top);
  }

  contains(x, y) {
    return x >= this.left && x <= this.right && y >= this.top && y <= this.bottom;
  }

  /** Zoom by a factor around a pixel, and keep inside the full plot. */
  zoom(factor, x = (this.left + this.right) / 2, y = (this.top + this.bottom) / 2) {
    const allowed = Math.min(Math.max(this.zoomed * factor, 1), MAX_ZOOM) / this.zoomed;
    const share = { x: (x - this.left) / (this.right - this.left), y: (this.bottom - y) / (this.bottom - this.top) };
    for (const axis of ["x", "y"]) {
      const [low, high] = this.window[axis], held = low + share[axis] * (high - low);
      this.window[axis] = [held - (held - low) / allowed, held + (high - held) / allowed];
    }
    this.pan(0, 0);
  }

  /** Move by pixels, as far as the full plot reaches. */
  pan(right, down) {
    const { x, y } = this.window;
    this._shift("x", (-right * (x[1] - x[0])) / (this.right - this.left));
    this._shift("y", (down * (y[1] - y[0])) / (this.bottom - this.top));
  }

  _shift(axis, by) {
    const [low, high] = this.window[axis], full = this.full[axis];
    const shift = Math.min(Math.max(by, full[0] - low), full[1] - high);
    this.window[axis] = [low + shift, high + shift];
  }
}

/** Round numbers between two limits, with their texts. */
function roundTicks([low, high], maxSteps) {
  const rough = (high - low) / Math.max(maxSteps, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough * (1 - 1e-9));
  const digits = Math.max(0, Math.ceil(-Math.log10(step) + (step / power === 2.5 ? 1 : 0) - 1e-9));
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i <= high / step + 1e-9; i++) {
    ticks.push([i * step, tickText(i * step, digits)]);
  }
  return ticks;
}

function tickText(value, digits) {
  const isLong = Math.abs(value) >= 1e12 || digits > 9;
  const fixed = { minimumFractionDigits: isLong ? 0 : digits, maximumFractionDigits: isLong ? 0 : digits };
  const text = isLong ? value.toExponential(3) : value.toLocaleString("en-US", fixed);
  return text.replace("-", "−").replace(/^−(0(\.0*)?)$/, "$1");
}
