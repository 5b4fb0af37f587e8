// What the reader does: point, click, zoom, drag, search, move between nodes and between numbers of clusters.

const HELP =
  "Point at a node to see its realizations; click to see its cluster. With the keyboard: arrows go from node to " +
  "node, Enter opens the cluster, + and − zoom, Shift and arrows move, Escape goes back.";
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const MIN_DRAG = 4; // pixels; a shorter move is a click

class Explorer {
  constructor(figure, data) {
    this.model = new Model(data);
    this.view = new View(this.model);
    this.drawing = new Drawing(this.model, this.view);
    Object.assign(this, { figure, node: null, cluster: null, preview: null, matches: [], drag: null });
    this._build();
    this._listen();
    this._resize();
    this._showPanel();
  }

  // -- elements

  _build() {
    const { figure, drawing } = this, old = figure.querySelector("svg");
    this.title = figure.querySelector("h3");
    this.kind = this.title.textContent.replace(/^[\d,]+ clusters? /, "");
    figure.querySelector("figcaption").textContent = `${this.model.caption} ${HELP}`;
    this.stage = html("div", { class: "stage" });
    old.replaceWith(this.stage);
    this.card = html("div", { class: "card", hidden: "", "aria-hidden": "true" });
    const label = `${old.getAttribute("aria-label")} ${HELP}`;
    const attributes = { tabindex: 0, role: "application", "aria-roledescription": "plot", "aria-label": label };
    for (const [key, value] of Object.entries(attributes)) drawing.root.setAttribute(key, value);
    this.stage.append(drawing.root, this.card);
    this.panel = html("div", { class: "panel", role: "region", "aria-label": "Clusters" });
    this.status = html("p", { class: "unseen", role: "status" });
    this.stage.before(this._tools());
    this.stage.after(this.panel, this.status);
    this.table = document.querySelector("#clusters table");
    this.heading = document.querySelector("#clusters h2");
    // With many clusters the page has no colors, but this plot has: pointing at a node tells equal colors apart.
    document.querySelectorAll(".disc").forEach((mark) => {
      mark.style.setProperty("--c", this.model.color(Number(mark.textContent)));
    });
    figure.classList.add("alive");
  }

  _tools() {
    const tools = html("div", { class: "tools" });
    const { solutions, chosen } = this.model;
    if (solutions.length > 1) {
      this.slider = html("input", { type: "range", id: "k", min: 0, max: solutions.length - 1, value: chosen });
      this.number = html("output", { for: "k" }, String(solutions[chosen].k));
      tools.append(html("span", { class: "k" }, html("label", { for: "k" }, "Clusters"), this.slider, this.number));
    }
    const plain = { autocomplete: "off", spellcheck: "false" };
    this.search = html("input", { type: "search", id: "find", placeholder: "id of a node", ...plain });
    this.hits = html("output", { for: "find" });
    tools.append(html("span", { class: "find" }, html("label", { for: "find" }, "Find"), this.search, this.hits));
    const button = (text, label, action) => {
      const made = html("button", { type: "button", "aria-label": label, title: label }, text);
      made.addEventListener("click", () => this._change(action));
      return made;
    };
    tools.append(html("span", { class: "zoom", role: "group", "aria-label": "Zoom" },
      button("+", "Zoom in", () => this.view.zoom(1.6)), button("−", "Zoom out", () => this.view.zoom(1 / 1.6)),
      button("All", "Show all", () => this.view.reset())));
    return tools;
  }

  // -- events

  _listen() {
    const root = this.drawing.root;
    new ResizeObserver(() => this._resize()).observe(this.stage);
    root.addEventListener("pointermove", (event) => this._point(event));
    root.addEventListener("pointerleave", () => this.drag || this._activate(null));
    root.addEventListener("pointerdown", (event) => (this.drag = { x: event.clientX, y: event.clientY, moved: false }));
    root.addEventListener("pointerup", (event) => this._release(event));
    root.addEventListener("pointercancel", () => (this.drag = null));
    root.addEventListener("dblclick", (event) => this._change(() => this.view.zoom(2, ...this._pixel(event))));
    // Only with Ctrl, or by pinching: the wheel alone scrolls the page.
    root.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      this._change(() => this.view.zoom(Math.exp(-event.deltaY / 200), ...this._pixel(event)));
    }, { passive: false });
    root.addEventListener("keydown", (event) => this._key(event));
    this.panel.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.cluster !== null) this._select(null, true);
    });
    this.slider?.addEventListener("input", () => this._showSolution(Number(this.slider.value)));
    this.search.addEventListener("input", () => this._find());
    this.search.addEventListener("keydown", (event) => this._searchKey(event));
  }

  _pixel(event) {
    const box = this.drawing.root.getBoundingClientRect(), scale = this.view.width / box.width;
    return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
  }

  _point(event) {
    const { drag } = this;
    if (drag && (drag.moved || Math.hypot(event.clientX - drag.x, event.clientY - drag.y) > MIN_DRAG)) {
      if (!drag.moved) this.drawing.root.setPointerCapture(event.pointerId);
      const step = [event.clientX - drag.x, event.clientY - drag.y];
      this.drag = { x: event.clientX, y: event.clientY, moved: true };
      this._change(() => this.view.pan(...step));
      return;
    }
    const [x, y] = this._pixel(event);
    const cluster = this.drawing.clusterAt(x, y);
    this.drawing.root.style.cursor = cluster !== null ? "pointer" : "";
    this._activate(cluster === null ? this.drawing.nodeAt(x, y) : null);
  }

  _release(event) {
    const wasMoved = this.drag?.moved;
    this.drag = null;
    if (wasMoved) return;
    const [x, y] = this._pixel(event), node = this.drawing.nodeAt(x, y), cluster = this.drawing.clusterAt(x, y);
    this._select(cluster ?? (node === null ? null : this.model.clusterOf(node)));
    this._activate(cluster === null ? node : null);
  }

  _key(event) {
    const arrow = ARROWS[event.key];
    if (arrow && event.shiftKey) this._change(() => this.view.pan(-60 * arrow[0], -60 * arrow[1]));
    else if (arrow) this._activate(this.drawing.nodeTowards(this.node, arrow), true);
    else if (event.key === "Enter" && this.node !== null) this._select(this.model.clusterOf(this.node));
    else if (event.key === "+" || event.key === "=") this._change(() => this.view.zoom(1.6, ...this._middle()));
    else if (event.key === "-") this._change(() => this.view.zoom(1 / 1.6, ...this._middle()));
    else if (event.key === "0") this._change(() => this.view.reset());
    else if (event.key === "Escape") this._back();
    else return;
    event.preventDefault();
  }

  /** Where to zoom with the keyboard: at the node, if there is one. */
  _middle() {
    return this.node === null ? [] : this.drawing.pixels.subarray(2 * this.node, 2 * this.node + 2);
  }

  /** Leave the node, or else the cluster, or else the zoom. */
  _back() {
    if (this.node !== null) this._activate(null);
    else if (this.cluster !== null) this._select(null);
    else this._change(() => this.view.reset());
  }

  _searchKey(event) {
    if (event.key === "Escape") this.search.value = "";
    else if (event.key !== "Enter") return;
    event.preventDefault();
    const n = this.matches.length;
    if (event.key === "Escape") this._find();
    else if (n) this._goTo((this.matchIndex + (event.shiftKey ? n - 1 : 1)) % n);
  }

  // -- changes

  _announce(text) {
    this.status.textContent = text;
  }

  /** Change what is visible, then draw it. */
  _change(action) {
    action();
    this._draw();
  }

  _draw() {
    this.drawing.draw(this.preview ?? this.cluster, this.matches);
    this.drawing.root.style.touchAction = this.view.isZoomed ? "none" : "pan-y";
    this._activate(this.node, false, true);
  }

  _resize() {
    const width = Math.round(this.stage.clientWidth), k = this.model.solution.k;
    if (!width) return;
    const height = this.model.plane.hasRows ? Math.min(90 + 30 * k, 1000) : Math.max(320, Math.min(0.75 * width, 620));
    this.view.resize(width, height, this.drawing.margins());
    this._draw();
  }

  /** Show the realizations and the card of a node, or of none. */
  _activate(node, isAnnounced = false, isForced = false) {
    if (node === this.node && !isForced && !isAnnounced) return;
    this.node = node;
    this.drawing.drawActive(node);
    this.card.hidden = node === null;
    if (node === null) return;
    this.card.replaceChildren(...nodeCard(this.model, node));
    this._placeCard(node, ...this.drawing.pixels.subarray(2 * node, 2 * node + 2));
    if (isAnnounced) this._announce(describe(this.model, node));
  }

  /** Beside the node, where fewer of its realizations are; in a narrow plot, at the other end of it. */
  _placeCard(node, x, y) {
    const { offsetWidth: width, offsetHeight: height } = this.card, { view, model, drawing } = this;
    const first = model.starts[node], last = model.starts[node + 1];
    let towards = 0;
    for (let i = first; i < last; i++) towards += Math.sign(drawing.pointPixels[2 * i] - x);
    const sides = [x + 16, x - width - 16].filter((side) => side >= view.left && side + width <= view.right);
    const side = sides[towards > 0 ? sides.length - 1 : 0];
    const isNarrow = side === undefined || view.width < 600;
    const place = isNarrow
      ? [view.right - width, y > (view.top + view.bottom) / 2 ? view.top : view.bottom - height]
      : [side, Math.min(Math.max(y - height / 2, 0), view.height - height)];
    [this.card.style.left, this.card.style.top] = place.map((pixel) => `${pixel}px`);
  }

  _select(cluster, isFocused = false) {
    const before = this.cluster;
    this.cluster = cluster;
    this.preview = null;
    this._showPanel();
    this._draw();
    if (isFocused) this.panel.querySelectorAll("li button, .back")[cluster === null ? before ?? 0 : 0]?.focus();
    const facts = this.model.solution.columns.map((column) => `${column.name} ${column.texts[cluster]}`);
    this._announce(cluster === null ? "All clusters." : `Cluster ${cluster}: ${facts.join(", ")}.`);
  }

  _showPanel() {
    const highlight = (cluster) => {
      this.preview = cluster;
      this._draw();
    };
    const children = this.cluster === null
      ? clusterList(this.model, (cluster) => this._select(cluster, true), highlight)
      : clusterProfile(this.model, this.cluster, () => this._select(null, true));
    this.panel.replaceChildren(...children);
  }

  /** Show the solution with another number of clusters. */
  _showSolution(i) {
    const { model } = this;
    model.select(i);
    const k = model.solution.k;
    this.cluster = this.preview = null;
    this.number.textContent = String(k);
    this.slider.setAttribute("aria-valuetext", `${k} clusters`);
    const clusters = `${k} cluster${k === 1 ? "" : "s"}`;
    this.title.textContent = `${clusters} ${this.kind}`;
    this.heading.textContent = clusters;
    fillTable(model, this.table);
    this._showPanel();
    this._resize();
  }

  _find() {
    const wanted = this.search.value.trim().toLowerCase();
    const nodes = this.model.names.flatMap((name, i) => (wanted && name.toLowerCase().includes(wanted) ? [i] : []));
    // A node with exactly this name comes first.
    this.matches = nodes.sort((a, b) => this._isExactly(b, wanted) - this._isExactly(a, wanted) || a - b);
    if (this.matches.length) this._goTo(0);
    else this._change(() => this._activate(null));
    if (wanted && !this.matches.length) this.hits.textContent = "none";
    if (!wanted) this.hits.textContent = "";
    if (!this.matches.length) this._announce(wanted ? `No node is called ${this.search.value}.` : "");
  }

  _isExactly(node, wanted) {
    return [wanted, `node ${wanted}`].includes(this.model.names[node].toLowerCase());
  }

  /** Show one of the nodes that match the search. */
  _goTo(index) {
    this.matchIndex = index;
    const node = this.matches[index];
    this.hits.textContent = `${index + 1} of ${this.matches.length.toLocaleString("en-US")}`;
    const [x, y] = this.drawing.pixels.subarray(2 * node, 2 * node + 2), { view } = this;
    if (!view.contains(x, y)) view.pan((view.left + view.right) / 2 - x, (view.top + view.bottom) / 2 - y);
    this.node = node;
    this._draw();
    this._announce(`${this.hits.textContent}: ${describe(this.model, node)}`);
  }
}

new Explorer(
  document.querySelector("figure.explore"),
  JSON.parse(document.querySelector('script[type="application/json"]').textContent),
);
