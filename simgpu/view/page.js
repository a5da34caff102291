"use strict";
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
}
// Paper has its own width: draw again for it, and back afterwards.
for (const when of ["beforeprint", "afterprint"]) {
  addEventListener(when, () => document.querySelectorAll(".js-plotly-plot").forEach((plot) => Plotly.Plots.resize(plot)));
}
