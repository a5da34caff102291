"use strict";
// All bars of a timeline, packed. Where there are more than a browser can draw, each zoom draws its window: bars too
// short to see share a stretch in which each kind is as high as its share of the time, as in the first picture.
const MOST_BARS = 2500; // a zoom draws them twice: plotly.js the old ones, then this page those of the new window
const LEAST_BIN_PX = 3;
const MOST_WORDS = 400;
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

function hoverWords(levels, columns, row, from) {
  const lines = levels.labels[columns.label[row]].split("<br>");
  const facts = [from];
  const stage = columns.stage[row] >= 0 ? `, stage ${columns.stage[row]}` : "";
  if (columns.microbatch[row] >= 0) facts.push(`microbatch ${columns.microbatch[row]}${stage}`);
  const words = releaseWords(levels, columns, row);
  return [lines[0], ...facts, ...lines.slice(1, -1), ...(words ? [words] : []), lines[lines.length - 1]].join("<br>");
}

// What is written inside a bar that is so many pixels wide.
function insideWords(levels, columns, row, width) {
  const word = levels.words[columns.paint[row]];
  if (word === "*") return width > 40 ? nameOf(levels, columns, row) : "";
  if (word !== "#") return width > 40 ? word : "";
  if (columns.microbatch[row] < 0) return "";
  const small = columns.stage[row] >= 0 && width > 22 ? `<sub>${columns.stage[row]}</sub>` : "";
  return `${columns.microbatch[row]}${small}`;
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
  const pixel = width / (end - begin);
  const none = () => ({ base: [], x: [], y: [], width: [], hovertext: [], text: [], customdata: [] });
  const data = levels.paints.map((paint) => ({ ...paint, ...none() }));
  let words = 0;
  for (const one of found) {
    const trace = data[one.paint];
    const thick = levels.thickness[one.lane];
    trace.base.push(one.start * ms);
    trace.x.push((one.end - one.start) * ms);
    trace.y.push(levels.middle[one.lane] + (thick * (1 - one.low - one.high)) / 2);
    trace.width.push(thick * (one.high - one.low));
    trace.customdata.push(one.row);
    const wide = (one.end - one.start) * pixel;
    const word = one.row >= 0 && wide > 14 && words < MOST_WORDS ? insideWords(levels, columns, one.row, wide) : "";
    trace.text.push(word);
    if (word) words++;
    const from = `${((one.end - one.start) * ms).toPrecision(4)} ms, from ${(one.start * ms).toFixed(3)} ms`;
    const share = `<b>${(100 * (one.high - one.low)).toFixed(1)} % ${trace.name}</b><br>of several short spans<br>${from}`;
    trace.hovertext.push(one.row < 0 ? share : hoverWords(levels, columns, one.row, from));
  }
  for (const trace of data) {
    const own = trace.marker.color;
    trace.marker = { ...trace.marker, line: { width: bin ? 0.4 : 0.7, color: bin ? own : trace.marker.line.color } };
  }
  return { data: data.filter((trace) => trace.x.length), merged: bin > 0, total };
}

function showWindows(target, figure, columns) {
  const levels = figure.levels;
  const overview = figure.data;
  const full = figure.layout.xaxis.range.slice();
  let drawing = false, again = false;
  const draw = async () => {
    if (drawing) {
      again = true;
      return;
    }
    drawing = true;
    const [low, high] = target.layout.xaxis.range;
    const whole = high - low > 0.98 * (full[1] - full[0]);
    const began = performance.now();
    const tick = 1e6 / levels.tick_ns;
    const width = target._fullLayout.xaxis._length;
    const shown = whole ? { data: overview } : picture(levels, columns, Math.max(0, low * tick), high * tick, width);
    const off = new Set(target.data.filter((trace) => trace.visible === "legendonly").map((trace) => trace.name));
    const data = shown.data.map((trace) => (off.has(trace.name) ? { ...trace, visible: "legendonly" } : trace));
    await Plotly.react(target, data, target.layout);
    target.dataset.drawnMs = String(performance.now() - began);
    target.dataset.level = whole ? "overview" : shown.merged ? "merged" : "exact";
    drawing = false;
    if (again) {
      again = false;
      draw();
    }
  };
  target.on("plotly_relayout", (change) => {
    if (Object.keys(change).some((key) => key.startsWith("xaxis"))) draw();
  });
  target.dataset.level = "overview";
}

// plotly.js takes typed arrays as {dtype, bdata}; this page reads some of them itself.
const TYPES = { f8: Float64Array, f4: Float32Array, i4: Int32Array };
function plain(column) {
  if (Array.isArray(column)) return column;
  return new TYPES[column.dtype](Uint8Array.from(atob(column.bdata), (c) => c.charCodeAt(0)).buffer);
}
