// The plot: axes, realizations, medians, ellipses and centers, as SVG in the pixels of the screen.

const LAYERS = 6; // in which the marks of all clusters alternate on top
const MAX_FAINT = 4000; // realizations; more would only hide each other
const DISC_RADIUS = 9; // radius of the disc with the number of a cluster
const SHAPES = [
  (x, y, r) => `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0-${2 * r} 0Z`,
  (x, y, r) => `M${x - r} ${y - r}h${2 * r}v${2 * r}h-${2 * r}Z`,
  (x, y, r) => `M${x} ${y - r}l${r} ${2 * r}h-${2 * r}Z`,
  // Thin, so larger: a cross of two strips.
  (x, y, r) => [1.4 * r, -1.4 * r].map((down) => {
    const side = Math.sign(down);
    const end = `${tenth(2.8 * r - 1)} ${tenth(2 * down + side)}`;
    return `M${tenth(x - 1.4 * r)} ${tenth(y - down)}l1 ${-side}l${end}l-1 ${side}Z`;
  }).join(""),
];

/** The name of an axis, in smaller letters if it is long; its middle is left out where even these do not fit. */
function axisName(name, room, transform) {
  const size = Math.min(12.5, Math.max(9, (1.75 * room) / name.length));
  const maxLength = Math.floor((1.8 * room) / size);
  const half = Math.floor((maxLength - 1) / 2);
  const text = name.length <= maxLength ? name : `${name.slice(0, half)}…${name.slice(-half)}`;
  return svg("text", { transform, class: "axis", "font-size": size }, text);
}

const tenth = (value) => Math.round(10 * value) / 10;

class Drawing {
  constructor(model, view) {
    Object.assign(this, { model, view });
    this.root = svg("svg", { class: "live" });
    this.active = svg("g");
  }

  /** Space for the ticks and names of the axes, with the largest texts that zooming may bring. */
  margins() {
    const { x, y, hasRows } = this.model.plane;
    const lines = (name) => (name ? 15 * name.split("\n").length : 0);
    const longest = hasRows ? 0 : Math.max(...roundTicks(y.limits, 8).map(([, text]) => text.length));
    return { left: 16 + 7.2 * longest + lines(y.name), right: 14, top: 10, bottom: 30 + lines(x.name) };
  }

  /** Draw everything; `shown` is the cluster that stands out, `matches` are nodes to ring. */
  draw(shown, matches) {
    const { model, view } = this;
    this.shown = shown;
    this.root.setAttribute("viewBox", `0 0 ${view.width} ${view.height}`);
    const clip = svg("clipPath", { id: "frame" }, svg("rect", {
      x: view.left, y: view.top, width: view.right - view.left, height: view.bottom - view.top,
    }));
    this.pixels = this._pixels(model.at);
    this.pointPixels = this._pixels(model.pointsAt);
    const marks = svg("g", { "clip-path": "url(#frame)" }, ...this._realizations(), ...this._medians());
    marks.append(...this._ellipses(), ...this._rings(matches), this.active);
    this.root.replaceChildren(clip, ...this._axes(), marks, ...this._centers());
  }

  _pixels(values) {
    const pixels = new Float32Array(values.length), { view } = this;
    for (let i = 0; i < values.length; i += 2) {
      pixels[i] = view.x(values[i]);
      pixels[i + 1] = view.y(values[i + 1]);
    }
    return pixels;
  }

  _axes() {
    const { view } = this, { x, y, hasRows } = this.model.plane;
    const across = roundTicks(view.window.x, Math.min(9, (view.right - view.left) / 75));
    const up = hasRows ? [] : roundTicks(view.window.y, Math.min(9, (view.bottom - view.top) / 45));
    let lines = `M${view.left} ${view.bottom}H${view.right}`;
    if (!hasRows) lines += `M${view.left} ${view.top}V${view.bottom}`;
    const texts = [];
    for (const [value, text] of across) {
      lines += `M${tenth(view.x(value))} ${view.bottom}v4`;
      texts.push(svg("text", { x: tenth(view.x(value)), y: view.bottom + 17, class: "tick across" }, text));
    }
    for (const [value, text] of up) {
      lines += `M${view.left} ${tenth(view.y(value))}h-4`;
      texts.push(svg("text", { x: view.left - 8, y: tenth(view.y(value)) + 4, class: "tick up" }, text));
    }
    const middle = [(view.left + view.right) / 2, (view.top + view.bottom) / 2];
    x.name.split("\n").forEach((line, i) => {
      texts.push(axisName(line, view.right - view.left, `translate(${middle[0]} ${view.bottom + 34 + 15 * i})`));
    });
    y.name.split("\n").forEach((line, i) => {
      texts.push(axisName(line, view.bottom - view.top, `translate(${13 + 15 * i} ${middle[1]}) rotate(-90)`));
    });
    return [svg("path", { d: lines, class: "lines" }), ...texts];
  }

  _opacity(cluster) {
    return this.shown === null || this.shown === cluster ? 1 : 0.1;
  }

  _realizations() {
    const { model } = this;
    if (model.isCertain) return [];
    const step = Math.ceil(model.owner.length / MAX_FAINT), paths = new Map();
    for (let i = 0; i < model.owner.length; i += step) {
      const [x, y] = this.pointPixels.subarray(2 * i, 2 * i + 2);
      const label = model.solution.labels[model.owner[i]];
      if (this.view.contains(x, y)) paths.set(label, `${paths.get(label) ?? ""}M${tenth(x)} ${tenth(y)}h0`);
    }
    return [...paths].map(([cluster, d]) => {
      return svg("path", { d, class: "faint", stroke: model.color(cluster), opacity: 0.4 * this._opacity(cluster) });
    });
  }

  _medians() {
    const { model } = this, paths = new Map();
    const radius = this.view.width < 600 ? 1.8 : model.count > 2000 ? 2.3 : 3;
    for (let i = 0; i < model.count; i++) {
      const [x, y] = this.pixels.subarray(2 * i, 2 * i + 2);
      if (!this.view.contains(x, y)) continue;
      const label = model.solution.labels[i], key = (i % LAYERS) * 65536 + label;
      const shape = SHAPES[model.shape(label)];
      paths.set(key, (paths.get(key) ?? "") + shape(tenth(x), tenth(y), radius));
    }
    return [...paths].sort(([a], [b]) => a - b).map(([key, d]) => {
      const cluster = key % 65536;
      return svg("path", { d, class: "medians", fill: model.color(cluster), opacity: this._opacity(cluster) });
    });
  }

  _ellipses() {
    const { model } = this, { ellipses, k } = model.solution;
    // Too many would hide the nodes.
    const clusters = this.shown === null ? (k > 20 ? [] : ellipses.keys()) : [this.shown];
    return [...clusters].filter((c) => ellipses[c][0] !== null).map((c) => {
      const [x, y, ax, ay, bx, by] = ellipses[c], corners = [];
      for (let i = 0; i <= 60; i++) {
        const [cos, sin] = [Math.cos((i * Math.PI) / 30), Math.sin((i * Math.PI) / 30)];
        const height = model.plane.hasRows ? STEPS * (0.5 + sin / 2) : y + cos * ay + sin * by;
        const place = model.place([x + cos * ax + sin * bx, height], c);
        corners.push(`${tenth(this.view.x(place[0]))} ${tenth(this.view.y(place[1]))}`);
      }
      return svg("path", { d: `M${corners.join("L")}`, class: "ellipse" });
    });
  }

  _rings(matches) {
    const places = [...matches].slice(0, 200).map((i) => SHAPES[0](this.pixels[2 * i], this.pixels[2 * i + 1], 6));
    return places.length ? [svg("path", { d: places.join(""), class: "ring" })] : [];
  }

  /** Discs with numbers, the largest clusters first; where there is no space, a dot. Zooming makes space. */
  _centers() {
    const { model, view } = this, made = [];
    this.discs = [];
    const order = model.centersAt.map((_, c) => c).sort((a, b) => (b === this.shown) - (a === this.shown) || a - b);
    for (const c of order) {
      const [x, y] = [view.x(model.centersAt[c][0]), view.y(model.centersAt[c][1])];
      if (!view.contains(x, y)) continue;
      const isFree = this.discs.every((disc) => Math.hypot(disc.x - x, disc.y - y) > disc.radius + DISC_RADIUS);
      const radius = isFree ? DISC_RADIUS : 3.5;
      this.discs.push({ x, y, radius, cluster: c });
      const circle = svg("circle", { cx: tenth(x), cy: tenth(y), r: radius, stroke: model.color(c) });
      const text = svg("text", { x: tenth(x), y: tenth(y) + 4 }, String(c));
      const opacity = Math.max(this._opacity(c), 0.5);
      made.unshift(svg("g", { class: "disc-mark", opacity }, circle, ...(isFree ? [text] : [])));
    }
    const representative = this.shown !== null && model.solution.representatives?.places[this.shown];
    if (representative && representative[0] !== null) {
      const place = model.place(representative, this.shown);
      const [x, y] = [tenth(view.x(place[0])), tenth(view.y(place[1]))], transform = `translate(${x} ${y})`;
      const diamond = svg("path", { d: "M0-8L8 0L0 8L-8 0Z", class: "representative", transform });
      if (view.contains(x, y)) made.push(diamond);
    }
    return made;
  }

  /** Draw the realizations of a node, joined to its median; none if it is null. */
  drawActive(node) {
    this.active.replaceChildren();
    if (node === null) return;
    const { model } = this, [x, y] = this.pixels.subarray(2 * node, 2 * node + 2);
    const color = model.color(model.solution.labels[node]);
    let lines = "";
    const dots = [];
    for (let i = model.starts[node]; i < model.starts[node + 1]; i++) {
      const [px, py] = this.pointPixels.subarray(2 * i, 2 * i + 2);
      lines += `M${tenth(x)} ${tenth(y)}L${tenth(px)} ${tenth(py)}`;
      // The area of a dot is its probability, compared with the largest of the node.
      const radius = model.shares ? Math.max(1.5, 4.5 * Math.sqrt(model.shares[i] / 255)) : 3;
      dots.push(svg("circle", { cx: tenth(px), cy: tenth(py), r: tenth(radius), fill: color, class: "realization" }));
    }
    if (!model.isCertain) this.active.append(svg("path", { d: lines, class: "threads" }), ...dots);
    this.active.append(svg("circle", { cx: tenth(x), cy: tenth(y), r: 6, fill: color, class: "chosen" }));
  }

  /** The nearest node to a pixel: by its median, or else by a realization that is drawn; null if none is near. */
  nodeAt(x, y) {
    const near = (pixels, reach, ownerOf, step = 1) => {
      let best = null, least = reach * reach;
      for (let i = 0; 2 * i < pixels.length; i += step) {
        const distance = (pixels[2 * i] - x) ** 2 + (pixels[2 * i + 1] - y) ** 2;
        if (distance < least) [best, least] = [ownerOf(i), distance];
      }
      return best;
    };
    const step = Math.ceil(this.model.owner.length / MAX_FAINT);
    return near(this.pixels, 12, (i) => i) ?? near(this.pointPixels, 6, (i) => this.model.owner[i], step);
  }

  clusterAt(x, y) {
    return this.discs.find((disc) => Math.hypot(disc.x - x, disc.y - y) <= disc.radius)?.cluster ?? null;
  }

  /** The next node in a direction: near, and not far aside. */
  nodeTowards(from, [right, down]) {
    let best = null, least = Infinity;
    const [x, y] = from === null ? [(this.view.left + this.view.right) / 2, (this.view.top + this.view.bottom) / 2]
      : this.pixels.subarray(2 * from, 2 * from + 2);
    for (let i = 0; i < this.model.count; i++) {
      const [dx, dy] = [this.pixels[2 * i] - x, this.pixels[2 * i + 1] - y];
      const along = dx * right + dy * down, score = along + 3 * Math.abs(dx * down - dy * right);
      if (i !== from && (from === null ? true : along > 0.5) && this.view.contains(x + dx, y + dy)) {
        const cost = from === null ? Math.hypot(dx, dy) : score;
        if (cost < least) [best, least] = [i, cost];
      }
    }
    return best ?? from;
  }
}
