"use strict";
// Bars too short to see are merged; each is drawn once the reader has zoomed in far enough to tell them apart.
function showLevels(target) {
  const width = () => Math.abs(target.layout.xaxis.range[1] - target.layout.xaxis.range[0]);
  const full = width();
  let shown = "overview";
  target.on("plotly_relayout", () => {
    const wanted = width() < full / 5 ? "detail" : "overview";
    if (wanted === shown) return;
    const hidden = new Set(target.data.filter((trace) => trace.visible === "legendonly").map((trace) => trace.name));
    shown = wanted;
    const visible = (trace) => trace.meta === shown && (hidden.has(trace.name) ? "legendonly" : true);
    Plotly.restyle(target, { visible: target.data.map(visible) });
  });
}
for (const box of document.querySelectorAll("script[type='application/json'][data-figure]")) {
  const figure = JSON.parse(box.textContent);
  const target = document.getElementById(box.dataset.figure);
  Plotly.newPlot(target, figure.data, figure.layout, {
    responsive: true,
    displaylogo: false,
    // Named one by one: plotly's own set has a button that uploads the chart.
    modeBarButtons: [["toImage"], ["zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", "resetScale2d"]],
    toImageButtonOptions: { format: "svg", filename: box.dataset.figure },
  });
  if (figure.data.some((trace) => trace.meta === "detail")) showLevels(target);
  if (figure.levels) showWindows(target, figure);
}
// Paper has its own width: draw again for it, and back afterwards.
for (const when of ["beforeprint", "afterprint"]) {
  addEventListener(when, () => document.querySelectorAll(".js-plotly-plot").forEach((plot) => Plotly.Plots.resize(plot)));
}
