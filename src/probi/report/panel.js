// Beside the plot: a card for a node, a list of clusters or the profile of one, and the table.

const FEW_COLORS = 20; // with more clusters, the table names two features per row
const LONG = 25; // tables with more rows scroll in their own box
const WIDEST = 4; // standard deviations; beyond, a profile has an arrow

const percent = (value) => `${value}\u202f%`;

function disc(model, cluster) {
  const made = html("span", { class: "disc" }, String(cluster));
  made.style.setProperty("--c", model.color(cluster));
  return made;
}

/** One sentence about a node, for readers who do not see the card. */
function describe(model, node) {
  const { labels, probabilities, second, secondProbabilities } = model.solution;
  if (model.clusterOf(node) === null) {
    return `${model.names[node]}: outlier, in no cluster; the nearest center is that of cluster ${second[node]}.`;
  }
  const realizations = `${model.sizes[node].toLocaleString("en-US")} realization${model.sizes[node] === 1 ? "" : "s"}`;
  const other = secondProbabilities[node] ? `, cluster ${second[node]} with ${percent(secondProbabilities[node])}` : "";
  const sure = model.isCertain ? "" : ` with probability ${percent(probabilities[node])}${other}; ${realizations}`;
  return `${model.names[node]}: cluster ${labels[node]}${sure}.`;
}

/** The card of a node: its id, and a bar of the clusters that its realizations are nearest to. */
function nodeCard(model, node) {
  const { labels, probabilities, second, secondProbabilities } = model.solution;
  const isOutlier = model.clusterOf(node) === null;
  const shares = isOutlier ? [] : [[labels[node], probabilities[node], "its cluster"]];
  const role = isOutlier ? "nearest center" : "second";
  if (secondProbabilities[node]) shares.push([second[node], secondProbabilities[node], role]);
  const bar = html("span", { class: "bar" });
  const lines = shares.map(([cluster, share, role]) => {
    const part = html("span");
    part.style.width = `${share}%`;
    part.style.background = model.color(cluster);
    bar.append(part);
    const number = html("b", {}, model.isCertain ? "" : percent(share));
    return html("span", { class: "member" }, disc(model, cluster), role, number);
  });
  const name = html("strong", {}, model.names[node], isOutlier ? ": outlier" : "");
  if (model.isCertain) return [name, ...lines];
  const drawn = model.starts[node + 1] - model.starts[node];
  const some = drawn < model.sizes[node] ? `, ${drawn} drawn` : "";
  return [name, bar, ...lines, html("small", {}, `${model.sizes[node].toLocaleString("en-US")} realizations${some}`)];
}

/** Buttons of all clusters with bars for their share; `show` selects one, `preview` highlights it. */
function clusterList(model, show, preview) {
  const { k, columns } = model.solution;
  const share = columns.find((column) => column.name === "Share");
  const largest = Math.max(...share.values.filter((value) => value !== null), 0) || 1;
  const items = Array.from({ length: k }, (_, c) => {
    const bar = html("span", { class: "amount" });
    bar.style.width = `${(100 * (share.values[c] ?? 0)) / largest}%`;
    bar.style.background = model.color(c);
    const track = html("span", { class: "track" }, bar);
    const label = `Cluster ${c}, ${share.texts[c]} of the mass`;
    const button = html("button", { type: "button", "aria-label": label }, disc(model, c), track);
    button.append(" ", html("span", {}, share.texts[c])); // two words, as in the label
    button.addEventListener("click", () => show(c));
    button.addEventListener("pointerenter", () => preview(c));
    button.addEventListener("pointerleave", () => preview(null));
    button.addEventListener("focus", () => preview(c));
    button.addEventListener("blur", () => preview(null));
    return html("li", {}, button);
  });
  const list = html("ul", { class: `list${k > 10 ? " many" : ""}` }, ...items);
  list.addEventListener("keydown", (event) => moveFocus(event, items.map((item) => item.firstChild)));
  return [html("h4", {}, "Clusters by share"), list];
}

function moveFocus(event, buttons) {
  const at = buttons.indexOf(document.activeElement), last = buttons.length - 1;
  const arrows = { ArrowDown: at + 1, ArrowRight: at + 1, ArrowUp: at - 1, ArrowLeft: at - 1 };
  const to = { ...arrows, Home: 0, End: last }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  buttons[Math.min(Math.max(to, 0), last)].focus();
}

/** The profile of a cluster: its numbers, its representative, and its center feature by feature. */
function clusterProfile(model, c, back) {
  const { columns, representatives } = model.solution;
  const close = html("button", { type: "button", class: "back" }, "All clusters");
  close.addEventListener("click", back);
  const facts = columns.filter((column) => column.name !== "Representative").map((column) => {
    const unit = column.detail ? ` (${column.detail})` : "";
    return html("div", {}, html("dt", {}, column.name + unit), html("dd", {}, column.texts[c]));
  });
  const made = [html("h4", {}, disc(model, c), ` Cluster ${c}`, close), html("dl", {}, ...facts)];
  if (representatives?.places[c][0] != null) {
    const more = representatives.increase[c][0];
    const cost = more === null ? "" : `; as the center it costs ${more > 0 ? percent(more) : "no"} more`;
    const name = html("strong", {}, representatives.names?.[c] || "a node without an id");
    const text = html("span", {}, "Representative: ", name, cost);
    made.push(html("p", { class: "stands" }, html("span", { class: "diamond" }), text));
  }
  made.push(html("div", { class: "profile" }, ...profileRows(model, c)));
  made.push(html("p", { class: "note" },
    "Dot: center. Bar: the middle half of its realizations. ", representatives ? "Diamond: representative. " : "",
    "Line: the median of all nodes; ticks are standard deviations.",
    model.isPartial ? ` The ${model.features.length} features in which centers differ most.` : ""));
  return made;
}

function profileRows(model, c) {
  const { profile, middle, texts, representatives } = model.solution;
  const all = [...profile.flat(), ...middle.flat()].filter((value) => value !== null).map(Math.abs);
  const widest = Math.min(Math.max(Math.ceil(all.reduce((a, b) => Math.max(a, b), 0)), 1), WIDEST);
  const at = (z) => 50 + (46 * Math.min(Math.max(z, -widest), widest)) / widest;
  // Features in which the cluster differs most come first.
  const order = [...profile[c].keys()].sort((a, b) => Math.abs(profile[c][b]) - Math.abs(profile[c][a]) || a - b);
  return order.flatMap((j) => {
    const name = model.features[j];
    const strip = svg("svg", { "aria-hidden": "true" });
    for (let tick = -widest; tick <= widest; tick++) {
      const x = `${at(tick)}%`;
      strip.append(svg("line", { x1: x, x2: x, y1: 0, y2: "100%", class: tick ? "tick" : "zero" }));
    }
    const [low, high, center] = [middle[c][j], middle[c][model.features.length + j], profile[c][j]];
    const fill = model.color(c);
    if (low !== null) {
      const width = `${Math.max(at(high) - at(low), 0.5)}%`;
      strip.append(svg("rect", { x: `${at(low)}%`, width, y: 5, height: 8, fill, opacity: 0.45 }));
    }
    const put = (z, mark) => strip.append(svg("svg", { x: `${at(z)}%`, y: 9, overflow: "visible" }, mark));
    const representative = representatives?.profile[c]?.[j];
    if (representative != null) put(representative, svg("path", { d: "M0-5L5 0L0 5L-5 0Z", class: "representative" }));
    if (center !== null) {
      // An arrow says that the center lies beyond the end.
      const beyond = Math.abs(center) > widest ? Math.sign(center) : 0;
      const arrow = svg("path", { d: `M0-5L${6 * beyond} 0L0 5Z`, fill });
      put(center, beyond ? arrow : svg("circle", { r: 4, fill, class: "center" }));
    }
    return [html("span", { title: name }, name), strip, html("span", { class: "number" }, texts[c][j])];
  });
}

/** The table of clusters of the solution that is shown. */
function fillTable(model, table) {
  const { k, columns, traits } = model.solution;
  const head = (name, detail, kind) => {
    return html("th", { scope: "col", class: kind }, html("span", {}, name), html("small", {}, detail));
  };
  const heads = columns.map((column) => head(column.name, column.detail, ""));
  heads.unshift(head("Cluster", "", "text"));
  heads.push(head("Distinctive features", "", "text"));
  const rows = Array.from({ length: k }, (_, c) => html("tr", {},
    html("th", { scope: "row", "data-v": c }, disc(model, c)),
    ...columns.map((column) => html("td", { "data-v": column.values[c] ?? "nan" }, column.texts[c])),
    traitsCell(traits[c], k)));
  table.tHead.replaceChildren(html("tr", {}, ...heads));
  table.tBodies[0].replaceChildren(...rows);
  makeSortable(table);
  table.parentElement.classList.toggle("long", k > LONG);
  document.querySelector(".scrolls").textContent = k > LONG ? `The table scrolls: it has ${k} rows. ` : "";
}

function traitsCell(traits, k) {
  if (!traits.length) return html("td", { class: "text" }, "near the median in every feature");
  const deviation = (z) => html("span", { class: "dev" }, `${z > 0 ? "▲" : "▼"} ${Math.abs(z).toFixed(1)} sd`);
  if (k > FEW_COLORS) {
    const few = traits.slice(0, 2).map(([name, value, z]) => html("span", {}, `${name} ${value}`, deviation(z)));
    return html("td", { class: "text few" }, ...few.flatMap((span) => [span, " "]));
  }
  const items = traits.map(([name, value, z]) => {
    return html("li", {}, html("span", {}, name), " ", html("span", {}, `${value} `, deviation(z)));
  });
  return html("td", { class: "text traits" }, html("ul", {}, ...items));
}
