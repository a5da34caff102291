"use strict";
// Curves of many steps: drawn from all their points in the window that is shown. "hold" keeps the lowest and highest
// value of each pixel or so, "mean" the mean over time.
const MOST_POINTS = 1600;

function firstAt(x, value) {
  let low = 0, high = x.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (x[middle] > value) high = middle;
    else low = middle + 1;
  }
  return Math.max(0, low - 1);
}

function curveIn(x, y, how, begin, end) {
  const from = firstAt(x, begin), to = Math.min(x.length, firstAt(x, end) + 2);
  if (to - from <= MOST_POINTS) return { x: x.slice(from, to), y: y.slice(from, to) };
  const bins = MOST_POINTS / 2, width = (end - begin) / bins;
  const found = { x: [], y: [] };
  let at = from;
  for (let bin = 0; bin < bins; bin++) {
    const left = begin + bin * width, right = left + width;
    while (at + 1 < x.length && x[at + 1] <= left) at++;
    let low = y[at], high = y[at], sum = 0;
    for (let i = at; i < x.length && x[i] < right; i++) {
      low = Math.min(low, y[i]);
      high = Math.max(high, y[i]);
      sum += y[i] * (Math.min(right, i + 1 < x.length ? x[i + 1] : right) - Math.max(left, x[i]));
    }
    const values = how === "mean" ? [sum / width] : low === high ? [low] : [low, high];
    values.forEach((value, i) => {
      found.x.push(left + (i * width) / 2);
      found.y.push(value);
    });
  }
  return found;
}

function showCurves(target, curves) {
  for (const curve of curves) [curve.x, curve.y] = [plain(curve.x), plain(curve.y)];
  target.on("plotly_relayout", (change) => {
    if (!Object.keys(change).some((key) => key.startsWith("xaxis"))) return;
    const [low, high] = target.layout.xaxis.range;
    const shown = curves.map((curve) => curveIn(curve.x, curve.y, curve.how, low, high));
    const traces = curves.map((curve) => curve.trace);
    Plotly.restyle(target, { x: shown.map((one) => one.x), y: shown.map((one) => one.y) }, traces);
  });
}
