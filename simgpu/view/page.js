"use strict";
// Figures with a time axis show the same stretch of the step, and the moment under the mouse in all of them.
function together(targets, overlays) {
  let leader = null;
  const range = (target) => target.layout.xaxis.range.slice();
  for (const target of targets) {
    target.on("plotly_relayout", async (change) => {
      if (leader || !Object.keys(change).some((key) => key.startsWith("xaxis"))) return;
      leader = target;
      let wanted;
      do {
        wanted = range(target);
        const others = targets.filter((other) => other !== target && String(range(other)) !== String(wanted));
        await Promise.all(others.map((other) => Plotly.relayout(other, { "xaxis.range": wanted })));
      } while (String(range(target)) !== String(wanted)); // it moved on meanwhile
      leader = null;
    });
    target.addEventListener("mousemove", (event) => {
      const axis = target._fullLayout.xaxis;
      const pixel = event.clientX - target.getBoundingClientRect().left - axis._offset;
      const ms = pixel < 0 || pixel > axis._length ? null : axis.p2l(pixel);
      overlays.forEach((overlay) => overlay.mark(ms));
    });
    target.addEventListener("mouseleave", () => overlays.forEach((overlay) => overlay.mark(null)));
  }
}

const DOWNLOAD = {
  name: "download",
  title: "Download this picture as SVG",
  icon: Plotly.Icons.camera,
  click: (target) => {
    const { width, height } = target._fullLayout;
    const figure = { data: target.toDownload?.() ?? target.data, layout: target.layout };
    return Plotly.downloadImage(figure, { format: "svg", filename: target.id, width, height });
  },
};

async function drawAll() {
  const timed = [], overlays = [];
  for (const box of document.querySelectorAll("script[type='application/json'][data-figure]")) {
    const figure = JSON.parse(box.textContent);
    const target = document.getElementById(box.dataset.figure);
    if (figure.levels) for (const trace of figure.data) trace.textposition = "none"; // words.js writes them
    await Plotly.newPlot(target, figure.data, figure.layout, {
      responsive: true,
      displaylogo: false,
      // Named one by one: plotly's own set has a button that uploads the chart.
      modeBarButtons: [[DOWNLOAD], ["zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", "resetScale2d"]],
    });
    if (!figure.time) continue;
    const overlay = new Overlay(target);
    timed.push(target);
    overlays.push(overlay);
    if (figure.curves) showCurves(target, figure.curves);
    if (!figure.levels) continue;
    const levels = figure.levels;
    for (const name of ["middle", "thickness"]) levels[name] = plain(levels[name]);
    const columns = await unpack(levels);
    if (levels.redraw) showWindows(target, figure, columns);
    showWords(target, levels, columns, overlay);
    explain(target, levels, columns, overlay);
  }
  together(timed, overlays);
  document.documentElement.dataset.drawn = "yes";
}
drawAll();
// Buttons that copy the text beside them; a page opened from a file may be refused the clipboard, then it is selected.
for (const button of document.querySelectorAll("[data-copy]")) {
  button.addEventListener("click", async () => {
    const text = button.parentElement.querySelector("pre");
    getSelection().selectAllChildren(text);
    const copied = await (navigator.clipboard?.writeText(text.textContent) ?? Promise.reject())
      .then(() => true)
      .catch(() => document.execCommand("copy"));
    button.textContent = copied ? "Copied" : "Selected: press Ctrl+C";
    setTimeout(() => (button.textContent = "Copy"), 2500);
  });
}
// Paper has its own width: draw again for it, and back afterwards.
for (const when of ["beforeprint", "afterprint"]) {
  addEventListener(when, () => document.querySelectorAll(".js-plotly-plot").forEach((plot) => Plotly.Plots.resize(plot)));
}
