"use strict";
// Words in the bars of a timeline: the microbatch of a pass and, smaller, its stage; what a wait is for; the name of a
// transfer. Plotly.js would keep three pixels free on each side, and measure each word anew with every zoom.
// Lines at the foot of a bar tell the stages of a rank apart where there is no room for a word.
const WORD_PX = [11, 9, 8]; // sizes: the largest that fits
const SMALL_PX = 8; // of the stage
const NARROW = "Arial, 'Liberation Sans', Helvetica, sans-serif"; // the style sheet's, too
const MOST_WORDS = 2500;
const MOST_LINES = 3;
const ruler = document.createElement("canvas").getContext("2d");
const known = new Map();

// Width of a word, escaped as for HTML, at a font size of one pixel.
function widthOf(word) {
  if (!known.has(word)) {
    ruler.font = `100px ${NARROW}`;
    known.set(word, ruler.measureText(word.replace(/&\w+;/g, "&")).width / 100);
  }
  return known.get(word);
}

// What may stand in a bar: a word, and what small follows it.
function wordOf(levels, columns, row) {
  const word = levels.words[columns.paint[row]];
  if (word === "*") return [nameOf(levels, columns, row), ""];
  if (word !== "#") return [word, ""];
  if (columns.microbatch[row] < 0) return ["", ""];
  return [String(columns.microbatch[row]), columns.stage[row] < 0 ? "" : String(columns.stage[row])];
}

// Size at which a word fits a bar of `width` by `height` pixels, and whether the small one beside it does: [0, false]
// where none fits. Numbers are large only where the widest of them could be, so that equal bars look alike.
function sizeOf(word, small, widest, width, height) {
  const beside = small ? SMALL_PX * widthOf(small) + 1 : 0;
  for (const more of beside ? [beside, 0] : [0]) {
    for (const px of WORD_PX) {
      const needed = px === WORD_PX[0] ? px * widest + 3 : px * widthOf(word) + 0.5;
      if (px < height && needed + more <= width) return [px, more > 0];
    }
  }
  return [0, false];
}

// The bars with their words, for a picture that plotly.js draws.
function withWords(target, levels, columns) {
  return target.data.map((trace, index) => {
    const rows = Array.from(target._fullData[index].customdata ?? []);
    const text = rows.map((row) => {
      const [word, small] = row < 0 ? ["", ""] : wordOf(levels, columns, row);
      return small ? `${word}<sub>${small}</sub>` : word;
    });
    return { ...trace, text, textposition: "inside" };
  });
}

// For each lane: of each stage of its bars, how many of its stages come before.
function earlierStages(columns) {
  const found = [];
  for (let lane = 0; lane + 1 < columns.first.length; lane++) {
    const stages = [...new Set(columns.stage.subarray(columns.first[lane], columns.first[lane + 1]))];
    found.push(new Map(stages.filter((stage) => stage >= 0).sort((a, b) => a - b).map((stage, i) => [stage, i])));
  }
  return found;
}

function showWords(target, levels, columns, overlay) {
  const feet = shape("path", { class: "feet" });
  const group = shape("g", { class: "words" });
  const numbers = columns.microbatch.reduce((most, one) => Math.max(most, one), 0);
  const widest = widthOf("0".repeat(String(numbers).length));
  const earlier = earlierStages(columns);
  overlay.svg.append(feet, group);
  const draw = () => {
    const { xaxis, yaxis } = target._fullLayout;
    const [low, high] = xaxis.range;
    const pixel = xaxis._length / (high - low), zero = -low * pixel; // xaxis.l2p rounds to hundredths of a pixel
    const found = [];
    let lines = "";
    for (const { visible, base, x, y, width: heights, customdata } of target._fullData) {
      if (visible !== true || !customdata) continue;
      for (let i = 0; i < customdata.length; i++) {
        const row = customdata[i], left = zero + base[i] * pixel;
        const from = Math.max(0, left), to = Math.min(xaxis._length, left + x[i] * pixel), width = to - from;
        if (row < 0 || width < 2.5) continue;
        const [middle, height] = [yaxis.l2p(y[i]), heights[i]];
        const stage = columns.stage[row];
        for (let foot = stage < 0 ? 0 : Math.min(MOST_LINES, earlier[laneOf(columns, row)].get(stage)); foot > 0; foot--) {
          lines += `M${(from + 0.8).toFixed(1)} ${(middle + height / 2 - 3 * foot).toFixed(1)}h${(width - 1.6).toFixed(1)}`;
        }
        if (width < 5 || found.length >= MOST_WORDS) continue;
        const [word, small] = wordOf(levels, columns, row);
        const paint = columns.paint[row];
        const size = word ? sizeOf(word, small, levels.words[paint] === "#" ? widest : widthOf(word), width, height) : [0];
        if (!size[0]) continue;
        const at = `x="${((from + to) / 2).toFixed(1)}" y="${(middle + 0.36 * size[0]).toFixed(1)}"`;
        const beside = size[1] ? `<tspan dy="2" dx="0.5" font-size="${SMALL_PX}">${small}</tspan>` : "";
        found.push(`<text ${at} font-size="${size[0]}" style="fill: ${levels.paints[paint].textfont.color}">${word}${beside}</text>`);
      }
    }
    feet.setAttribute("d", lines);
    group.innerHTML = found.join("");
  };
  target.on("plotly_afterplot", draw);
  target.toDownload = () => withWords(target, levels, columns);
  draw();
}
