"use strict";
// All bars of a timeline, packed. Where there are more than a browser can draw, each zoom draws its window: bars too
// short to see share a stretch in which each kind is as high as its share of the time, as in the first picture.
const MOST_BARS = 2500;
const LEAST_BIN_PX = 3;
const NONE = 0xffffffff;

async function unpack(levels) {
  const packed = Uint8Array.from(atob(levels.columns), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const bytes = await new Response(stream).arrayBuffer();
  const n = levels.bars;
  let at = 0;
  const column = (Type, length) => {
    const found = new Type(bytes, at, length);
    at += found.byteLength;
    return found;
  };
  return {
    first: column(Uint32Array, levels.middle.length + 1),
    start: column(Uint32Array, n),
    length: column(Uint32Array, n),
    label: column(Uint32Array, n),
    released: column(Uint32Array, n),
    microbatch: column(Int32Array, n),
    stage: column(Int16Array, n),
    paint: column(Uint8Array, n),
    reason: column(Uint8Array, n),
  };
}

// First row of a lane that ends after a tick; bars of a lane do not overlap.
function firstAfter(columns, low, high, tick) {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (columns.start[middle] + columns.length[middle] > tick) high = middle;
    else low = middle + 1;
  }
  return low;
}

// Rows of each lane in a window, as [lane, from, to).
function visible(columns, begin, end) {
  const found = [];
  for (let lane = 0; lane + 1 < columns.first.length; lane++) {
    const low = firstAfter(columns, columns.first[lane], columns.first[lane + 1], begin);
    let high = low, top = columns.first[lane + 1];
    while (high < top) {
      const middle = (high + top) >> 1;
      if (columns.start[middle] < end) high = middle + 1;
      else top = middle;
    }
    if (high > low) found.push([lane, low, high]);
  }
  return found;
}

// Lane of a bar.
function laneOf(columns, row) {
  let low = 0, high = columns.first.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (columns.first[middle] <= row) low = middle;
    else high = middle;
  }
  return low;
}

// Pieces to draw: {lane, paint, start, end, low, high, row}; row is -1 for the parts of a merged stretch.
function pieces(columns, rows, bin, paints) {
  const found = [];
  const time = new Float64Array(paints);
  for (const [lane, from, to] of rows) {
    for (let row = from; row < to; ) {
      const start = columns.start[row];
      if (columns.length[row] >= bin) {
        const end = start + columns.length[row];
        found.push({ lane, paint: columns.paint[row], start, end, low: 0, high: 1, row });
        row++;
        continue;
      }
      const limit = (Math.floor(start / bin) + 1) * bin;
      const head = row;
      time.fill(0);
      let end = start;
      for (; row < to && columns.length[row] < bin && columns.start[row] < limit; row++) {
        time[columns.paint[row]] += columns.length[row];
        end = columns.start[row] + columns.length[row];
      }
      if (row === head + 1) {
        found.push({ lane, paint: columns.paint[head], start, end, low: 0, high: 1, row: head });
        continue;
      }
      if (row < to && columns.length[row] < bin && columns.start[row] - end < bin) end = columns.start[row];
      let low = 0;
      for (let paint = 0; paint < paints; paint++) {
        if (!time[paint]) continue;
        const high = low + time[paint] / (end - start);
        found.push({ lane, paint, start, end, low, high, row: -1 });
        low = high;
      }
      if (found.length > 4 * MOST_BARS) return found;
    }
  }
  return found;
}

// Name of a bar, and "rank 1 · pp": the first and the last line of its label.
const nameOf = (levels, columns, row) => levels.labels[columns.label[row]].split("<br>")[0].replace(/<\/?b>/g, "");
const placeOf = (levels, columns, row) => levels.labels[columns.label[row]].split("<br>").pop();

// What released a bar; empty for what just followed on its stream.
function releaseWords(levels, columns, row) {
  const source = columns.released[row];
  const name = source === NONE ? "" : `${nameOf(levels, columns, source)} of ${placeOf(levels, columns, source).split(" · ")[0]}`;
  switch (levels.reasons[columns.reason[row]]) {
    case "host":
      return `launched by the CPU only then${name && `, after ${name}`}`;
    case "event":
      return name && `released by ${name}`;
    case "partner":
      return name && `released by its last partner, after ${name}`;
    default:
      return "";
  }
}

// A time in the unit that suits it, four digits, as the first picture has it.
function timeWords(ms) {
  for (const [unit, size] of [["s", 1e3], ["ms", 1], ["us", 1e-3]]) {
    if (ms >= size) return `${Number((ms / size).toPrecision(4))} ${unit}`;
  }
  return `${Math.round(ms * 1e6)} ns`;
}

function hoverWords(levels, columns, row, from) {
  const lines = levels.labels[columns.label[row]].split("<br>");
  const facts = [from];
  const stage = columns.stage[row] >= 0 ? `, stage ${columns.stage[row]}` : "";
  if (columns.microbatch[row] >= 0) facts.push(`microbatch ${columns.microbatch[row]}${stage}`);
  const words = releaseWords(levels, columns, row);
  return [lines[0], ...facts, ...lines.slice(1, -1), ...(words ? [words] : []), lines[lines.length - 1]].join("<br>");
}

function picture(levels, columns, begin, end, width) {
  const rows = visible(columns, begin, end);
  const total = rows.reduce((sum, [, from, to]) => sum + to - from, 0);
  let bin = 0;
  let found = [];
  if (total <= MOST_BARS) found = pieces(columns, rows, 0, levels.paints.length);
  else {
    bin = Math.max(1, (LEAST_BIN_PX * (end - begin)) / width);
    while ((found = pieces(columns, rows, bin, levels.paints.length)).length > MOST_BARS) bin *= 1.6;
  }
  const ms = levels.tick_ns / 1e6;
  const none = () => ({ base: [], x: [], y: [], width: [], hovertext: [], customdata: [] });
  const data = levels.paints.map((paint) => ({ ...paint, ...none() }));
  for (const one of found) {
    const trace = data[one.paint];
    const thick = levels.thickness[one.lane];
    trace.base.push(one.start * ms);
    trace.x.push((one.end - one.start) * ms);
    trace.y.push(levels.middle[one.lane] + (thick * (1 - one.low - one.high)) / 2);
    trace.width.push(thick * (one.high - one.low));
    trace.customdata.push(one.row);
    const from = `${timeWords((one.end - one.start) * ms)}, from ${(one.start * ms).toFixed(3)} ms`;
    const share = `<b>${(100 * (one.high - one.low)).toFixed(1)} % ${trace.name}</b><br>of several short spans<br>${from}`;
    trace.hovertext.push(one.row < 0 ? share : hoverWords(levels, columns, one.row, from));
  }
  for (const trace of data) {
    const own = trace.marker.color;
    trace.marker = { ...trace.marker, line: { width: bin ? 0.4 : 0.7, color: bin ? own : trace.marker.line.color } };
  }
  return { data, merged: bin > 0 };
}

// The kinds of bar that the legend names; it keeps those of which none is in the window.
const NO_BAR = { base: [0], x: [null], y: [0], width: [1], customdata: [-1] };
function kept(data, names) {
  return data
    .filter((trace) => names.has(trace.name))
    .map((trace) => (trace.x.length ? trace : { ...trace, ...NO_BAR }));
}

// A zoom of a timeline of windows: the bars of the new one at once. Plotly.js would draw those of the old one first.
function showWindows(target, figure, columns) {
  const levels = figure.levels;
  const overview = figure.data;
  const names = new Set(overview.map((trace) => trace.name));
  const full = figure.layout.xaxis.range.slice();
  let drawing = null, wanted = null;
  const draw = async ([low, high]) => {
    const whole = high - low > 0.98 * (full[1] - full[0]);
    const tick = 1e6 / levels.tick_ns;
    const width = target._fullLayout.xaxis._length;
    const shown = whole ? { data: overview } : picture(levels, columns, Math.max(0, low * tick), high * tick, width);
    if (!whole) shown.data = kept(shown.data, names);
    const off = new Set(target.data.filter((trace) => trace.visible === "legendonly").map((trace) => trace.name));
    const data = shown.data.map((trace) => (off.has(trace.name) ? { ...trace, visible: "legendonly" } : trace));
    Object.assign(target.layout.xaxis, { range: [low, high], autorange: false });
    await Plotly.react(target, data, target.layout);
    target.dataset.level = whole ? "overview" : shown.merged ? "merged" : "exact";
  };
  // While one window is drawn, only the last of those asked for waits.
  target.zoomTo = (range) => {
    wanted = range;
    drawing ??= (async () => {
      while (wanted) {
        const next = wanted;
        wanted = null;
        await draw(next);
        target.emit("plotly_relayout", { "xaxis.range": next });
      }
      drawing = null;
    })();
    return drawing;
  };
  target.dataset.level = "overview";
}

// The range of the time axis that a change asks for, where it asks for nothing else.
function rangeOf(change) {
  if (Object.keys(change).some((key) => !key.startsWith("xaxis.range"))) return null;
  return change["xaxis.range"] ?? [change["xaxis.range[0]"], change["xaxis.range[1]"]];
}

async function zoom(place, change, ...more) {
  const target = typeof place === "string" ? document.getElementById(place) : place;
  if (!target.zoomTo || more.length) return relayout(target, change, ...more);
  const range = rangeOf(change);
  if (range) return target.zoomTo(range);
  await relayout(target, change);
  if (Object.keys(change).some((key) => key.startsWith("xaxis"))) await target.zoomTo(target.layout.xaxis.range.slice());
}
const relayout = Plotly.relayout;
Plotly.relayout = zoom;
Plotly.register({ moduleType: "apiMethod", name: "_guiRelayout", fn: zoom }); // what mouse and buttons call

// plotly.js takes typed arrays as {dtype, bdata}; this page reads some of them itself.
const TYPES = { f8: Float64Array, f4: Float32Array, i4: Int32Array };
function plain(column) {
  if (Array.isArray(column)) return column;
  return new TYPES[column.dtype](Uint8Array.from(atob(column.bdata), (c) => c.charCodeAt(0)).buffer);
}
