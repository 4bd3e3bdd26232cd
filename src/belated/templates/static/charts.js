// Charts and tables from one description of what they show, a picture:
//   x        where the points are: seconds since 1970, numbers, or places of labels
//   kind     "time", "log" (numbers by their size), "line" (numbers) or "bars" (a label for each place)
//   labels   of bars
//   across   what x is, in a word
//   format   number -> text
//   from0    whether the scale begins at 0; range: where it begins and ends
//   marks    times at which there is a dotted line
//   more     what is said behind the legend, of what is not drawn
//   also     rows of the table that are not drawn: [[name, number, …], …]
//   empty    what is said where there is nothing to draw
//   series   [{label, colour, values, low, high, dotted}]: colour is a custom property of the page; low and high, if
//            there, are the ends of a band around the values
// A value that is not there is null, and leaves a gap. Times are in UTC, as everywhere on the pages.

const HEIGHT = 260, NARROW = 560, MOST_ROWS = 24;
const FEW_BANDS = 3;  // more bands on top of each other are fainter
const DOTS = [1, 5];  // of a dotted line: how long a dot is, and the gap behind it
const drawn = new Map();
const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export const short = value => value === null || value === undefined || !isFinite(value) ? "–"
  : Math.abs(value) >= 100 || value === Math.round(value) ? (Math.round(value) + 0).toLocaleString("en")
  : String(Number(value.toPrecision(3)));

export const percent = value => value === null || value === undefined ? "–"
  : (100 * value).toFixed(value >= 0.1 || value === 0 ? 0 : 1) + " %";

const day = at => at.toISOString().slice(0, 10);
const clock = (at, seconds) => at.toISOString().slice(11, seconds ? 19 : 16);

function name(picture, k) {
  if (picture.kind === "bars") return picture.labels[k];
  if (picture.kind !== "time") return short(picture.x[k]);
  const at = new Date(1000 * picture.x[k]);
  return day(at) + " " + clock(at, true) + " UTC";
}

function dates(plot, splits) {
  const span = plot.scales.x.max - plot.scales.x.min;
  return splits.map((t, k) => {
    const at = new Date(1000 * t);
    if (span > 3 * 86400) return day(at);
    return clock(at, span < 600) + (k === 0 ? "\n" + day(at) : "");
  });
}

// Where a logarithmic axis has its marks: 1, 2, 5, 10, … or, on narrow screens, the powers of ten.
function marks(low, high, narrow) {
  const found = [];
  for (let power = 10 ** Math.floor(Math.log10(low)); power <= high; power *= 10)
    for (const digit of narrow ? [1] : [1, 2, 5]) if (digit * power >= low && digit * power <= high) found.push(digit * power);
  return found;
}

const columns = picture => [picture.x, ...picture.series.flatMap(each =>
  each.low ? [each.values, each.low, each.high] : [each.values])];

function options(frame, picture) {
  const narrow = frame.clientWidth < NARROW, bars = picture.kind === "bars";
  const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 },
    ticks: { stroke: colour("--line"), width: 1, size: 5 }, font: "12px system-ui, sans-serif" };
  const series = [{}], bands = [];
  picture.series.forEach((each, k) => {
    const stroke = colour(each.colour);
    series.push({ stroke, width: 2, spanGaps: false, points: { show: false }, ...(each.dotted ? { dash: DOTS, cap: "round" } : {}),
      ...(bars ? { fill: stroke, paths: uPlot.paths.bars({ size: [0.8 / picture.series.length, 60],
        align: picture.series.length === 1 ? 0 : k ? 1 : -1 }) } : {}) });
    if (each.low) {
      const edge = { stroke: stroke + "55", width: 1, spanGaps: false, points: { show: false } };
      bands.push({ series: [series.length + 1, series.length], fill: stroke + (picture.series.length > FEW_BANDS ? "12" : "22") });
      series.push(edge, { ...edge });
    }
  });
  const below = bars ? { values: (_, at) => at.map(k => picture.labels[k] ?? ""), splits: () => picture.x, grid: { show: false },
      ...(narrow ? { rotate: -60, size: 78 } : {}) }
    : picture.kind === "time" ? { values: dates, size: 46, space: narrow ? 70 : 90 }
    : { values: (_, at) => at.map(v => v === null ? "" : short(v)), space: narrow ? 50 : 70,
      ...(picture.kind === "log" ? { splits: (_, __, low, high) => marks(low, high, narrow), filter: (_, at) => at } : {}) };
  return {
    width: frame.clientWidth - 20, height: HEIGHT, tzDate: t => uPlot.tzDate(new Date(1000 * t), "UTC"), ...(picture.kind === "time" ? { padding: [null, 28, null, null] } : {}),
    scales: { x: { time: picture.kind === "time", ...(picture.kind === "log" ? { distr: 3, range: (_, low, high) => [low, high] } : {}),
      ...(bars ? { range: [-0.6, picture.x.length - 0.4] } : {}) }, 
      ...(picture.range ? { y: { range: () => drawn.get(frame)?.picture.range ?? picture.range } } : picture.from0 || bars ? { y: { range: (_, low, high) => [0, high > 0 ? high * 1.05 : 1] } } : {}) },
    cursor: { y: false, points: { size: 7 } }, legend: { show: false }, bands,
    axes: [{ ...axis, ...below }, { ...axis, size: 62, values: (_, at) => at.map(picture.format) }],
    series,
    hooks: { setCursor: [plot => tell(frame, plot.cursor.idx)], drawAxes: [plot => mark(plot, drawn.get(frame)?.picture ?? picture)] },
  };
}

function mark(plot, picture) {
  const { ctx, bbox } = plot, [from, to] = [plot.scales.x.min, plot.scales.x.max];
  ctx.save();
  ctx.strokeStyle = colour("--soft");
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
  for (const at of (picture.marks ?? []).filter(each => each > from && each < to)) {
    const x = Math.round(plot.valToPos(at, "x", true));
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}

function legend(frame, picture) {
  const made = document.createElement("p");
  made.className = "legend";
  const at = document.createElement("span");
  at.className = "soft at";
  picture.series.forEach(each => {
    const item = document.createElement("span"), dot = document.createElement("i"), value = document.createElement("b");
    dot.className = each.dotted ? "dots" : "dot";
    dot.style[each.dotted ? "borderColor" : "background"] = colour(each.colour);
    const label = document.createElement("bdi");
    label.textContent = each.label;
    item.append(dot, " ", label, " ", value);
    made.append(item);
  });
  const more = document.createElement("span");
  more.className = "more";
  made.append(more, at);
  frame.append(made);
}

// Tell in the legend what the chart shows at a point, or at the last one.
function tell(frame, k) {
  const { picture } = drawn.get(frame) ?? {};
  if (!picture) return;
  const at = k !== null && k < picture.x.length ? k : picture.kind === "bars" ? null : picture.x.length - 1;
  frame.querySelectorAll(".legend b").forEach((value, s) => {
    const { values, low, high } = picture.series[s];
    value.textContent = at === null ? "" : picture.format(values[at])
      + (low && low[at] !== null ? " (" + picture.format(low[at]) + " to " + picture.format(high[at]) + ")" : "");
  });
  frame.querySelector(".legend .more").textContent = picture.more ?? "";
  frame.querySelector(".legend .at").textContent = at === null ? "" : picture.across + " " + name(picture, at);
}

// Draw a picture in a frame. The chart that is there stays where only its numbers have changed.
export function draw(frame, picture) {
  const shape = JSON.stringify([picture.kind, picture.labels, picture.series.map(each => [each.label, each.colour, !each.low])]);
  const old = drawn.get(frame);
  if (old && old.shape === shape) {
    old.picture = picture;
    old.plot.setData(columns(picture));
    tell(frame, old.plot.cursor.idx);
    return;
  }
  if (old) { old.plot.destroy(); drawn.delete(frame); }
  frame.textContent = "";
  frame.classList.toggle("empty", picture.x.length < (picture.kind === "bars" ? 1 : 2));
  if (picture.x.length < (picture.kind === "bars" ? 1 : 2)) {
    frame.textContent = picture.empty ?? "There is too little to draw yet.";
    return;
  }
  const plot = new uPlot(options(frame, picture), columns(picture), frame);
  drawn.set(frame, { plot, shape, picture });
  legend(frame, picture);
  tell(frame, null);
}

// Write the same into a table: of many points some, the newest first.
export function tabulate(table, picture) {
  const cell = (tag, text, scope) => {
    const made = document.createElement(tag);
    made.textContent = text;
    if (scope) made.scope = scope;
    return made;
  };
  const row = cells => { const made = document.createElement("tr"); made.append(...cells); return made; };
  const head = document.createElement("thead"), body = document.createElement("tbody");
  head.append(row([cell("th", picture.across, "col"), ...picture.series.flatMap(each =>
    [each.label, ...(each.low ? ["from", "to"] : [])].map(text => cell("th", text, "col")))]));
  const all = picture.x.map((_, k) => k), step = Math.max(1, Math.ceil(all.length / MOST_ROWS));
  const rows = picture.kind === "bars" ? all : all.reverse().filter((_, k) => k % step === 0);
  for (const k of rows) {
    body.append(row([cell("th", name(picture, k), "row"), ...picture.series.flatMap(each =>
      [each.values, ...(each.low ? [each.low, each.high] : [])].map(values => cell("td", picture.format(values[k]))))]));
  }
  for (const [first, ...numbers] of picture.also ?? [])
    body.append(row([cell("th", first, "row"), ...numbers.map(number => cell("td", picture.format(number)))]));
  table.replaceChildren(head, body);
}

export function show(id, picture) {
  draw(document.querySelector(`[data-chart="${id}"]`), picture);
  tabulate(document.querySelector(`[data-table="${id}"]`), picture);
}

function again() {
  for (const [frame, { plot, picture }] of [...drawn]) {
    plot.destroy();
    drawn.delete(frame);
    draw(frame, picture);
  }
}

let width = innerWidth;
addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; again(); } });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
