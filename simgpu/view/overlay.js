"use strict";
// Drawn over a figure with a time axis: the moment under the mouse and, over a timeline, the critical path and what
// released a bar. Plain SVG on top, so that nothing of the figure is drawn again.
const SHORT_PX = 5; // pieces of a path that are narrower cannot be followed one by one
const DENSE = 4; // so many in a row
const SHARE_PX = 6;
const MOST_CHAIN = 20000;

function shape(name, attributes) {
  const made = document.createElementNS(document.querySelector(".main-svg").namespaceURI, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

class Overlay {
  constructor(target) {
    this.target = target;
    this.layers = [];
    this.svg = shape("svg", { class: "overlay" });
    this.moment = shape("line", { class: "moment", y1: 0, visibility: "hidden" });
    // under the layer of hover boxes
    const box = target.querySelector(".svg-container");
    box.insertBefore(this.svg, [...box.children].filter((child) => child.classList.contains("main-svg")).pop());
    this.svg.append(this.moment);
    target.on("plotly_afterplot", () => this.draw());
    this.draw();
  }
  x(ms) {
    return this.target._fullLayout.xaxis.l2p(ms);
  }
  y(pixel) {
    return this.target._fullLayout.yaxis.l2p(pixel);
  }
  // Let `make` return the shapes of one layer each time that the figure was drawn; returns what draws it anew.
  add(make) {
    const group = shape("g", {});
    const draw = () => group.replaceChildren(...make());
    this.svg.append(group);
    this.layers.push(draw);
    draw();
    return draw;
  }
  draw() {
    const { width, height, _size: plot } = this.target._fullLayout;
    this.width = width - plot.l - plot.r;
    const size = { left: plot.l, top: plot.t, width: this.width, height: height - plot.t - plot.b };
    for (const [key, value] of Object.entries(size)) this.svg.style[key] = `${value}px`;
    this.moment.setAttribute("y2", size.height);
    for (const draw of this.layers) draw();
  }
  mark(ms) {
    this.moment.setAttribute("visibility", ms === null ? "hidden" : "visible");
    if (ms === null) return;
    this.moment.setAttribute("x1", this.x(ms));
    this.moment.setAttribute("x2", this.x(ms));
  }
}

// First piece that ends after a time.
function firstPiece(pieces, ms) {
  let low = 0, high = pieces.end.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (pieces.end[middle] > ms) high = middle;
    else low = middle + 1;
  }
  return low;
}

// The shapes of a line through rows: `pieces` has start, end (ms) and lane, in order of time. Where it changes rows too
// often to see, a line on each row says by its thickness how much of it is there.
function thread(overlay, levels, pieces, kind) {
  const [left, right] = overlay.target._fullLayout.xaxis.range;
  const count = pieces.start.length;
  const at = (lane) => overlay.y(levels.middle[lane] + 0.32 * levels.thickness[lane]);
  const wide = (i) => overlay.x(pieces.end[i]) - overlay.x(pieces.start[i]) >= SHORT_PX;
  const shares = ["", "", ""];
  let path = "", heads = "", last = null;
  for (let i = firstPiece(pieces, left); i < count && pieces.start[i] < right; ) {
    let end = i;
    while (end < count && pieces.start[end] < right && !wide(end)) end++;
    if (end - i >= DENSE) {
      dense(overlay, pieces, i, end, at, shares);
      [i, last] = [end, null];
      continue;
    }
    for (end = Math.max(end, i + 1); i < end; i++) {
      const from = Math.max(-2, overlay.x(pieces.start[i])), to = Math.min(overlay.width + 2, overlay.x(pieces.end[i]));
      const y = at(pieces.lane[i]);
      path += `${last === null ? "M" : "L"}${from.toFixed(1)} ${y.toFixed(1)}H${to.toFixed(1)}`;
      if (last !== null && Math.abs(y - last.y) > 9 && from - last.x > 12) {
        const up = Math.sign(y - last.y);
        heads += `M${from - 3.5} ${y - up * 7}L${from} ${y - up}L${from + 3.5} ${y - up * 7}Z`;
        last = { x: from, y };
      } else last = { x: last === null ? from : last.x, y };
    }
  }
  return [
    shape("path", { d: path, class: `${kind} halo` }),
    ...shares.map((d, i) => shape("path", { d, class: `${kind} share`, style: `stroke-width: ${1 + i}` })),
    shape("path", { d: path, class: kind }),
    shape("path", { d: heads, class: `${kind} heads` }),
  ].filter((one) => one.getAttribute("d"));
}

// Add to `shares` how much of each bin of a few pixels the pieces i to `end` spend on each row.
function dense(overlay, pieces, i, end, at, shares) {
  while (i < end) {
    const begin = pieces.start[i], from = Math.max(-2, overlay.x(begin));
    const limit = overlay.target._fullLayout.xaxis.p2l(Math.max(from, 0) + SHARE_PX);
    const spent = new Map();
    for (; i < end && pieces.start[i] < limit; i++) {
      spent.set(pieces.lane[i], (spent.get(pieces.lane[i]) ?? 0) + pieces.end[i] - pieces.start[i]);
    }
    const stop = pieces.end[i - 1], to = overlay.x(stop);
    for (const [lane, time] of spent) {
      const share = time / (stop - begin);
      shares[Math.min(2, Math.floor(3 * share))] += `M${from.toFixed(1)} ${at(lane).toFixed(1)}H${to.toFixed(1)}`;
    }
  }
}

// What released a bar, and what released that, back to where nothing did: rows of the timeline, last first.
function chain(columns, row) {
  const found = [row];
  while (columns.released[row] !== NONE && found.length < MOST_CHAIN) {
    row = columns.released[row];
    found.push(row);
  }
  return found;
}

function asPieces(levels, columns, rows) {
  const ms = levels.tick_ns / 1e6;
  const forward = rows.slice().reverse();
  const end = forward.map((row) => (columns.start[row] + columns.length[row]) * ms);
  return {
    // a wait began before what ended it did
    start: forward.map((row, i) => Math.max(columns.start[row] * ms, i ? Math.min(end[i - 1], end[i]) : 0)),
    end,
    lane: forward.map((row) => laneOf(columns, row)),
  };
}

function outline(overlay, levels, columns, row, kind) {
  const lane = laneOf(columns, row), ms = levels.tick_ns / 1e6, thick = levels.thickness[lane];
  const x = Math.max(-4, overlay.x(columns.start[row] * ms));
  const right = Math.min(overlay.width + 4, overlay.x((columns.start[row] + columns.length[row]) * ms));
  const y = overlay.y(levels.middle[lane] - thick / 2);
  if (right < 0 || x > overlay.width) return [];
  return [shape("rect", { class: kind, x, y, width: Math.max(1, right - x), height: thick, rx: 1 })];
}

// An arrow from the end of the bar that released to the one it released.
function arrow(overlay, levels, columns, row) {
  const source = columns.released[row];
  const shapes = outline(overlay, levels, columns, row, "chosen");
  if (source === NONE) return shapes;
  shapes.push(...outline(overlay, levels, columns, source, "chosen source"));
  const [from, to] = [laneOf(columns, source), laneOf(columns, row)];
  if (from === to) return shapes;
  const ms = levels.tick_ns / 1e6;
  const end = (columns.start[source] + columns.length[source]) * ms;
  const began = Math.max(end, columns.start[row] * ms);
  const down = Math.sign(levels.middle[to] - levels.middle[from]);
  const y1 = overlay.y(levels.middle[from] + (down * levels.thickness[from]) / 2);
  const y2 = overlay.y(levels.middle[to] - (down * levels.thickness[to]) / 2);
  const x1 = overlay.x(end), x2 = overlay.x(columns.start[row] * ms > end ? began : end);
  const line = `M${x1} ${y1}L${x2} ${y2 - down * 4}`;
  const head = `M${x2 - 4} ${y2 - down * 7}L${x2} ${y2}L${x2 + 4} ${y2 - down * 7}Z`;
  return [
    ...shapes,
    shape("path", { d: line, class: "release halo" }),
    shape("path", { d: line, class: "release" }),
    shape("path", { d: head, class: "release heads" }),
  ];
}

// The buttons above a timeline, and what they show.
function explain(target, levels, columns, overlay) {
  const tools = document.querySelector(`.tools[data-for="${target.id}"]`);
  if (!tools) return;
  const button = (name) => tools.querySelector(`[data-tool="${name}"]`);
  const said = tools.querySelector(".said");
  const plainWords = said.textContent;
  let hovered = -1, pinned = [], critical = false;
  const paths = levels.paths.map((path) => ({ start: plain(path.start), end: plain(path.end), lane: plain(path.lane) }));
  const drawCritical = overlay.add(() => (critical ? paths.flatMap((path) => thread(overlay, levels, path, "critical")) : []));
  const drawPinned = overlay.add(() => {
    if (!pinned.length) return [];
    return [
      ...thread(overlay, levels, asPieces(levels, columns, pinned), "chain"),
      ...outline(overlay, levels, columns, pinned[0], "chosen"),
    ];
  });
  const drawHovered = overlay.add(() => (hovered >= 0 && arrows() ? arrow(overlay, levels, columns, hovered) : []));
  const arrows = () => button("arrows").getAttribute("aria-pressed") === "true";
  const rowOf = (event) => Number(event.points[0].customdata ?? -1);
  const ms = levels.tick_ns / 1e6;
  const name = (row) => `${nameOf(levels, columns, row)} (${placeOf(levels, columns, row)})`;
  const tell = () => {
    button("clear").hidden = !pinned.length;
    target.dataset.chain = String(pinned.length);
    if (!pinned.length) {
      said.textContent = plainWords;
      return;
    }
    const first = (columns.start[pinned[pinned.length - 1]] * ms).toFixed(3);
    const backwards = pinned.slice(0, 5).map(name).join(" ← ") + (pinned.length > 5 ? " ← …" : "");
    const many = pinned.length === 1 ? "nothing shown here released it" : `${pinned.length} bars, back to ${first} ms`;
    said.innerHTML = `${many}: ${backwards}`;
  };
  const pin = (rows) => {
    pinned = rows;
    tell();
    drawPinned();
  };
  target.on("plotly_hover", (event) => {
    hovered = rowOf(event);
    if (arrows()) drawHovered();
  });
  target.on("plotly_unhover", () => {
    hovered = -1;
    drawHovered();
  });
  target.on("plotly_click", (event) => {
    const row = rowOf(event);
    pin(row < 0 || row === pinned[0] ? [] : chain(columns, row));
  });
  addEventListener("keydown", (event) => {
    if (event.key === "Escape" && pinned.length) pin([]);
  });
  const toggle = (which, change) => {
    button(which).addEventListener("click", () => {
      const pressed = button(which).getAttribute("aria-pressed") !== "true";
      button(which).setAttribute("aria-pressed", String(pressed));
      change(pressed);
    });
  };
  toggle("critical", (pressed) => {
    critical = pressed;
    drawCritical();
  });
  toggle("arrows", drawHovered);
  button("clear").addEventListener("click", () => pin([]));
  button("critical").hidden = !paths.length;
  button("arrows").hidden = columns.released.every((source) => source === NONE);
  said.hidden = button("arrows").hidden;
  tools.hidden = button("critical").hidden && button("arrows").hidden;
}
